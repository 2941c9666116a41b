"""Tiny datasets and checkpoints for tests of evaluation: random models, features that tell the classes apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pipelines.checkpoints.checkpoint import save_checkpoint
from pipelines.datasets.published.gtzan import GENRES
from pipelines.features.spec import FeatureSpec
from pipelines.model import ContinualTransformer, ModelConfig

WIDTH = 5  # of features
LABELS = ("cat", "dog", "owl")


def write_model(
    path: Path,
    class_names: Sequence[str] | None = LABELS,
    seed: int = 0,
    record: Mapping[str, Any] | None = None,
    features: FeatureSpec | None = None,
    **changes: Any,
) -> Path:
    """A checkpoint with random weights; record: the recipe of its training."""
    sizes: dict[str, Any] = {
        "input_width": WIDTH,
        "width": 8,
        "heads": 2,
        "feed_forward": 12,
        "blocks": 1,
        "window": 6,
        "classes": 3 if class_names is None else len(class_names),
    }
    torch.manual_seed(seed)
    model = ContinualTransformer(ModelConfig(**{**sizes, **changes})).eval()
    path.parent.mkdir(parents=True, exist_ok=True)
    save_checkpoint(path, model, class_names, features, {"recipe": record} if record else None)
    return path


def write_clips(root: Path, train: int = 4, test: int = 3, rows: int = 10) -> Path:
    """A `folder` dataset of feature files: train/LABEL/N.npy and test/LABEL/N.npy."""
    generator = np.random.default_rng(0)
    for split, count in (("train", train), ("test", test)):
        for label, name in enumerate(LABELS):
            for number in range(count):
                path = root / split / name / f"{name}{number}.npy"
                path.parent.mkdir(parents=True, exist_ok=True)
                clip = generator.normal(size=(rows, WIDTH))
                clip[:, label] += 1.0
                np.save(path, clip.astype(np.float32))
    return root


def write_gtzan(root: Path, clips: int = 10, rows: int = 8) -> tuple[Path, Path]:
    """GTZAN with clips of noise, and the folder of their features."""
    import soundfile

    generator = np.random.default_rng(0)
    for label, genre in enumerate(GENRES):
        (root / "genres" / genre).mkdir(parents=True)
        (root / "features" / genre).mkdir(parents=True)
        for number in range(clips):
            name = f"{genre}.{number:05d}"
            soundfile.write(root / "genres" / genre / f"{name}.wav", generator.normal(0, 0.1, 4400), 4000)
            values = generator.normal(size=(rows, WIDTH)) + 2 * np.sin((label + 1) * np.arange(WIDTH))
            np.save(root / "features" / genre / f"{name}.npy", values.astype(np.float32))
    return root, root / "features"
