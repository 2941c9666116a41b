"""The report of recordings: what a page shows of each of them, and the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.files import write_text
from pipelines.pages.media import MediaLink
from pipelines.pages.page import (
    COMMON_SCRIPTS,
    COMMON_STYLES,
    TIMELINE_SCRIPTS,
    TIMELINE_STYLES,
    Page,
    made_line,
    render,
)

SCRIPTS = (*COMMON_SCRIPTS, *TIMELINE_SCRIPTS, "table.js", "player.js", "editor.js", "recording_view.js", "report.js")
STYLES = (*COMMON_STYLES, *TIMELINE_STYLES, "report.css")

Stretch = tuple[float, float, str]  # start and end in seconds, label
ScoredStretch = tuple[float, float, str, float]  # … and mean score
Figure = tuple[str, str, str]  # title, value, remark


@dataclass(frozen=True)
class ShownRule:
    """Which stretches the page makes of scores when its threshold is moved."""

    kind: str  # "softmax": one label at a time; "sigmoid": each class by itself
    threshold: float  # where the slider stands at first
    described: str  # what it says there: the threshold, or whose rule it is
    hidden: tuple[int, ...] = ()  # classes that are not told of
    least: float = 0.0  # seconds: shorter stretches are left out


@dataclass(frozen=True)
class Recording:
    """What is told of one recording by one model."""

    name: str
    file: str  # its name in the saved table of corrections
    classes: tuple[str, ...]
    rule: ShownRule
    rows: Mapping[str, Any]  # of `packed_rows`
    segments: Sequence[ScoredStretch]
    model: str = ""
    duration: float | None = None  # seconds
    truth: Sequence[Stretch] | None = None
    media: MediaLink | None = None
    strip: Mapping[str, Any] | None = None  # of `media_strip`
    figures: Sequence[Figure] = field(default=())

    def to_dict(self, block: str) -> dict[str, Any]:
        """Plain JSON types. block: the id of the element that holds its media, where they are embedded."""
        return {
            "name": self.name,
            "file": self.file,
            "model": self.model,
            "classes": list(self.classes),
            "kind": self.rule.kind,
            "hidden": list(self.rule.hidden),
            "threshold": self.rule.threshold,
            "rule": self.rule.described,
            "least": self.rule.least,
            "duration": self.duration,
            "rows": dict(self.rows),
            "segments": [
                [round(start, 6), round(end, 6), label, round(score, 4)] for start, end, label, score in self.segments
            ],
            "truth": None if self.truth is None else [list(stretch) for stretch in self.truth],
            "media": None if self.media is None else self.media.to_dict(block),
            "strip": self.strip,
            "figures": [list(figure) for figure in self.figures],
        }


def recordings_page(recordings: Sequence[Recording]) -> str:
    """The HTML of a report. Media that several models were shown are embedded once."""
    blocks: dict[str, str] = {}  # content -> id of its element
    shown = []
    for recording in recordings:
        content = None if recording.media is None else recording.media.content
        block = "" if content is None else blocks.setdefault(content, f"media-{len(blocks)}")
        shown.append(recording.to_dict(block))
    data = {"recordings": shown, "made": made_line()}
    named = {block: content for content, block in blocks.items()}
    return render(Page(f"{recordings[0].name} – cotrans", SCRIPTS, STYLES, data, named))


def write_recordings(path: Path, recordings: Sequence[Recording]) -> None:
    write_text(path, recordings_page(recordings))
