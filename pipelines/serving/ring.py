"""The recent past of one kind of thing that a page shows, in a bounded ring that any number of readers share.

Nobody has a queue of his own: a reader says up to which message he has heard, and gets what came after it. One who
was away or slow for so long that the ring has gone on is told that something is missing, and gets what there is.
"""

from __future__ import annotations

from collections import deque
from itertools import takewhile


class Ring:
    """Texts, each written once, under the number of the message that tells of them."""

    def __init__(self, most: int) -> None:
        self._items: deque[tuple[int, str]] = deque(maxlen=most)
        self._lost = 0  # number of the newest text that is gone

    def add(self, number: int, text: str) -> None:
        """number: never less than that of the text before."""
        if len(self._items) == self._items.maxlen:
            self._lost = self._items[0][0]
        self._items.append((number, text))

    def since(self, number: int) -> tuple[bool, list[str]]:
        """Whether something after message `number` is missing, and what came after it; all of it where that is so."""
        missing = number < self._lost
        heard = 0 if missing else number
        newer = [text for _, text in takewhile(lambda item: item[0] > heard, reversed(self._items))]
        return missing, newer[::-1]
