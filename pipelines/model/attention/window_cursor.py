"""Windows of a chunk, read out of what its tokens gave once: the cursor of `ring.py` for many windows side by side.

The "rings" hold one entry for each token of the chunk, in order of time, and every window takes its n of them. So a
token that is in n windows is embedded and projected once.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


class WindowCursor:
    """K windows: which stream each is of, and its last token. Their tokens are right-aligned in n slots."""

    def __init__(self, streams: Tensor, lasts: Tensor, window: int) -> None:
        """streams, lasts: (K,) int64, rows and places of a chunk (B, T, …)."""
        slots = torch.arange(window, device=lasts.device)
        place = lasts.unsqueeze(1) - (window - 1) + slots  # (K, n)
        self.window = window
        self._streams = streams.unsqueeze(1)
        self._place = place.clamp(min=0)
        self._there = place >= 0
        self._missing = (window - 1 - lasts).clamp(min=0)  # slots before the beginning of the chunk
        # The static position of the oldest token that is there is 0.
        self._position = (slots - self._missing.unsqueeze(1)).clamp(min=0)
        self._rows = torch.arange(len(lasts), device=lasts.device)

    def occupied(self, ring: Tensor, lead: int = 0) -> Tensor:
        """(B, h, lead + T, w) to (K, h, lead + n, w)."""
        heads, width = ring.shape[1], ring.shape[3]
        rows = self.occupied_rows(ring.transpose(1, 2).flatten(2), lead)
        return rows.view(len(rows), -1, heads, width).transpose(1, 2)

    def occupied_rows(self, ring: Tensor, lead: int = 0) -> Tensor:
        """(B, lead + T, d) to (K, lead + n, d)."""
        slots = F.pad(self._place + lead, (lead, 0))  # a class token stands in slot 0
        return F.embedding(self._streams * ring.shape[1] + slots, ring.flatten(0, 1))

    def mask(self, lead: int = 0) -> Tensor | None:
        """(K, 1, 1, lead + n), true where a slot holds a token."""
        return F.pad(self._there, (lead, 0), value=True)[:, None, None]

    def rotated(self, table: Tensor) -> Tensor:
        """Entries of a doubled table (…, 2n, w) by slot: (K, …, n, w)."""
        if table.dim() == 2:
            return F.embedding(self._position, table)
        heads, _, width = table.shape
        entries = F.embedding(self._position, table.transpose(0, 1).flatten(1))
        return entries.view(*entries.shape[:2], heads, width).transpose(1, 2)

    def aged(self, table: Tensor) -> Tensor:
        """Entries by slot out of a table by age that `age_bias.doubled` made (h, 2n): (1, h, n)."""
        return table.narrow(-1, 1, self.window).unsqueeze(0)

    def row(self, rows: Tensor, lag: int) -> Tensor:
        """The row (K, 1, d) of the token `lag` steps before the last (the oldest, if there is none so old)."""
        slot = torch.clamp(self._missing, min=self.window - 1 - lag)
        return rows[self._rows, slot].unsqueeze(1)
