"""What was read ahead of its time: a queue that is full by the number of its messages, or by the seconds in them."""

from __future__ import annotations

from collections import deque
from threading import Condition
from typing import Generic, TypeVar

Message = TypeVar("Message")


class Ahead(Generic[Message]):
    """One thread puts messages in, another takes them out."""

    def __init__(self, most: int, longest: float) -> None:
        """It is full with `most` messages, or with `longest` seconds of media."""
        self._most, self._longest = most, longest
        self._messages: deque[tuple[Message, float]] = deque()
        self._seconds = 0.0
        self._changed = Condition()

    def put(self, message: Message, seconds: float, timeout: float) -> bool:
        """Wait for room; whether the message was taken."""
        with self._changed:
            if not self._changed.wait_for(self._has_room, timeout):
                return False
            self._messages.append((message, seconds))
            self._seconds += seconds
            return True

    def get(self) -> Message | None:
        """The oldest message, if there is one."""
        with self._changed:
            if not self._messages:
                return None
            message, seconds = self._messages.popleft()
            self._seconds = self._seconds - seconds if self._messages else 0.0
            self._changed.notify()
            return message

    def _has_room(self) -> bool:
        return len(self._messages) < self._most and self._seconds < self._longest
