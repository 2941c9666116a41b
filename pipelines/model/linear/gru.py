"""The gated recurrent unit, in float32 and with packed weights."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from pipelines.model.linear.projection import PackedProjection


class Gru(nn.GRU):
    """A GRU whose layers can be stepped one by one, and packed."""

    def cell(self, layer: int, row: Tensor, hidden: Tensor) -> Tensor:
        """One step of one layer: input (B, e) and memory (B, d) to the new memory (B, d)."""
        return torch.gru_cell(row, hidden, *self.all_weights[layer])

    def packed(self, kind: type[PackedProjection]) -> PackedGru:
        return PackedGru(self, kind)


class PackedGru(nn.Module):
    """The same numbers, but for what the weights lose."""

    def __init__(self, gru: Gru, kind: type[PackedProjection]) -> None:
        super().__init__()
        layers = [cast("tuple[Tensor, ...]", tuple(weights)) for weights in gru.all_weights]
        self.inputs = nn.ModuleList(kind(weight, bias) for weight, _, bias, _ in layers)
        self.memories = nn.ModuleList(kind(weight, bias) for _, weight, _, bias in layers)

    def cell(self, layer: int, row: Tensor, hidden: Tensor) -> Tensor:
        """As `Gru.cell`."""
        return self._moved(layer, cast(PackedProjection, self.inputs[layer]).project(row), hidden)

    def forward(self, rows: Tensor, hidden: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Rows (B, T, e) and memory (layers, B, d) to rows (B, T, d) and memory."""
        after = []
        for layer, inputs in enumerate(self.inputs):
            brought = cast(PackedProjection, inputs).project(rows)  # (B, T, 3d)
            memory = brought.new_zeros(rows.shape[0], brought.shape[-1] // 3) if hidden is None else hidden[layer]
            outputs = []
            for part in brought.unbind(1):
                memory = self._moved(layer, part, memory)
                outputs.append(memory)
            rows = torch.stack(outputs, dim=1)
            after.append(memory)
        return rows, torch.stack(after)

    def _moved(self, layer: int, brought: Tensor, hidden: Tensor) -> Tensor:
        """The new memory (B, d) from the input's part of the gates (B, 3d): reset, update and new, in this order."""
        kept = cast(PackedProjection, self.memories[layer]).project(hidden)
        width = hidden.shape[-1]
        gates = torch.sigmoid(brought[:, : 2 * width] + kept[:, : 2 * width])
        reset, update = gates.chunk(2, dim=-1)
        new = torch.tanh(torch.addcmul(brought[:, 2 * width :], reset, kept[:, 2 * width :]))
        return torch.lerp(new, hidden, update)
