"""Where the newest token goes in a ring, and which slots of the ring hold tokens.

A ring is never rolled: attention does not depend on the order of its keys. Slots before `lead` belong to a class
token and are always occupied. There are two cursors with the same methods: one for streams in step, whose place
is a Python number (slices, no masks), and one with a place per row (masks; no value is read back from the device,
so it can be traced).
"""

from __future__ import annotations

import torch
from torch import Tensor


class LockstepCursor:
    """All streams have seen `position` tokens before this one."""

    def __init__(self, position: int, window: int) -> None:
        self.position = position
        self.window = window
        self.slot = position % window
        self.count = min(position + 1, window)
        # The static position of slot s is (s - head) mod n: the oldest token has position 0.
        self.head = max(position + 1 - window, 0) % window

    def write(self, ring: Tensor, value: Tensor, lead: int = 0) -> None:
        """Put `value` (B, h, w) into the ring (B, h, slots, w)."""
        ring.select(2, lead + self.slot).copy_(value)

    def write_row(self, ring: Tensor, value: Tensor, lead: int = 0) -> None:
        """Put `value` (B, d) into the ring (B, slots, d)."""
        ring.select(1, lead + self.slot).copy_(value)

    def read(self, ring: Tensor, lead: int = 0) -> Tensor:
        """What stands in the slot of the newest token: (B, h, slots, w) to (B, h, w)."""
        return ring.select(2, lead + self.slot)

    def occupied(self, ring: Tensor, lead: int = 0) -> Tensor:
        """The part of a ring (B, h, slots, w) that holds tokens."""
        return ring if self.count == self.window else ring[:, :, : lead + self.count]

    def occupied_rows(self, ring: Tensor, lead: int = 0) -> Tensor:
        """The part of a ring (B, slots, d) that holds tokens."""
        return ring if self.count == self.window else ring[:, : lead + self.count]

    def mask(self, lead: int = 0) -> Tensor | None:
        """Which of the slots returned by `occupied` hold tokens: all."""
        return None

    @property
    def full(self) -> bool:
        """Whether the slot to be written holds a token that leaves the window."""
        return self.position >= self.window

    def rotated(self, table: Tensor) -> Tensor:
        """Entries of a doubled table (…, 2n, w) by slot: (1, …, count, w)."""
        start = (self.window - self.head) % self.window
        return table.narrow(-2, start, self.count).unsqueeze(0)

    def aged(self, table: Tensor) -> Tensor:
        """Entries by slot, out of a table by age (h, n) that `age_bias.doubled` made (h, 2n): (1, h, count)."""
        return table.narrow(-1, self.window - self.slot, self.count).unsqueeze(0)

    def row(self, rows: Tensor, lag: int) -> Tensor:
        """The row (B, 1, d) of the token `lag` steps ago (the oldest, if there is none so old)."""
        slot = max(self.position - lag, 0) % self.window
        return rows.narrow(1, slot, 1)

    def recent(self, ring: Tensor, value: Tensor) -> Tensor:
        """Write `value` (B, d) into a ring of the last lag + 1 tokens and return the oldest of them (B, d)."""
        size = ring.shape[1]
        ring.select(1, self.position % size).copy_(value)
        return ring.select(1, (self.position + 1) % size if self.position >= size else 0)


class RowCursor:
    """Each stream has its own place; `active` rows move on, the others keep their state."""

    def __init__(self, position: Tensor, window: int, active: Tensor | None = None) -> None:
        self.position = position
        self.window = window
        self.active = active
        self.rows = torch.arange(position.shape[0], device=position.device)
        self.slot = position % window
        self.count = torch.clamp(position + 1, max=window)
        self.head = torch.clamp(position + 1 - window, min=0) % window

    def _kept(self, new: Tensor, old: Tensor) -> Tensor:
        if self.active is None:
            return new.to(old.dtype)
        return torch.where(self.active.view(-1, *[1] * (new.dim() - 1)), new.to(old.dtype), old)

    def write(self, ring: Tensor, value: Tensor, lead: int = 0) -> None:
        slot = self.slot + lead
        ring[self.rows, :, slot] = self._kept(value, ring[self.rows, :, slot])

    def write_row(self, ring: Tensor, value: Tensor, lead: int = 0) -> None:
        slot = self.slot + lead
        ring[self.rows, slot] = self._kept(value, ring[self.rows, slot])

    def read(self, ring: Tensor, lead: int = 0) -> Tensor:
        return ring[self.rows, :, self.slot + lead]

    def occupied(self, ring: Tensor, lead: int = 0) -> Tensor:
        return ring

    def occupied_rows(self, ring: Tensor, lead: int = 0) -> Tensor:
        return ring

    def mask(self, lead: int = 0) -> Tensor | None:
        """(B, 1, 1, lead + n), true where a slot holds a token."""
        slots = torch.arange(lead + self.window, device=self.position.device)
        return (slots < (lead + self.count).unsqueeze(1))[:, None, None]

    @property
    def full(self) -> Tensor:
        """(B, 1, 1, 1)"""
        return (self.position >= self.window).view(-1, 1, 1, 1)

    def rotated(self, table: Tensor) -> Tensor:
        slots = torch.arange(self.window, device=table.device)
        index = (slots - self.head.unsqueeze(1)) % self.window
        if table.dim() == 2:
            return table[index]  # (B, n, w)
        return table[:, index].transpose(0, 1)  # (B, h, n, w)

    def aged(self, table: Tensor) -> Tensor:
        slots = torch.arange(self.window, device=table.device)
        return table[:, slots + (self.window - self.slot).unsqueeze(1)].transpose(0, 1)  # (B, h, n)

    def row(self, rows: Tensor, lag: int) -> Tensor:
        slot = torch.clamp(self.position - lag, min=0) % self.window
        return rows[self.rows, slot].unsqueeze(1)

    def recent(self, ring: Tensor, value: Tensor) -> Tensor:
        size = ring.shape[1]
        slot = self.position % size
        ring[self.rows, slot] = self._kept(value, ring[self.rows, slot])
        oldest = torch.where(self.position >= size, (self.position + 1) % size, 0)
        return ring[self.rows, oldest]


Cursor = LockstepCursor | RowCursor


def cursor_for(position: Tensor, window: int, active: Tensor | None) -> Cursor:
    """The faster cursor where the streams are in step and their place can be read without waiting for a device."""
    if active is None and position.is_cpu and not torch.compiler.is_compiling():
        places = position.tolist()
        if places.count(places[0]) == len(places):
            return LockstepCursor(places[0], window)
    return RowCursor(position, window, active)
