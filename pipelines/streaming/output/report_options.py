"""What `--report` asks for; checked before a model is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import UsageError
from pipelines.streaming.options import PlayOptions

SUFFIXES = (".html", ".htm")


@dataclass(frozen=True)
class ReportOptions:
    """Where the page goes, and what is in it."""

    path: Path
    embed: bool = False  # the media themselves, not a link to them
    truth: Path | None = None  # a table file,start,end,label

    def __post_init__(self) -> None:
        if self.path.suffix.lower() not in SUFFIXES:
            raise UsageError(f"{self.path}: a report is a page: choose a name that ends in .html")

    def check_play(self, play: PlayOptions) -> None:
        """Refuse what a report cannot be made of."""
        if play.loop:
            raise UsageError("--report does not go with --loop: the recording would never end")
        if play.resume or play.snapshot:
            raise UsageError("--report does not go with --snapshot and --resume: it tells of a stream from its start")
