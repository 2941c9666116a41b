"""One of several equal shares of the work: `--shard 2/8` of array jobs that know nothing of each other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from pipelines.errors import UsageError

T = TypeVar("T")
FORM = re.compile(r"(\d{1,9})/(\d{1,9})")


@dataclass(frozen=True)
class Shard:
    """Share `number` (from 1 on) of `count`. All shares together have everything, and each thing is in one of them."""

    number: int
    count: int

    def __post_init__(self) -> None:
        if self.count < 1 or not 1 <= self.number <= self.count:
            most = max(self.count, 1)
            raise UsageError(f"--shard {self}: there is no such share; give 1/{most} to {most}/{most}")

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def of(self, things: Sequence[T]) -> list[T]:
        """This share of a list, which every process must have in the same order: neighbours go to different shares."""
        return list(things[self.number - 1 :: self.count])


WHOLE = Shard(1, 1)


def parse_shard(text: str) -> Shard:
    """A share as it stands on a command line: "2/8"."""
    match = FORM.fullmatch(text)
    if match is None:
        raise UsageError(f"--shard {text}: give the number of the share and how many there are, such as 2/8")
    return Shard(int(match[1]), int(match[2]))
