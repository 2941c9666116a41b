"""The default recipe of detection, on a small made-up task that needs a memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pipelines.checkpoints.checkpoint import load_checkpoint
from pipelines.datasets.dataset import Dataset
from pipelines.model.kinds import make_model
from pipelines.model.presets import preset
from pipelines.training.artifacts import RunFolder
from pipelines.training.fitting.loop import make_optimizer
from pipelines.training.recipes.recipe import OptimizerOptions
from pipelines.training.recipes.recipe_file import build_recipe
from pipelines.training.run import RunResult, train_on
from pipelines.training.samples.opening import TrainingData
from pipelines.training.samples.recordings import Recording

WIDTH, CLASSES = 12, 4
# The preset at a size for a test; everything else is what a user gets.
SIZES = {"width": 64, "heads": 4, "feed_forward": 64, "window": 12, "embedding": 64}


def made_up_stream(name: str, length: int, seed: int) -> Recording:
    """Actions of 6 to 14 rows in noise that hides most single rows, with background between."""
    generator = np.random.default_rng(seed)
    prototypes = np.random.default_rng(99).normal(size=(CLASSES, WIDTH))
    prototypes[0] = 0.0
    labels = np.zeros(length, dtype=np.int64)
    place = 0
    while place < length:
        place += int(generator.integers(4, 12))
        end = place + int(generator.integers(6, 15))
        labels[place:end] = generator.integers(1, CLASSES)
        place = end
    rows = prototypes[labels] + generator.normal(0, 1.5, (length, WIDTH))
    targets = np.eye(CLASSES, dtype=np.float32)[labels]
    return Recording(name, rows.astype(np.float32), CLASSES, None, targets, np.ones(length, dtype=np.bool_))


def trained(folder: Path, **flags: object) -> RunResult:
    dataset = Dataset("made up", "frames", Path(), ("background", "a", "b", "c"), (), background=0, hop=0.5)
    train = tuple(made_up_stream(f"train-{seed}", 128, seed) for seed in range(16))
    held_out = tuple(made_up_stream(f"validation-{seed}", 200, 1000 + seed) for seed in range(8))
    fixed = {"model.preset": "cooadtr-b1", "training.validate_every": 1000}  # scored once, at the end
    recipe = build_recipe(None, {**fixed, **{f"model.{key}": size for key, size in SIZES.items()}, **flags})
    return train_on(TrainingData(dataset, train, held_out, None), recipe, RunFolder(folder))


def test_the_default_recipe_ends_above_its_per_frame_baseline(tmp_path: Path) -> None:
    result = trained(tmp_path / "run")
    assert result.baseline is not None and result.last_scores is not None and result.last_scores.map is not None
    assert result.steps >= 400
    assert result.last_scores.map > result.baseline.best + 0.05
    assert not result.below_baseline


def test_a_class_token_learns_which_rows_are_new(tmp_path: Path) -> None:
    """Its query is the same at every step, so the learned bias by age alone can tell it what is new."""
    result = trained(tmp_path / "run", **{"model.class_token_block": 1})
    assert result.baseline is not None and result.last_scores is not None and result.last_scores.map is not None
    assert result.last_scores.map > result.baseline.best
    bias = load_checkpoint(tmp_path / "run" / "last.safetensors").model.state_dict()["encoder.blocks.0.age_bias"]
    assert bias[:, :4].mean() > bias[:, -4:].mean() + 0.5


def test_the_rate_of_biases_by_age_is_theirs_alone() -> None:
    model = make_model(preset("cooadtr-b1", **SIZES, input_width=WIDTH, classes=CLASSES, positional="relative"))
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    for times, biases in ((1.0, set()), (30.0, {"encoder.blocks.0.age_bias"})):
        groups = make_optimizer(OptimizerOptions(age_rate=times), model).param_groups
        assert sorted(names[id(p)] for group in groups for p in group["params"]) == sorted(names.values())
        faster = [group for group in groups if group.get("times", 1.0) != 1.0]
        assert {names[id(p)] for group in faster for p in group["params"]} == biases
        assert all(group["times"] == times for group in faster)
