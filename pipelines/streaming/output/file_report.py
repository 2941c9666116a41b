"""`cotrans report`: the page of predictions that were written before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipelines.errors import UsageError
from pipelines.files import check_writable, refuse_overwriting
from pipelines.pages.media import link_media
from pipelines.pages.packing import as_bytes, packed_rows
from pipelines.pages.recording import Figure, Recording, ShownRule, Stretch, write_recordings
from pipelines.pages.strip import media_strip
from pipelines.pages.truth import TruthTable
from pipelines.streaming.options import PredictionOptions
from pipelines.streaming.output.predictions_file import PredictedSource, read_predictions_file
from pipelines.streaming.output.report_options import ReportOptions
from pipelines.streaming.output.segments import SIGMOID_THRESHOLD, SegmentMerger
from pipelines.streaming.sources.names import base_name
from pipelines.wording import listed


@dataclass(frozen=True)
class FileReport:
    """Predictions, and what belongs to them."""

    predictions: Path  # JSON lines
    options: ReportOptions
    media: tuple[Path, ...] = ()
    hide: tuple[str, ...] = ()  # classes not to tell of, beside background
    least: float | None = None  # seconds: shorter stretches are left out, as the model that wrote the lines may say

    def __post_init__(self) -> None:
        if self.options.embed and not self.media:
            raise UsageError("--embed puts the media into the page: say with --media which")


def report_predictions(wanted: FileReport) -> Path:
    """Write the page; returns its path."""
    options = wanted.options
    truth_files = [] if options.truth is None else [options.truth]
    sources = read_predictions_file(wanted.predictions)  # first: a page or a recording in their place is told as such
    refuse_overwriting([("--out", options.path)], [wanted.predictions, *wanted.media, *truth_files])
    check_writable(options.path, "--out")
    media = _media_of(sources, wanted.media)
    truth = None if options.truth is None else TruthTable(options.truth)
    files = [source.name if path is None else str(path) for source, path in zip(sources, media, strict=True)]
    if truth is not None:
        truth.require_any(files)
    known = sorted({name for source in sources for name in source.class_names})
    PredictionOptions(hide=wanted.hide, least=wanted.least).rule(known)  # refuses names that are no class
    recordings = []
    for source, path, file in zip(sources, media, files, strict=True):
        hidden = tuple(name for name in wanted.hide if name in source.class_names)
        prediction = PredictionOptions(hide=hidden, least=wanted.least)
        recordings.append(_recording(source, path, options, _truth(truth, file), prediction))
    write_recordings(options.path, recordings)
    return options.path


def _truth(table: TruthTable | None, file: str) -> list[Stretch] | None:
    return None if table is None else table.of(file)


def _media_of(sources: Sequence[PredictedSource], media: Sequence[Path]) -> list[Path | None]:
    """The media file of each source: by its name, or the only one of the only source."""
    names = {source.name for source in sources}
    if len(names) == 1 and len(media) == 1:
        return [media[0]] * len(sources)
    by_name = {path.name: path for path in media}
    if len(by_name) < len(media):
        raise UsageError("--media: two files of one name cannot be told apart: make a report of each")
    unknown = sorted(set(by_name) - {base_name(name) for name in names})
    if unknown:
        shown = listed([base_name(name) for name in sorted(names)])
        raise UsageError(f"--media {unknown[0]}: the predictions are about {shown}, not about that file")
    return [by_name.get(base_name(source.name)) for source in sources]


def _recording(
    source: PredictedSource,
    path: Path | None,
    options: ReportOptions,
    truth: list[Stretch] | None,
    prediction: PredictionOptions,
) -> Recording:
    kind, names = source.score_kind, source.class_names
    rule = prediction.rule(names, merged=True)
    least = prediction.least_of(0.0)
    merger = SegmentMerger(source.name, kind, rule, least=least)
    rows = [row for row in source.predictions if not row.early and row.end > 0]  # older files do not say what is early
    segments = [segment for row in rows for segment in merger.push(row, names)]
    media = None if path is None else link_media(path, options.path, options.embed)
    segments += merger.finish(None if media is None else media.duration)
    hop = rows[0].end - rows[0].begin if rows else 0.0
    scores = np.stack([row.probabilities for row in rows]) if rows else np.zeros((0, len(names)))
    return Recording(
        name=base_name(source.name),
        file=base_name(source.name) if path is None else path.name,
        classes=names,
        rule=ShownRule(
            kind,
            SIGMOID_THRESHOLD if kind == "sigmoid" else 0.0,
            "as streamed",
            tuple(index for index, name in enumerate(names) if not rule.shows(name)),
            least,
        ),
        rows=packed_rows([row.begin for row in rows], hop, as_bytes(scores)),
        segments=[(item.start, item.end, item.label, item.score) for item in segments],
        model=base_name(source.model or ""),
        duration=None if media is None else media.duration,
        truth=truth,
        media=media,
        strip=None if media is None or path is None else media_strip(path, media),
        figures=_figures(source, hop),
    )


def _figures(source: PredictedSource, hop: float) -> list[Figure]:
    latency = np.array([row.latency_ms for row in source.predictions])
    p50, p95 = np.percentile(latency, (50, 95))
    rate = f"{1 / hop:.3g} a second" if hop > 0 else ""
    figures = [
        ("Rows", f"{len(source.predictions):,}", rate),
        ("Classes", str(len(source.class_names)), "that any row names (stream --top-k)"),
    ]
    if latency.any():
        figures.append(("Latency", f"{p50:.1f} ms", f"median; p95 {p95:.1f}, max {latency.max():.1f}"))
    return figures
