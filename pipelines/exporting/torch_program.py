"""A step as a file of `torch.export`, with its description beside the graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from pipelines.exporting.description import StepDescription
from pipelines.exporting.step_module import StepModule
from pipelines.exporting.tracing import quiet
from pipelines.exporting.verification import Values

DESCRIPTION = "cotrans.json"


def save_program(program: torch.export.ExportedProgram, description: StepDescription, path: Path) -> None:
    """Write a traced step. `torch.export.load(path, extra_files=...)` reads it without this package."""
    with quiet(), path.open("wb") as file:
        torch.export.save(program, file, extra_files={DESCRIPTION: json.dumps(description.to_metadata())})


class TorchRunner:
    """Runs a file as `verify` wants it."""

    def __init__(self, path: Path, step: StepModule) -> None:
        with quiet(), path.open("rb") as file:
            self._program: Any = torch.export.load(file).module()
        self._step = step
        self._scores = len(step.signature.outputs) - len(step.signature.inputs) + 1  # outputs that are no state
        self._state: tuple[torch.Tensor, ...] = ()

    def __call__(self, tokens: Values, begins: bool) -> Values:
        if begins:
            self._state = self._step.zeros(len(tokens))[1:]
        scores, *rest = self._program(torch.from_numpy(tokens), *self._state)
        self._state = tuple(rest[self._scores - 1 :])
        result: Values = scores.numpy()
        return result
