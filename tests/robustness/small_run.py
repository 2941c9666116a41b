"""A training run that takes seconds, as arguments of the command line, and commands in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

SIZES = ("-s", "model.width=16", "-s", "model.heads=2", "-s", "model.feed_forward=16", "--window", "10")
MODEL = ("--recipe", "paper", "--model", "cotrans-b1", "--batch-size", "6", *SIZES)


def write_clips(root: Path, classes: tuple[str, ...] = ("cat", "dog", "owl")) -> Path:
    """Feature files of clips in the layout of the folder dataset."""
    generator = np.random.default_rng(0)
    for split, count in (("train", 6), ("validation", 2)):
        for label, name in enumerate(classes):
            folder = root / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                rows = generator.normal(0, 0.5, (10 + number % 2, 5)) + np.eye(5)[label] * 2
                np.save(folder / f"{split}-{label}-{number}.npy", rows.astype(np.float32))
    return root


def train_arguments(clips: Path, epochs: int = 2) -> list[str]:
    """`cotrans train` on such clips, but for --out."""
    return ["train", "--dataset", "folder", "--root", str(clips), *MODEL, "--epochs", str(epochs), "--quiet"]


def started(arguments: list[str], environment: dict[str, str] | None = None, **options: Any) -> subprocess.Popen[str]:
    """`cotrans` in a process of its own, with pipes for both outputs unless told otherwise."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
    return subprocess.Popen([sys.executable, "-m", "cotrans_cli", *arguments], env=variables, **options)
