"""The whole stream: sources, features, model and output as stages in threads, with bounded queues between them."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.errors import CotransError, InputError, UsageError
from pipelines.files import unwritable
from pipelines.metrics.class_order import OrderFilter
from pipelines.streaming.messages import Ended, Place, Remark, Row, SourceEnded
from pipelines.streaming.options import PlayOptions, PredictionOptions
from pipelines.streaming.output.summary import Statistics, Summary
from pipelines.streaming.playing.control import SourceControl
from pipelines.streaming.playing.emitter import MediaOpener, OnMedia, PlayContext
from pipelines.streaming.playing.inbox import Inbox
from pipelines.streaming.playing.slots import SlotPlayers
from pipelines.streaming.predicting.encoder_stage import MOST_ROWS, EncoderStage, Mark, Message, Result
from pipelines.streaming.predicting.prediction import Answer, Heard, Interpreter, Prediction, answers_together
from pipelines.streaming.predicting.session import StreamSession
from pipelines.streaming.predicting.snapshots import (
    SourceProgress,
    StreamSnapshot,
    check_same,
    load_snapshot,
    save_snapshot,
)
from pipelines.streaming.predicting.stream_model import StreamModel
from pipelines.streaming.sources.media_source import open_media
from pipelines.streaming.sources.source import StreamSource

if TYPE_CHECKING:
    import pandas

LIVE_ROWS, FAST_ROWS = 4, 2 * MOST_ROWS  # rows of each source that may wait for the model: little delay, or full chunks
LIVE_RESULTS, FAST_RESULTS = 8, 64  # steps or chunks whose results may wait for the output
GOODBYE = 3.0  # seconds that closing waits for a thread
EVERY = 10.0  # seconds between snapshots


class Stream:
    """Iterate over it for predictions; `stop` ends it early; `summary` says how it went."""

    def __init__(
        self,
        sources: Sequence[StreamSource],
        model: StreamModel,
        options: PlayOptions | None = None,
        prediction: PredictionOptions | None = None,
        on_remark: Callable[[Remark], None] | None = None,
        sink_state: Callable[[], Any] | None = None,
        statistics: Statistics | None = None,
        opener: MediaOpener = open_media,
        on_media: OnMedia | None = None,
    ) -> None:
        """on_remark: told what a person should know while the stream runs; from any thread.

        sink_state: what the output wants to find in a snapshot (plain JSON values). statistics: of all sources, where
        they are part of something larger. opener: opens media, where several streams share it. on_media: given the
        sound and the pictures that features are made of, when they play.
        """
        self.sources, self.model = tuple(sources), model
        self.options = options or PlayOptions()
        self._prediction = prediction or PredictionOptions()
        self._top_k = self._prediction.shown(len(model.class_names))
        self._prediction.rule(model.class_names)  # what it cannot mean is said before anything plays
        self.options.check_sources(self.sources)
        own = None if model.features is None else model.features.hop
        if own is not None and self.options.hop not in (None, own):
            raise UsageError(f"--hop {self.options.hop:g}: {model.name} takes rows every {own:g} s: leave it out")
        self._on_remark, self._sink_state = on_remark, sink_state
        self.statistics = statistics or Statistics([source.name for source in self.sources])
        self._opener, self._on_media = opener, on_media
        self.errors: list[CotransError] = []
        slots = min(self.options.at_once, len(self.sources))
        self._stop = Event()
        self._controls = [SourceControl() for _ in self.sources]
        paced = not self.options.fast or any(not source.repeatable for source in self.sources)
        self._inbox = Inbox(slots, LIVE_ROWS if paced else FAST_ROWS, self._stop, self.statistics.dropped)
        self._output: queue.Queue[Message] = queue.Queue(LIVE_RESULTS if paced else FAST_RESULTS)
        self._encoder = EncoderStage(
            StreamSession(model.model, slots),
            self._inbox,
            self._output,
            self.statistics,
            self._broken,
            (self.options.every or EVERY) if self.options.snapshot else None,
            chunks=not paced,
        )
        wanted = self._prediction.smooth
        self._smooth = model.smoothing if wanted is None else wanted  # seconds
        self._interpreters: dict[int, Interpreter] = {}
        self._resumed: dict[int, SourceProgress] = {}  # of a snapshot, until a source's first row is there
        played = {"start": self.options.start, "duration": self.options.duration, "smooth": self._smooth}
        ordered = {} if model.order is None else {"order": self._prediction.order}
        self._settings: dict[str, Any] = {**played, **ordered, "activation": model.score_kind, "rows": slots}
        self.resumed = self._resume(self.options.resume) if self.options.resume else None
        self._threads: list[Thread] = []
        self._failure: Exception | None = None
        self._failed: dict[int, CotransError] = {}  # by source
        self._over: set[int] = set()  # sources of which the reader has been told that they are over

    # ---- for the caller ------------------------------------------------------------------------------------

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Prediction]:
        """Predictions as they come. At the end, if no source could be played to its end, its error is raised."""
        for event in self.events():
            if isinstance(event, Prediction):
                yield event
        self.raise_if_all_failed()

    def events(self) -> Iterator[Prediction | SourceEnded]:
        """Predictions, and which sources are over. Errors of sources do not raise: they are in the event."""
        return chain.from_iterable(self.batches())

    def batches(self) -> Iterator[list[Prediction | SourceEnded]]:
        """The events that came of one step or chunk, for whoever writes them together."""
        if self._threads or self._stop.is_set():
            raise UsageError("a stream plays once: open a new one")
        self._start()
        try:
            while (message := self._output.get()) is not None:
                if isinstance(message, Mark):
                    self._save(message)
                    continue
                events = self._told(message)
                begin = time.monotonic()
                yield events
                self.statistics.took("output", (time.monotonic() - begin) / max(1, len(events)), len(events))
            if self._failure is not None:
                raise self._failure
        finally:
            self.statistics.end()
            self.close()

    def to_frame(self) -> pandas.DataFrame:
        """Play to the end: a row for each prediction, with a column of probabilities for each class."""
        import pandas

        columns = ["source", "time", "label", "score", "warmup"]
        rows = [
            (*(getattr(prediction, name) for name in columns), *prediction.probabilities.tolist())
            for prediction in self
        ]
        return pandas.DataFrame(rows, columns=[*columns, *self.model.class_names])

    def stop(self) -> None:
        """End soon: what has been predicted is still given out. From any thread."""
        self._stop.set()
        for control in self._controls:
            control.stop.set()

    def pause_source(self, number: int, paused: bool = True) -> None:
        """Let a source stand still, or go on: a live one with the present, any other where it stood."""
        self._controls[number].pause(paused)

    def stop_source(self, number: int) -> None:
        """End one source; the others play on."""
        self._controls[number].stop.set()

    def give_up(self, number: int, error: CotransError) -> None:
        """End one source, whose predictions cannot be used any more, with this error. The others go on."""
        if number in self._failed:
            return
        self._fail(number, error)
        self.stop_source(number)
        if number in self._over:
            self._remark(number, str(error))

    def close(self) -> None:
        """End all threads."""
        self.stop()
        self._inbox.wake()
        deadline = time.monotonic() + GOODBYE
        for thread in self._threads:
            while thread.is_alive() and time.monotonic() < deadline:
                self._discard_output()
                thread.join(0.05)
        self._threads = [thread for thread in self._threads if thread.is_alive()]

    def summary(self) -> Summary:
        """How it went so far."""
        return self.statistics.summary()

    def raise_if_all_failed(self) -> None:
        if self.errors and len(self.errors) == len(self.sources):
            raise self.errors[0]

    # ---- threads -------------------------------------------------------------------------------------------

    def _start(self) -> None:
        context = partial(
            PlayContext,
            model=self.model,
            options=self.options,
            open_media=self._opener,
            inbox=self._inbox,
            on_begin=self.statistics.begin,
            on_length=self.statistics.opened,
            on_remark=self._remark,
            on_reconnected=self.statistics.reconnected,
            on_dropped=self.statistics.dropped,
            on_decoded=partial(self.statistics.took, "decode"),
            on_media=self._on_media,
        )
        players = SlotPlayers(self.sources, self._controls, context, self._inbox, self._stop)
        players.resume(self._encoder.slots, self._encoder.places, self._encoder.over)
        self._threads = [
            *players.threads(self._encoder.session.rows, self.options.fast),
            Thread(target=self._run_encoder, name="cotrans encoder", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _run_encoder(self) -> None:
        try:
            self._encoder.run()
        except Exception as error:  # raised again where the predictions are read
            self._failure = error
        self.stop()
        self._output.put(None)

    # ---- output --------------------------------------------------------------------------------------------

    def _told(self, parts: list[Result | Ended]) -> list[Prediction | SourceEnded]:
        """What the reader is told of what one step gave, in its order; the rows of all sources are read together."""
        by_source: dict[int, list[list[Result]]] = {}
        for part in parts:
            if isinstance(part, Result):
                runs = by_source.setdefault(part.row.source, [])
                if not runs or part.row.restart:
                    runs.append([])
                runs[-1].append(part)
        heard = [(number, run) for number, runs in by_source.items() for run in runs]
        answers = answers_together([self._heard(number, run) for number, run in heard]) if heard else []
        predictions: dict[int, list[Iterator[Prediction]]] = {}
        for (number, run), said in zip(heard, answers, strict=True):
            predictions.setdefault(number, []).append(iter(self._predictions(number, run, said)))
        told = {number: chain.from_iterable(of) for number, of in predictions.items()}
        return [next(told[part.row.source]) if isinstance(part, Result) else self._ended(part) for part in parts]

    def _heard(self, number: int, results: list[Result]) -> Heard:
        """Rows of one source that follow each other; only the first of them may restart its window."""
        interpreter = self._interpreters.get(number)
        if interpreter is None:
            hop = results[0].row.end - results[0].row.begin
            interpreter = self._interpreters[number] = self._interpreter(number, hop)
        scores = np.stack([result.scores for result in results])
        return Heard(interpreter, scores, [result.seen for result in results], results[0].row.restart)

    def _predictions(self, number: int, results: list[Result], answers: list[Answer]) -> list[Prediction]:
        """What is told of rows of one source, and counted."""
        hops = [result.row.end - result.row.begin for result in results]
        now = time.monotonic()
        latencies = [max(0.0, now - result.row.complete) for result in results]
        name, window, lag = self.sources[number].name, self.model.window, self.model.model.config.lag
        early = [result.seen <= lag and not result.late for result in results]
        named = sum(answer.label is not None and not nothing for answer, nothing in zip(answers, early, strict=True))
        late = sum(result.late for result in results)  # of the same media as those before, and last
        own = len(results) - late
        self.statistics.predicted(number, hops[:own], latencies[:own], named, late)
        return [
            Prediction(
                source=name,
                source_number=number,
                index=result.row.index,
                time=result.row.time,
                begin=result.row.begin - lag * hop,  # a model with a lag speaks of a row that lies so far back
                end=result.row.end - lag * hop,
                label=answer.label,
                score=answer.score,
                top=answer.top,
                warmup=result.seen < window,
                latency_ms=1e3 * latency,
                scores=result.scores,
                probabilities=answer.probabilities,
                restart=result.row.restart,
                early=nothing,
            )
            for result, answer, latency, hop, nothing in zip(results, answers, latencies, hops, early, strict=True)
        ]

    def _interpreter(self, number: int, hop: float) -> Interpreter:
        model, rule = self.model, self._prediction.rule(self.model.class_names)
        rows = max(1, round(self._smooth / hop))
        order = OrderFilter(model.order, hop) if model.order is not None and self._prediction.order else None
        interpreter = Interpreter(model.class_names, model.score_kind, self._top_k, rule, rows, model.rejection, order)
        if (before := self._resumed.get(number)) is not None:
            interpreter.restore(before.smoothing, before.order)
        return interpreter

    def _ended(self, ended: Ended) -> SourceEnded:
        name = self.sources[ended.source].name
        error = ended.error or self._nothing_usable(ended.source)
        if error is not None and ended.source not in self._failed:
            self._fail(ended.source, error)
        self._over.add(ended.source)
        return SourceEnded(ended.source, name, self._failed.get(ended.source), ended.end)

    def _fail(self, number: int, error: CotransError) -> None:
        self._failed[number] = error
        self.errors.append(error)
        self.statistics.failed(number, str(error))

    def _nothing_usable(self, number: int) -> CotransError | None:
        """What to say of a source that was played to its end and of which no row could be used."""
        counted = self.statistics.sources[number]
        if counted.frames or not counted.broken:
            return None
        return InputError(
            f"{counted.name}: every row ({counted.broken:,}) holds NaN or infinity, or numbers too large for the "
            "model, so there is no prediction: extract the features again"
        )

    def _remark(self, number: int, text: str) -> None:
        if self._on_remark is not None:
            self._on_remark(Remark(self.sources[number].name, text))

    def _broken(self, row: Row, finite: bool) -> None:
        if self.statistics.broken(row.source) > 1:
            return
        if finite:
            what = "gives scores that are not finite, because of numbers too large for the model in its window"
        else:
            what = "holds NaN or infinity"
        self._remark(row.source, f"row {row.index} {what}: such rows are left out")

    def _discard_output(self) -> None:
        """Free a thread that waits for room in the queue after nobody reads any more."""
        try:
            while True:
                self._output.get_nowait()
        except queue.Empty:
            return

    # ---- snapshots -----------------------------------------------------------------------------------------

    def _save(self, mark: Mark) -> None:
        assert self.options.snapshot is not None
        progress = []
        for number, source in enumerate(self.sources):
            interpreter, before = self._interpreters.get(number), self._resumed.get(number)
            progress.append(
                SourceProgress(
                    source.name,
                    mark.places.get(number, Place()),
                    mark.slots.get(number),
                    over=number in mark.over,
                    smoothing=interpreter.state() if interpreter else before.smoothing if before else [],
                    recent=[row.tolist() for row in mark.recent.get(number, [])],
                    order=interpreter.order_state() if interpreter else before.order if before else [],
                    newest=mark.newest.get(number, []),
                )
            )
        sink = self._sink_state() if self._sink_state else None
        snapshot = StreamSnapshot(mark.state, tuple(progress), sink, self._settings)
        try:
            save_snapshot(self.options.snapshot, self.model.model, snapshot, self.model.name)
        except OSError as error:
            where = unwritable(self.options.snapshot, error, "choose another --snapshot")
            raise InputError(f"cannot write the snapshot: {where}") from error

    def _resume(self, path: Path) -> StreamSnapshot:
        snapshot = load_snapshot(path, self.model.model)
        check_same(path, snapshot, [source.name for source in self.sources], self._settings)
        recent = {
            source.slot: [np.array(row, np.float32) for row in source.recent]
            for source in snapshot.sources
            if source.slot is not None
        }
        self._encoder.session.restore(snapshot.state, recent)
        for number, progress in enumerate(snapshot.sources):
            if progress.over:
                self._encoder.over.add(number)
            if progress.slot is not None:
                self._encoder.goes_on(number, progress.slot, progress.place, progress.newest)
                self._resumed[number] = progress
        return snapshot
