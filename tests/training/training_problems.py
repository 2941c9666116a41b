"""Tiny seeded models and recordings for the tests of training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.datasets.dataset import Dataset
from pipelines.features.spec import ExtractorSpec, FeatureSpec
from pipelines.model.transformer.config import ModelConfig
from pipelines.training.recipes.recipe import (
    ModelOptions,
    OptimizerOptions,
    Recipe,
    ScheduleOptions,
    TrainingOptions,
)
from pipelines.training.samples.opening import TrainingData
from pipelines.training.samples.recordings import Recording

WIDTH, CLASSES, WINDOW = 6, 4, 8
# What rows of that width may be: two pieces of time of three mel bands.
BANDS = FeatureSpec(
    (ExtractorSpec("logmel", "audio", WIDTH, 0.1, {"n_mels": 3, "frames": 2, "lowest": 40.0, "highest": 4000.0}),), 0.1
)


def tiny_config(**changes: Any) -> ModelConfig:
    values: dict[str, Any] = {
        "input_width": WIDTH,
        "width": 16,
        "heads": 2,
        "feed_forward": 16,
        "blocks": 1,
        "window": WINDOW,
        "classes": CLASSES,
    }
    return ModelConfig(**{**values, **changes})


def stream(name: str, length: int, seed: int) -> Recording:
    """Features that show the class of their frame, in noise."""
    generator = np.random.default_rng(seed)
    prototypes = np.random.default_rng(99).normal(size=(CLASSES, WIDTH))
    labels = np.repeat(generator.integers(0, CLASSES, length // 5 + 1), 5)[:length]
    rows = prototypes[labels] + generator.normal(0, 0.5, (length, WIDTH))
    return Recording(
        name,
        rows.astype(np.float32),
        CLASSES,
        targets=np.eye(CLASSES, dtype=np.float32)[labels],
        valid=np.ones(length, dtype=np.bool_),
    )


def clip(name: str, length: int, label: int, seed: int) -> Recording:
    generator = np.random.default_rng(seed)
    prototypes = np.random.default_rng(99).normal(size=(CLASSES, WIDTH))
    rows = prototypes[label] + generator.normal(0, 0.5, (length, WIDTH))
    return Recording(name, rows.astype(np.float32), CLASSES, label=label)


def stream_data(lengths: tuple[int, ...] = (60, 45, 52), validation: tuple[int, ...] = (40, 50)) -> TrainingData:
    names = ("background", "one", "two", "three")
    dataset = Dataset("tiny", "frames", Path(), names, (), background=0, hop=0.1)
    train = tuple(stream(f"train-{i}", length, i) for i, length in enumerate(lengths))
    held_out = tuple(stream(f"validation-{i}", length, 100 + i) for i, length in enumerate(validation))
    return TrainingData(dataset, train, held_out, None)


def clip_data(count: int = 24, length: int = WINDOW) -> TrainingData:
    dataset = Dataset("tiny", "clips", Path(), ("a", "b", "c", "d"), ())
    train = tuple(clip(f"train-{i}", length, i % CLASSES, i) for i in range(count))
    held_out = tuple(clip(f"validation-{i}", length, i % CLASSES, 100 + i) for i in range(8))
    return TrainingData(dataset, train, held_out, None)


def tiny_recipe(**training: Any) -> Recipe:
    """A recipe for the data above; keyword arguments are keys of [training]."""
    changes = {"width": 16, "heads": 2, "feed_forward": 16, "window": WINDOW, "dropout": 0.1}
    options = TrainingOptions(
        **{"epochs": 3, "batch_size": 8, "chunk": 16, "chunk_batch": 2, "baseline": False, **training}
    )
    return Recipe(
        model=ModelOptions(preset="cotrans-b1", changes=changes),
        optimizer=OptimizerOptions(name="adam", learning_rate=3e-3),
        schedule=ScheduleOptions(name="constant"),
        training=options,
    )


def with_model(recipe: Recipe, **changes: Any) -> Recipe:
    return replace(recipe, model=replace(recipe.model, changes={**recipe.model.changes, **changes}))
