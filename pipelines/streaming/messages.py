"""What travels between the stages of a stream, and from a stream to whoever reads it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import CotransError


@dataclass(frozen=True, eq=False)
class Row:
    """One row of features on its way to the model."""

    source: int  # which source, in the order given
    index: int  # of the row in the stream; a gap or dropped rows leave numbers out
    place: Place  # where to go on after it
    time: float  # media seconds that the row stands for
    begin: float  # media seconds: the stretch of one hop that it covers
    end: float
    values: NDArray[np.float32]  # (width,)
    complete: float  # monotonic time at which the row's media had been played
    feature_seconds: float  # spent on computing it
    queued: float  # monotonic time at which it was handed to the model
    restart: bool  # the window restarts with it
    longest_wait: float | None  # seconds after which it may be dropped in favour of a newer one; None: never


@dataclass(frozen=True)
class Place:
    """Where a source goes on: row `row` of pass number `turn` over it, which will have index `index`."""

    turn: int = 0
    row: int = 0
    index: int = 0


@dataclass(frozen=True)
class Ended:
    """A source is over."""

    source: int
    error: CotransError | None = None
    end: float | None = None  # media seconds at which it ended, where that is known


@dataclass(frozen=True)
class Remark:
    """Something that a person should know while the stream goes on."""

    source: str
    text: str


@dataclass(frozen=True)
class SourceEnded:
    """A source is over, at its end or by an error."""

    number: int
    name: str
    error: CotransError | None
    end: float | None = None  # media seconds at which it ended, where that is known


class StoppedError(Exception):
    """The stream is to stop."""
