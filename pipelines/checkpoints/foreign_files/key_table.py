"""Renaming keys by tables: every key of a file is mapped, dropped for a stated reason, or an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from pipelines.checkpoints.checkpoint import shape_text
from pipelines.errors import CheckpointError
from pipelines.wording import listed


@dataclass(frozen=True)
class Mapped:
    """Weights under our names, and where each came from."""

    weights: dict[str, Tensor]  # by our names, in our shapes
    mapped: dict[str, str]  # their key to ours
    dropped: dict[str, str]  # their key to the reason


def rename(
    source: Mapping[str, Tensor],
    table: Mapping[str, str],
    dropped: Mapping[str, str],
    shapes: Mapping[str, tuple[int, ...]],
    path: Path,
) -> Mapped:
    """Apply a table of their keys to ours.

    dropped: keys that may be there and are not needed, with the reason. shapes: of our tensors; theirs may have
    further dimensions of 1. Missing, unexplained and mis-shaped keys are one error that lists them all.
    """
    problems = [f"{key} is missing" for key in table if key not in source]
    problems += [f"{key} is not known" for key in source if key not in table and key not in dropped]
    problems += [
        f"{key} is {shape_text(source[key].shape)} instead of {shape_text(shapes[ours])}"
        for key, ours in table.items()
        if key in source and _squeezed(source[key].shape) != _squeezed(shapes[ours])
    ]
    if problems:
        raise CheckpointError(
            f"{path} does not have the weights of this kind of model: {listed(problems, separator='; ')}"
        )
    weights = {ours: source[key].reshape(shapes[ours]) for key, ours in table.items()}
    return Mapped(weights, dict(table), {key: reason for key, reason in dropped.items() if key in source})


def expand(rows: Mapping[str, str], blocks: int) -> dict[str, str]:
    """A table for one block, written out for all. {block} counts from 0; {twice} and {next}: 2·block, 2·block + 1."""
    table = {}
    for block in range(blocks):
        numbers = {"block": block, "twice": 2 * block, "next": 2 * block + 1}
        table.update({theirs.format(**numbers): ours.format(**numbers) for theirs, ours in rows.items()})
    return table


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)
