"""Which sinks the user's output options ask for."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from pipelines.errors import InputError, UsageError
from pipelines.streaming.options import PredictionOptions
from pipelines.streaming.output.formats import DEFAULT, FORMATS, SUBTITLES, SUFFIXES, Content, SubtitleKind
from pipelines.streaming.output.segments import SegmentMerger, SegmentTally
from pipelines.streaming.output.sinks import FolderSink, FrameSink, SegmentSink, Sink
from pipelines.streaming.sources.source import StreamSource

if TYPE_CHECKING:
    from pipelines.streaming.predicting.stream_model import StreamModel


@dataclass(frozen=True)
class OutputOptions:
    """Where and how predictions are written."""

    format: str | None = None  # None: by the suffix of `out`, otherwise a table
    out: Path | None = None  # file, or folder for a file per source; None: standard output
    scores: bool = False
    segments: bool = False

    def __post_init__(self) -> None:
        if self.format not in (None, *FORMATS):
            raise UsageError(f"unknown --format '{self.format}': choose from {', '.join(FORMATS)}")
        if self.format is None and self.out is not None and not self.to_folder and self.out.suffix:
            self._check_suffix(self.out)
        self._check_agreement()
        if self.scores and (self.segments or self.chosen in SUBTITLES):
            raise UsageError(
                f"--scores is about single frames: it does not go with --segments, {' and '.join(SUBTITLES)}"
            )
        if self.scores and not FORMATS[self.chosen].all_scores:
            able = " or ".join(name for name, kind in FORMATS.items() if kind.all_scores)
            raise UsageError(f"--scores needs --format {able}")

    @property
    def chosen(self) -> str:
        if self.format is not None:
            return self.format
        return SUFFIXES.get(self.out.suffix.lower(), DEFAULT) if self.out else DEFAULT

    @property
    def to_folder(self) -> bool:
        """Whether `out` is a folder: one that is there, or a name that is not and has no suffix."""
        return self.out is not None and (self.out.is_dir() or not (self.out.suffix or self.out.exists()))

    def _check_suffix(self, out: Path) -> None:
        if out.suffix.lower() == ".json":  # a document that is whole only at the end is no use while a stream runs
            right = out.with_suffix(".jsonl")
            raise UsageError(
                f"--out {out}: predictions are written one by one, a JSON object on each line: use {right}"
            )
        if out.suffix.lower() not in SUFFIXES:
            known = ", ".join(SUFFIXES)
            raise UsageError(f"--out {out}: the suffix {out.suffix} names no format ({known} do): say --format")

    def _check_agreement(self) -> None:
        """Refuse one format under the name of another; a .txt may hold any."""
        if self.format is None or self.out is None or self.to_folder:
            return
        named = SUFFIXES.get(self.out.suffix.lower(), self.format)
        if named not in (self.format, DEFAULT):
            right = self.out.with_suffix(FORMATS[self.format].suffix)
            raise UsageError(
                f"--out {self.out} says {named}, --format says {self.format}: leave one out, or use {right}"
            )

    @property
    def by_segments(self) -> bool:
        return self.segments or self.chosen in SUBTITLES


def output_files(output: OutputOptions, sources: Sequence[StreamSource]) -> list[tuple[str, Path]]:
    """What is written, and what asks for it."""
    if output.out is None:
        return []
    if not output.to_folder:
        return [("--out", output.out)]
    names = file_names(sources, FORMATS[output.chosen].suffix)
    return [(f"--out (for {source.name})", output.out / name) for source, name in zip(sources, names, strict=True)]


def make_sink(
    output: OutputOptions,
    sources: Sequence[StreamSource],
    models: Sequence[StreamModel],
    prediction: PredictionOptions,
    standard_output: TextIO | None,
    on_failed: Callable[[int, InputError], None],
    state: Mapping[str, Any] | None = None,
    tally: SegmentTally | None = None,
) -> Sink:
    """The sink for these options.

    sources: each once for every model. standard_output: None where it is closed. on_failed: told of a source whose own
    file cannot be written. state: of the snapshot that a stream goes on from. tally: counts segments.
    """
    shown = output.out is None and standard_output is not None and standard_output.isatty()
    columns = shutil.get_terminal_size().columns if shown else None
    content = _content(output, len(sources) > len(models), models, prediction, columns)
    kind = FORMATS[output.chosen]
    rules = [prediction.rule(model.class_names, merged=True) for model in models]

    def model_of(number: int) -> StreamModel:
        return models[number % len(models)]

    def merger(number: int, name: str) -> SegmentMerger:
        scores, rule = model_of(number).score_kind, rules[number % len(models)]
        joined = isinstance(kind, SubtitleKind)
        least = prediction.least_of(model_of(number).least)
        return SegmentMerger(name, scores, rule, joined, least, sources[number].model, tally)

    def sink(where: Path | TextIO, state: Mapping[str, Any] | None) -> Sink:
        if isinstance(kind, SubtitleKind) or output.segments:
            if tally is not None:  # those before the snapshot were told, too
                tally.told += int((state or {}).get("written", 0))
            return SegmentSink(where, kind.make(content), merger, lambda number: model_of(number).class_names, state)
        return FrameSink(where, kind.make(content), state)

    if output.out is not None and output.to_folder:
        folder, names = output.out, file_names(sources, FORMATS[output.chosen].suffix)
        return FolderSink(lambda number, state: sink(folder / names[number], state), state, on_failed)
    if isinstance(kind, SubtitleKind) and len(sources) > 1:
        raise UsageError(
            f"{output.chosen} holds one source and model: with several, give a folder (--out FOLDER) for their files"
        )
    where = output.out or standard_output
    if where is None:
        raise InputError("standard output is closed: write to a file with --out")
    return sink(where, state)


def file_names(sources: Sequence[StreamSource], extension: str) -> list[str]:
    """A file name for each source; a number tells apart those that would be the same."""
    stems = [_stem(source) + (f".{Path(source.model).stem}" if source.model else "") for source in sources]
    counts = Counter(stems)
    return [
        f"{stem}{extension}" if counts[stem] == 1 else f"{stem}-{number}{extension}"
        for number, stem in enumerate(stems, 1)
    ]


def _stem(source: StreamSource) -> str:
    if source.output is not None:
        return source.output
    if source.entry is not None:
        return source.entry.replace("/", "_")
    if source.kind in ("media", "features"):
        return Path(source.target.split("+")[0]).stem
    kept = (letter if letter.isalnum() or letter in "-_." else "_" for letter in source.name)
    return "".join(kept).strip("_-") or "standard_input"


def _content(
    output: OutputOptions,
    several: bool,
    models: Sequence[StreamModel],
    prediction: PredictionOptions,
    columns: int | None,
) -> Content:
    return Content(
        class_names=[name for model in models for name in model.class_names],
        models=[model.name for model in models],
        several_sources=several,
        shown=max(prediction.shown(len(model.class_names)) for model in models),
        scores=output.scores,
        segments=output.segments,
        columns=columns,
    )
