"""`--report`: the predictions of a stream, kept until it is over, as a page to look at."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.errors import CotransError
from pipelines.pages.media import MediaLink, link_media
from pipelines.pages.packing import as_bytes, packed_rows
from pipelines.pages.recording import Figure, Recording, ShownRule, write_recordings
from pipelines.pages.strip import media_strip
from pipelines.pages.truth import TruthTable
from pipelines.streaming.messages import SourceEnded
from pipelines.streaming.options import PredictionOptions
from pipelines.streaming.output.report_options import ReportOptions
from pipelines.streaming.output.segments import SIGMOID_THRESHOLD, Segment, SegmentMerger, SegmentTally
from pipelines.streaming.output.sinks import Event
from pipelines.streaming.output.summary import Summary
from pipelines.streaming.predicting.prediction import Prediction
from pipelines.streaming.predicting.stream_model import StreamModel
from pipelines.streaming.sources.names import base_name, public_names
from pipelines.streaming.sources.source import StreamSource
from pipelines.wording import memory, quantity


@dataclass
class _Kept:
    """What one source has given so far."""

    merger: SegmentMerger
    hop: float = 0.0  # seconds
    begins: array[float] = field(default_factory=lambda: array("d"))
    scores: bytearray = field(default_factory=bytearray)  # a byte for each class, row by row
    segments: list[Segment] = field(default_factory=list)


class ReportSink:
    """Collects a stream; `finish` writes the page. Sources that gave nothing are left out."""

    def __init__(
        self,
        options: ReportOptions,
        sources: Sequence[StreamSource],
        models: Sequence[StreamModel],
        prediction: PredictionOptions,
        tally: SegmentTally | None = None,
    ) -> None:
        """sources: each once for every model. tally: counts segments."""
        self._options, self._sources, self._models, self._prediction = options, sources, models, prediction
        self._names = public_names(sources[:: len(models)])
        self._tally = tally
        self._rules = [prediction.rule(model.class_names, merged=True) for model in models]
        self._kept: dict[int, _Kept] = {}
        self._truth = None if options.truth is None else TruthTable(options.truth)
        if self._truth is not None:
            self._truth.require_any([source.target for source in sources])

    def write(self, events: Sequence[Event]) -> None:
        for event in events:
            self._keep(event)

    def _keep(self, event: Event) -> None:
        if isinstance(event, SourceEnded):
            if (kept := self._kept.get(event.number)) is not None:
                kept.segments += kept.merger.finish(event.end)
            return
        if event.early:
            return
        kept = self._of(event)
        kept.begins.append(event.begin)
        kept.scores += as_bytes(event.probabilities).tobytes()
        kept.segments += kept.merger.push(event, self._model(event.source_number).class_names)

    def close(self) -> None:
        """Nothing is open: `finish` writes."""

    def state(self) -> None:
        return None

    def finish(self, summary: Summary) -> None:
        """Write the page, unless there is nothing to show."""
        recordings = [self._recording(number, summary) for number in sorted(self._kept)]
        if recordings:
            write_recordings(self._options.path, recordings)

    def _of(self, event: Prediction) -> _Kept:
        number = event.source_number
        if number not in self._kept:
            model, rule = self._model(number), self._rules[number % len(self._models)]
            least = self._prediction.least_of(model.least)
            merger = SegmentMerger(event.source, model.score_kind, rule, least=least, tally=self._tally)
            self._kept[number] = _Kept(merger, hop=event.end - event.begin)
        return self._kept[number]

    def _model(self, number: int) -> StreamModel:
        return self._models[number % len(self._models)]

    def _recording(self, number: int, summary: Summary) -> Recording:
        kept, model, source = self._kept[number], self._model(number), self._sources[number]
        path = Path(source.target) if source.kind == "media" else None
        media = None if path is None else _linked(path, self._options)
        scores = np.frombuffer(bytes(kept.scores), np.uint8).reshape(len(kept.begins), len(model.class_names))
        name = self._names[number // len(self._models)]
        return Recording(
            name=name,
            file=name if path is None else path.name,
            classes=model.class_names,
            rule=self._shown_rule(number),
            rows=packed_rows(kept.begins, kept.hop, scores),
            segments=[(item.start, item.end, item.label, item.score) for item in kept.segments],
            model=base_name(model.name),
            duration=None if media is None else media.duration,
            truth=None if self._truth is None else self._truth.of(source.target),
            media=media,
            strip=None if media is None or path is None else media_strip(path, media),
            figures=[*_stream_figures(summary, number, kept.hop), *_model_figures(model)],
        )

    def _shown_rule(self, number: int) -> ShownRule:
        model, rule = self._model(number), self._rules[number % len(self._models)]
        hidden = tuple(index for index, name in enumerate(model.class_names) if not rule.shows(name))
        own = SIGMOID_THRESHOLD if model.score_kind == "sigmoid" else 0.0
        threshold = own if rule.threshold is None else rule.threshold
        if rule.thresholds:
            described = "as streamed"
        elif rule.threshold is None and model.rejection is not None:
            described = "the model's own"
        else:
            described = f"{threshold:.2f}"
        return ShownRule(model.score_kind, threshold, described, hidden, self._prediction.least_of(model.least))


def _linked(path: Path, options: ReportOptions) -> MediaLink | None:
    try:
        return link_media(path, options.path, options.embed)
    except CotransError:
        if options.embed:
            raise
        return None  # it was played, so it is there; what a header hides is not worth a report


def _stream_figures(summary: Summary, number: int, hop: float) -> list[Figure]:
    source = summary.sources[number]
    figures = [
        ("Rows", f"{source['frames']:,}", f"{1 / hop:.3g} a second"),
        ("Speed", f"{summary.real_time_factor:.3g} ×", "of real time" if summary.paced else "of real time, unpaced"),
    ]
    if summary.paced:
        latency: Mapping[str, Any] = source["latency"]
        figures.append(
            (
                "Latency",
                f"{latency['p50_ms']:.1f} ms",
                f"median; p95 {latency['p95_ms']:.1f}, max {latency['max_ms']:.1f}",
            )
        )
    for title, stage in (("Features", "features"), ("Model step", "encoder")):
        times = summary.stages[stage]
        figures.append((title, f"{times['p50_ms']:.2f} ms", f"median; p95 {times['p95_ms']:.2f}"))
    if source["dropped"]:
        figures.append(("Dropped", f"{source['dropped']:,}", "rows that came too late"))
    return figures


def _model_figures(model: StreamModel) -> list[Figure]:
    from pipelines.costs.model_cost import model_cost

    cost = model_cost(model.config)
    return [
        ("Cost of a step", f"{quantity(cost.step.macs)} MACs", f"{cost.reduction:.3g} × less than the whole window"),
        ("Memory of a stream", memory(cost.state_bytes), f"{quantity(cost.parameters)} parameters"),
    ]
