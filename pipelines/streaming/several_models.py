"""Several models on the same sources: a stream for each model, one decode for all of them, one sequence of events."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from threading import Event, Thread

from pipelines.errors import CotransError, UsageError
from pipelines.streaming.messages import Remark, SourceEnded
from pipelines.streaming.options import PlayOptions, PredictionOptions
from pipelines.streaming.output.summary import Statistics, Summary
from pipelines.streaming.pipeline import Stream
from pipelines.streaming.playing.emitter import OnMedia
from pipelines.streaming.playing.pump import MediaItem
from pipelines.streaming.predicting.prediction import Prediction
from pipelines.streaming.predicting.stream_model import StreamModel
from pipelines.streaming.sources.shared_media import SharedMedia, Tracks
from pipelines.streaming.sources.source import StreamSource

WAITING = 64  # events that may wait for the output
PATIENCE = 0.1  # seconds between looks at whether anybody still reads


def watched(sources: Sequence[StreamSource], models: Sequence[StreamModel]) -> list[StreamSource]:
    """Every source once for each model, which is what events are numbered by; a single model changes nothing."""
    if len(models) == 1:
        return list(sources)
    return [replace(source, model=model.name) for source in sources for model in models]


class SeveralModels:
    """As a `Stream`, for several models. Each gives what it would give alone; they see the same pieces of media."""

    resumed = None  # snapshots are of one model

    def __init__(
        self,
        sources: Sequence[StreamSource],
        models: Sequence[StreamModel],
        options: PlayOptions,
        prediction: PredictionOptions,
        on_remark: Callable[[Remark], None] | None = None,
        on_media: OnMedia | None = None,
    ) -> None:
        names = [model.name for model in models]
        if len(set(names)) < len(names):
            raise UsageError(f"--model {','.join(names)} names a model twice: name it once")
        if options.snapshot or options.resume:
            raise UsageError("--snapshot and --resume hold the state of one model: give one --model")
        self.sources = tuple(watched(sources, models))
        labels = [f"{source.name} ({source.model})" for source in self.sources]
        self.statistics = Statistics(labels)
        self.media = SharedMedia([_tracks(model) for model in models])
        self._originals = tuple(sources)
        self._count = len(models)
        self._streams = [
            Stream(
                self._originals,
                model,
                options,
                prediction,
                on_remark,
                statistics=self.statistics.part(range(place, len(self.sources), self._count)),
                opener=partial(self.media.open, place),
                on_media=None if on_media is None else partial(self._show, on_media, place),
            )
            for place, model in enumerate(models)
        ]
        self._batches: queue.Queue[list[Prediction | SourceEnded] | _Done] = queue.Queue(WAITING)
        self._closed = Event()

    def events(self) -> Iterator[Prediction | SourceEnded]:
        """Predictions of all models as they come, and which source is over for which of them."""
        return chain.from_iterable(self.batches())

    def batches(self) -> Iterator[list[Prediction | SourceEnded]]:
        """The events that came of one step or chunk of a model, for whoever writes them together."""
        threads = [
            Thread(target=self._run, args=(place,), name=f"cotrans model {place}", daemon=True)
            for place in range(self._count)
        ]
        for thread in threads:
            thread.start()
        running = self._count
        try:
            while running:
                events = self._batches.get()
                if isinstance(events, _Done):
                    running -= 1
                    if events.error is not None:
                        raise events.error
                    continue
                yield events
        finally:
            self._closed.set()
            self.stop()
            for thread in threads:
                thread.join()
            self.statistics.end()

    @property
    def errors(self) -> list[CotransError]:
        """What is wrong with sources, once for each model that could not watch one."""
        return [error for stream in self._streams for error in stream.errors]

    def give_up(self, number: int, error: CotransError) -> None:
        """End one source for one model, with this error. The others go on."""
        self._streams[number % self._count].give_up(number // self._count, error)

    def stop(self) -> None:
        """End soon: what has been predicted is still given out. From any thread."""
        for stream in self._streams:
            stream.stop()

    def pause_source(self, number: int, paused: bool = True) -> None:
        """As in a `Stream`, for all models that watch the source: they share its media."""
        for stream in self._streams:
            stream.pause_source(number // self._count, paused)

    def stop_source(self, number: int) -> None:
        """End a source for all models that watch it; the others play on."""
        for stream in self._streams:
            stream.stop_source(number // self._count)

    def summary(self) -> Summary:
        """How it went so far, for all models together."""
        return self.statistics.summary(self._count)

    def raise_if_all_failed(self) -> None:
        if self.errors and len(self.errors) == len(self.sources):
            raise self.errors[0]

    def _show(self, on_media: OnMedia, place: int, number: int, item: MediaItem, time: float) -> None:
        on_media(number * self._count + place, item, time)

    def _run(self, place: int) -> None:
        """The events of one model, under the numbers of the whole."""
        error: Exception | None = None
        try:
            for events in self._streams[place].batches():
                self._put([self._renumbered(place, event) for event in events])
        except Exception as problem:  # raised again where the events are read
            error = problem
        for source in self._originals:
            self.media.leave(place, source)
        self._put(_Done(error))

    def _renumbered(self, place: int, event: Prediction | SourceEnded) -> Prediction | SourceEnded:
        if isinstance(event, Prediction):
            number = event.source_number * self._count + place
            return replace(event, source_number=number, model=self.sources[number].model)
        self.media.leave(place, self._originals[event.number])
        return replace(event, number=event.number * self._count + place)

    def _put(self, events: list[Prediction | SourceEnded] | _Done) -> None:
        while not self._closed.is_set():
            try:
                self._batches.put(events, timeout=PATIENCE)
                return
            except queue.Full:
                continue


class _Done:
    """A model has nothing more to say."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error


def _tracks(model: StreamModel) -> Tracks:
    kinds = {part.kind for part in model.features.parts} if model.features else set()
    return Tracks("audio" in kinds, "video" in kinds)
