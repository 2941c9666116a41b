"""One recording of a dataset: where its media or features are, and what is known of its labels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Segment:
    """A stretch of time with a label: start ≤ time < end, in seconds."""

    start: float
    end: float
    label: int  # index into the dataset's class names
    origin: str = ""  # where it was written, for error messages: "labels.csv, line 12"


@dataclass(frozen=True)
class Item:
    """One recording: media, feature files or both, with a clip label, segments or per-frame targets."""

    name: str  # unique in the dataset, and the stem of its feature files: "blues.00000", "dog/1-30226-A-0"
    split: str  # "train", "validation" or "test"
    media: Path | None = None
    features: tuple[Path, ...] = ()  # .npy files (rows, width), joined along the width in this order
    label: int | None = None  # of the whole clip
    segments: tuple[Segment, ...] | None = None  # in seconds; empty: known to be background throughout
    targets: Path | None = None  # .npy file (rows, classes) of zeros and ones, on the clock of the features
    duration: float | None = None  # seconds, where it is known without decoding
    group: str | None = None  # what must not be divided between splits: a speaker, a fold
    copy_of: str | None = None  # the item that it is a changed copy of
    made_of: tuple[str, ...] = ()  # names of the recordings that a stream was mixed from, or drawn from with others

    @property
    def recordings(self) -> tuple[str, ...]:
        """The names, without folders, of the recordings in it."""
        return self.made_of or (self.name.rpartition("/")[2],)
