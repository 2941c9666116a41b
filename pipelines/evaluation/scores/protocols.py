"""What a paper's number counts: which frames, which classes, which mean.

The rules are data; `detection` applies them.

Where the rules come from:
- oadtr: the official code reads windows of n frames whose newest frame is n−1 … T−f−2 (f frames of
  anticipation follow, and one more is lost to the end of a range). With n = 64 and f = 8 that leaves 206,375
  unambiguous frames of the THUMOS14 test videos, which is what the authors' logs print.
- lstr: every frame, warm-up included.
- cooadtr (TVSeries): frames as oadtr; the authors' script keeps the THUMOS limit of 21 columns, so it scores
  the classes 1 … 20 of their alphabetical table, whose class 0 is background and "Answer phone" in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pipelines.datasets.published.shipped import shipped_list
from pipelines.errors import ConfigurationError, UsageError

Headline = Literal["mAP", "mcAP"]

OAD_WINDOW = 64  # n of OadTR and CoOadTR: 16 s at 4 features per second
OAD_FUTURE = 8  # frames that OadTR's decoder looks ahead: 2 s

BACKGROUND = "background"

THUMOS14_CLASSES = tuple(shipped_list("thumos14")["class_names"])  # background first, ambiguous last
TVSERIES_CLASSES = tuple(shipped_list("tvseries")["class_names"])  # background first

# Classes 1 … 20 of the authors' alphabetical TVSeries table.
COOADTR_CLASSES = tuple(sorted(TVSERIES_CLASSES[1:])[1:21])


@dataclass(frozen=True)
class Protocol:
    """How frames with scores become one number."""

    name: str
    headline: Headline
    # Names of the score columns; the first layout is the dataset's own, others are accepted for their width.
    layouts: tuple[tuple[str, ...], ...]
    scored: tuple[str, ...]
    ambiguous: str | None = None  # frames of this class are dropped
    trims: bool = False  # leave the first window − 1 and the last future + 1 frames of every video out
    # Scores become shares among these classes before they are ranked; None: as they are.
    closed: tuple[str, ...] | None = None
    stages: bool = False  # score every tenth of an action too


def _thumos14(name: str, trims: bool) -> Protocol:
    return Protocol(
        name=name,
        headline="mAP",
        layouts=(THUMOS14_CLASSES, THUMOS14_CLASSES[:-1]),
        scored=THUMOS14_CLASSES[1:-1],
        ambiguous="Ambiguous",
        trims=trims,
    )


def _tvseries(name: str, trims: bool) -> Protocol:
    return Protocol(
        name=name,
        headline="mcAP",
        layouts=(TVSERIES_CLASSES,),
        scored=TVSERIES_CLASSES[1:],
        trims=trims,
        stages=True,
    )


_COOADTR = Protocol(
    name="cooadtr",
    headline="mcAP",
    layouts=(TVSERIES_CLASSES, (BACKGROUND, *COOADTR_CLASSES)),
    scored=COOADTR_CLASSES,
    trims=True,
    closed=(BACKGROUND, "Answer phone", *COOADTR_CLASSES),
    stages=True,
)

# Per dataset; the first protocol is the default.
PROTOCOLS: dict[str, tuple[Protocol, ...]] = {
    "thumos14": (_thumos14("lstr", trims=False), _thumos14("oadtr", trims=True)),
    "tvseries": (_tvseries("lstr", trims=False), _tvseries("oadtr", trims=True), _COOADTR),
}


def folder_protocol(classes: Sequence[str]) -> Protocol:
    """Every frame and every class but background: for a user's own recordings."""
    scored = tuple(name for name in classes if name.casefold() != BACKGROUND)
    if not scored:
        raise ConfigurationError("there is no class to score besides background")
    return Protocol(name="every-frame", headline="mAP", layouts=(tuple(classes),), scored=scored)


def protocol_for(dataset: str, name: str | None = None) -> Protocol:
    """A protocol by name; without one, the default of the dataset."""
    if dataset not in PROTOCOLS:
        raise UsageError(f"dataset '{dataset}' has no protocols of its own: leave --protocol out")
    for protocol in PROTOCOLS[dataset]:
        if name is None or protocol.name == name:
            return protocol
    known = ", ".join(protocol.name for protocol in PROTOCOLS[dataset])
    raise UsageError(f"unknown protocol '{name}' for {dataset}: choose from {known}")
