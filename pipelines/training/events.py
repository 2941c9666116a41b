"""What a training run tells whoever is watching."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from pipelines.training.fitting.baseline import PerFrameScores
from pipelines.training.fitting.validation import METRICS, Scores


@dataclass(frozen=True)
class StepDone:
    """One step of the optimiser."""

    epoch: int  # from 1
    epochs: int
    step: int  # of the epoch, from 1
    steps: int
    loss: float
    learning_rate: float


@dataclass(frozen=True)
class EpochDone:
    """One epoch, as in `metrics.csv`."""

    epoch: int  # from 1
    steps: int  # of the optimiser so far
    learning_rate: float  # of the last step
    train_loss: float
    gradient_norm: float  # mean over the steps, before clipping
    scores: Scores | None  # None: this epoch was not validated, or there is nothing to validate on
    best: bool
    seconds: float  # not part of what a resumed run repeats
    frames_per_second: float  # labels trained on: of frames, or of clips where their last token alone counts

    def row(self) -> dict[str, Any]:
        """A flat row of numbers."""
        values = asdict(self)
        scores = values.pop("scores") or dict.fromkeys(("loss", *METRICS))
        return {
            "epoch": values["epoch"],
            "steps": values["steps"],
            "learning_rate": values["learning_rate"],
            "train_loss": values["train_loss"],
            "gradient_norm": values["gradient_norm"],
            **{f"validation_{name}": value for name, value in scores.items()},
            "best": int(values["best"]),
            "seconds": round(values["seconds"], 3),
            "frames_per_second": round(values["frames_per_second"], 1),
        }

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> EpochDone:
        """The inverse of `row`."""
        values = {name: row[f"validation_{name}"] for name in ("loss", *METRICS)}
        scores = None if values["loss"] is None else Scores(**values)
        plain = {key: value for key, value in row.items() if not key.startswith("validation_")}
        return cls(**{**plain, "best": bool(row["best"])}, scores=scores)


@dataclass(frozen=True)
class Remark:
    """One line for a person."""

    text: str


@dataclass(frozen=True)
class BaselineDone:
    """What single rows are worth, told before the training."""

    scores: PerFrameScores


@dataclass(frozen=True)
class SeedBegins:
    """The next of several runs that differ in their seed alone."""

    seed: int
    number: int  # from 1
    count: int


Event = StepDone | EpochDone | BaselineDone | SeedBegins | Remark
Observer = Callable[[Event], None]


def nobody(event: Event) -> None:
    """An observer that does not look."""
