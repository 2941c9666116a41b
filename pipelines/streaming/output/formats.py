"""Lines of output: predictions and segments as JSON, CSV, aligned text and subtitles."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pipelines.errors import UsageError
from pipelines.streaming.output.segments import Segment
from pipelines.streaming.predicting.prediction import Prediction
from pipelines.untrusted.parsing import json_text
from pipelines.wording import visible

NO_LABEL = "–"
NAME_WIDTH = 24  # of the source in a text line


class SegmentFormat(Protocol):
    """How stretches are written down. `number` counts them from 1."""

    def header(self) -> str: ...

    def segment(self, segment: Segment, number: int) -> str: ...


class Format(SegmentFormat, Protocol):
    """How single predictions are written down too."""

    def prediction(self, prediction: Prediction) -> str: ...


@dataclass(frozen=True)
class Content:
    """What is to be written, as far as a format's columns depend on it."""

    class_names: Sequence[str]  # of all models
    models: Sequence[str]  # their names
    several_sources: bool
    shown: int  # classes named for each prediction, at the most
    scores: bool  # those of all classes too
    segments: bool
    columns: int | None = None  # of the terminal that shows it; None: a file or a pipe, which takes lines of any length


class JsonLines:
    """One JSON object on each line."""

    def __init__(self, scores: bool) -> None:
        self._scores = scores

    def header(self) -> str:
        return ""

    def prediction(self, prediction: Prediction) -> str:
        line = json_text(prediction.to_dict())
        if self._scores:  # as they stand: half of the line, and half of the time that it takes
            line = f'{line[:-1]}, "scores": [{", ".join(prediction.score_texts())}]}}'
        return line + "\n"

    def segment(self, segment: Segment, number: int) -> str:
        return json_text(segment.to_dict()) + "\n"


class Csv:
    """Comma-separated values with a header; texts are quoted where they need it."""

    def __init__(
        self, class_names: Sequence[str], top_k: int, scores: bool, segments: bool, models: bool = False
    ) -> None:
        """models: several of them, with a column that says whose a line is."""
        self._class_names = class_names if scores else ()
        self._top_k = top_k
        self._segments = segments
        self._models = ["model"] if models else []

    def header(self) -> str:
        if self._segments:
            return _csv_line(["source", *self._models, "start", "end", "label", "score", "frames"])
        more = [name for place in range(2, self._top_k + 1) for name in (f"label_{place}", f"score_{place}")]
        columns = ["source", *self._models, "index", "time", "label", "score", *more, "warmup", "latency_ms"]
        return _csv_line(columns + [f"scores[{name}]" for name in self._class_names])

    def prediction(self, prediction: Prediction) -> str:
        value = prediction.to_dict()
        scores = prediction.score_texts() if self._class_names else ()
        more = [item for pair in value["top"][1:] for item in pair]
        more += [""] * (2 * (self._top_k - 1) - len(more))  # a model may have fewer classes than another
        warmup = "true" if value["warmup"] else "false"
        cells = [
            value["source"],
            *(value[name] for name in self._models),
            value["index"],
            value["time"],
            value["label"] or "",
            value["score"],
            *more,
            warmup,
        ]
        return _csv_line([*cells, value["latency_ms"], *scores])

    def segment(self, segment: Segment, number: int) -> str:
        return _csv_line(list(segment.to_dict().values()))


class TextLines:
    """Columns for people. With several sources, each line begins with its source."""

    def __init__(
        self, class_names: Sequence[str], several: bool, models: Sequence[str] = (), columns: int | None = None
    ) -> None:
        """models: their names, where there are several, each with a label of its own in every line.

        columns: what other classes are mentioned is left out where it would not fit.
        """
        self._columns = columns
        self._width = min(28, max(len(name) for name in class_names))
        self._several = several
        self._model_width = max(map(len, models), default=0)

    def header(self) -> str:
        return ""

    def prediction(self, prediction: Prediction) -> str:
        # Where none of the classes is there, no score stands beside that, and all of the best are only mentioned.
        named, others = (prediction.top[:1], prediction.top[1:]) if prediction.label else ((), prediction.top)
        score = "".join(f"{100 * value:5.1f} %" for _, value in named)
        mark = "~" if prediction.warmup else " "
        line = f"{_clock(prediction.time)} {mark} {prediction.label or NO_LABEL:{self._width}} {score:7}   "
        line = visible(f"{self._name(prediction.source, prediction.model)}{line}")
        mentioned = [visible(f"{name} {100 * value:.0f} %") for name, value in others]
        while self._columns is not None and mentioned and len(line + "  ".join(mentioned)) > self._columns:
            mentioned.pop()
        return (line + "  ".join(mentioned)).rstrip() + "\n"

    def segment(self, segment: Segment, number: int) -> str:
        line = f"{_clock(segment.start)} – {_clock(segment.end)}  {segment.label:{self._width}}"
        return visible(f"{self._name(segment.source, segment.model)}{line} {100 * segment.score:5.1f} %") + "\n"

    def _name(self, source: str, model: str | None) -> str:
        whose = f"{model:{self._model_width}}  " if model is not None else ""
        if not self._several:
            return whose
        shown = source if len(source) <= NAME_WIDTH else "…" + source[-NAME_WIDTH + 1 :]
        return f"{shown:{NAME_WIDTH}}  {whose}"


class Subtitles:
    """SubRip (.srt) and WebVTT (.vtt): a cue for each segment."""

    def __init__(self, web: bool) -> None:
        self._web = web

    def header(self) -> str:
        return "WEBVTT\n\n" if self._web else ""

    def segment(self, segment: Segment, number: int) -> str:
        label = visible(" ".join(segment.label.split()))  # an empty line would end the cue
        text = f"{html.escape(label, quote=False) if self._web else label} ({100 * segment.score:.0f} %)"
        start, end = self._time(segment.start), self._time(segment.end)
        return f"{number}\n{start} --> {end}\n{text}\n\n"

    def _time(self, seconds: float) -> str:
        milliseconds = round(1000 * seconds)
        whole, fraction = divmod(milliseconds, 1000)
        separator = "." if self._web else ","
        return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}{separator}{fraction:03d}"


def _csv_line(cells: list[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds, 2), 60)
    hours, minutes = divmod(int(minutes), 60)
    return f"{hours}:{minutes:02d}:{rest:05.2f}" if hours else f"{minutes:3d}:{rest:05.2f}"


@dataclass(frozen=True)
class FormatKind:
    """A format by name: the suffix of its files, and what it can hold."""

    suffix: str
    make: Callable[[Content], Format]
    all_scores: bool = False  # whether the scores of all classes fit in


@dataclass(frozen=True)
class SubtitleKind:
    """A format of segments alone, with one source and one model in a file."""

    suffix: str
    make: Callable[[Content], SegmentFormat]
    all_scores: bool = False


def _csv(content: Content) -> Csv:
    several = len(content.models) > 1
    if content.scores and several:
        raise UsageError("--scores has a column for each class of one model: use --format jsonl for several models")
    return Csv(content.class_names, content.shown, content.scores, content.segments, several)


def _text(content: Content) -> TextLines:
    models = content.models if len(content.models) > 1 else ()
    return TextLines(content.class_names, content.several_sources, models, content.columns)


# Every format that `--format` knows; the first is the default.
FORMATS: Mapping[str, FormatKind | SubtitleKind] = {
    "table": FormatKind(".txt", _text),
    "jsonl": FormatKind(".jsonl", lambda content: JsonLines(content.scores), all_scores=True),
    "csv": FormatKind(".csv", _csv, all_scores=True),
    "srt": SubtitleKind(".srt", lambda content: Subtitles(web=False)),
    "vtt": SubtitleKind(".vtt", lambda content: Subtitles(web=True)),
}
DEFAULT = next(iter(FORMATS))
SUBTITLES = tuple(name for name, kind in FORMATS.items() if isinstance(kind, SubtitleKind))
SUFFIXES = {kind.suffix: name for name, kind in FORMATS.items()}
