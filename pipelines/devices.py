"""The device that a command runs on."""

from __future__ import annotations

import torch

from pipelines.errors import MissingDependencyError, UsageError

DEVICES = ("auto", "cpu", "cuda")


def choose_device(name: str) -> torch.device:
    """auto, cpu or cuda as a device that is there."""
    if name not in DEVICES:
        raise UsageError(f"unknown device '{name}': choose from {', '.join(DEVICES)}")
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise MissingDependencyError("--device cuda: PyTorch sees no GPU here; use --device cpu")
    return torch.device("cuda" if available and name != "cpu" else "cpu")
