"""A stream with its outputs: what `cotrans stream` runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from pipelines.errors import CheckpointError, InputError, UsageError
from pipelines.files import check_writable, refuse_overwriting, unwritable, write_text
from pipelines.streaming.messages import Remark
from pipelines.streaming.observing import Observer
from pipelines.streaming.options import PlayOptions, PredictionOptions
from pipelines.streaming.output.choice import OutputOptions, make_sink, output_files
from pipelines.streaming.output.formats import SUBTITLES
from pipelines.streaming.output.piped_sink import PipedSink
from pipelines.streaming.output.segments import SegmentTally
from pipelines.streaming.output.sinks import Sink
from pipelines.streaming.output.summary import Summary
from pipelines.streaming.pipeline import Stream
from pipelines.streaming.predicting.prediction import Prediction
from pipelines.streaming.predicting.stream_model import StreamModel
from pipelines.streaming.several_models import SeveralModels, watched
from pipelines.streaming.sources.source import StreamSource
from pipelines.untrusted.parsing import parsing

if TYPE_CHECKING:
    from pipelines.streaming.output.report import ReportSink
from pipelines.streaming.output.report_options import ReportOptions


@dataclass(frozen=True)
class RunOptions:
    """Everything that is not about the model."""

    play: PlayOptions
    prediction: PredictionOptions
    output: OutputOptions | None  # None: nothing is written, somebody only watches
    overlay: Path | None = None
    summary: Path | None = None
    report: ReportOptions | None = None


class StreamRun:
    """Plays sources into the sinks that the options ask for."""

    def __init__(
        self,
        sources: Sequence[StreamSource],
        models: Sequence[StreamModel],
        options: RunOptions,
        observer: Observer,
        standard_output: TextIO | None,
    ) -> None:
        self._options, self._observer, self._models = options, observer, models
        self._interrupted = False
        if options.overlay is not None:
            check_overlay(options, sources, models)
        check_outputs(options, watched(sources, models), models)
        merged = options.report is not None or (options.output is not None and options.output.by_segments)
        if options.prediction.least is not None and not merged:
            raise UsageError(
                f"--least is about stretches: it goes with --segments, {', '.join(SUBTITLES)} and --report"
            )
        if not options.prediction.order and all(model.order is None for model in models):
            names = ", ".join(model.name for model in models)
            raise UsageError(f"--no-order: the classes of {names} have no order: leave it out")
        self.stream: Stream | SeveralModels
        if len(models) == 1:
            self.stream = Stream(
                sources,
                models[0],
                options.play,
                options.prediction,
                observer.remark,
                lambda: self._sink_state(),
                on_media=observer.played,
            )
        else:
            self.stream = SeveralModels(
                sources, models, options.play, options.prediction, observer.remark, observer.played
            )
        self._sinks: list[Sink] = []
        self._report: ReportSink | None = None
        self._tally = SegmentTally() if merged else None
        if options.report is not None:
            from pipelines.streaming.output.report import ReportSink

            options.report.check_play(options.play)
            self._report = ReportSink(options.report, self.stream.sources, models, options.prediction, self._tally)
        if options.output is not None:
            state = self.stream.resumed.sink if self.stream.resumed else None
            with parsing(lambda why: CheckpointError(f"{options.play.resume} says wrongly what was written: {why}")):
                sink = make_sink(
                    options.output,
                    self.stream.sources,
                    models,
                    options.prediction,
                    standard_output,
                    self.stream.give_up,
                    state,
                    self._tally,
                )
            if options.output.out is None and self._others():
                sink = PipedSink(sink, self._reader_left)
            self._sinks.append(sink)
        if options.overlay is not None:
            from pipelines.streaming.output.overlay import Overlay

            self._sinks.append(Overlay(Path(sources[0].target), options.overlay, options.play, models[0].class_names))
        if self._report is not None:
            self._sinks.append(self._report)

    def run(self) -> Summary:
        """Until all sources are over, or `stop`. Whatever happens, the output is complete up to the last frame."""
        self._observer.begin(self.stream.statistics)
        try:
            for events in self.stream.batches():
                for sink in self._sinks:
                    sink.write(events)
                for event in events:
                    if isinstance(event, Prediction):
                        self._observer.predicted(event)
                    else:
                        self._observer.ended(event)
        finally:
            for sink in self._sinks:
                sink.close()
        summary = replace(
            self.stream.summary(),
            interrupted=self._interrupted,
            paced=not self._options.play.fast,
            narrowed=bool(self._options.prediction.only or self._options.prediction.hide),
            untold="" if self._tally is None else self._tally.silence,
            model="; ".join(model.described for model in self._models),
        )
        if self._options.summary is not None:
            self._write_summary(self._options.summary, summary)
        if self._report is not None:
            self._report.finish(summary)
        return summary

    def _write_summary(self, path: Path, summary: Summary) -> None:
        try:
            write_text(path, json.dumps(summary.to_dict(), indent=2, ensure_ascii=False) + "\n")
        except OSError as error:
            raise InputError(unwritable(path, error, "choose another --summary")) from error

    @property
    def written(self) -> list[Path]:
        """The files, and the folder of files, that are there now."""
        out = self._options.output.out if self._options.output is not None else None
        return [path for path in (out, *self._others()) if path is not None and path.exists()]

    def _others(self) -> list[Path]:
        """The files that are written beside the predictions."""
        options = self._options
        named = (options.overlay, options.summary, None if options.report is None else options.report.path)
        return [path for path in named if path is not None]

    def _reader_left(self) -> None:
        others = " and ".join(map(str, self._others()))
        self._observer.remark(Remark("standard output", f"nobody reads it any more; it goes on for {others}"))

    def stop(self) -> None:
        """End soon; from any thread."""
        self._interrupted = True
        self.stream.stop()

    def _sink_state(self) -> object:
        return self._sinks[0].state() if self._sinks and self._options.output is not None else None


def check_outputs(options: RunOptions, sources: Sequence[StreamSource], models: Sequence[StreamModel]) -> None:
    """Refuse to write over what is read, or two outputs over one another."""
    play = options.play
    single = [
        ("--overlay", options.overlay),
        ("--summary", options.summary),
        ("--snapshot", play.snapshot),
        ("--report", None if options.report is None else options.report.path),
    ]
    outputs = [(option, path) for option, path in single if path is not None]
    if options.output is not None:
        outputs += output_files(options.output, sources)
    inputs = [
        *(file for model in models for file in model.files),
        *(file for source in sources for file in source.files),
        *([options.report.truth] if options.report is not None and options.report.truth is not None else []),
    ]
    refuse_overwriting(outputs, inputs)
    alone = [(option, path) for option, path in single if path is not None]
    if options.output is not None and options.output.out is not None and not options.output.to_folder:
        alone.append(("--out", options.output.out))
    for option, path in alone:  # a file that belongs to one source of many must not end the others
        check_writable(path, option)
    if play.resume is not None:  # only the next snapshot may take its place
        refuse_overwriting([output for output in outputs if output[0] != "--snapshot"], [play.resume])


def check_overlay(options: RunOptions, sources: Sequence[StreamSource], models: Sequence[StreamModel]) -> None:
    """Refuse what an overlay cannot be made of, or written as."""
    from pipelines.streaming.output.overlay import SUFFIXES

    if len(models) > 1:
        raise UsageError("--overlay draws the labels of one model: give one --model")
    if options.overlay is not None and options.overlay.suffix.lower() not in SUFFIXES:
        raise UsageError(f"--overlay {options.overlay}: choose a name that ends in {', '.join(SUFFIXES)}")
    if len(sources) != 1 or sources[0].kind != "media":
        raise UsageError("--overlay draws on one video file: give exactly one, and no camera, address or features")
    if options.play.loop:
        raise UsageError("--overlay does not go with --loop: the video would never end")
    if options.play.resume or options.play.snapshot:
        raise UsageError("--overlay does not go with --snapshot and --resume: half a video cannot be continued")
