"""How far a call is, in one shape for all of them: what tqdm, a notebook or a log needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """`done` of `total` in a stage of a call; both are 0 where nobody knows how much there is."""

    stage: str  # "features", "training", "evaluation", "proof"
    done: float
    total: float
    text: str = ""  # what is being worked on, or the newest numbers

    @property
    def fraction(self) -> float:
        """From 0 to 1."""
        return self.done / self.total if self.total else 0.0


OnProgress = Callable[[Progress], None]


def on_item(report: OnProgress | None) -> Callable[[int, int, str], None] | None:
    """The same for what counts recordings whose features are made."""
    return None if report is None else lambda done, total, name: report(Progress("features", done, total, name))
