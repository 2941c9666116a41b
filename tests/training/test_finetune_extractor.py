"""Stage 1 on real code from end to end: sounds in, a weight file out that the extractor takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from pipelines.datasets.opening import open_dataset
from pipelines.errors import ConfigurationError, UsageError
from pipelines.training.events import Event, Remark
from pipelines.training.fitting.finetune_extractor import finetune_extractor, load_trainable
from pipelines.training.recipes.recipe import Recipe
from pipelines.training.recipes.recipe_file import build_recipe
from pipelines.training.run import train


def make_sounds(root: Path, seconds: float = 3.2) -> None:
    generator = np.random.default_rng(0)
    time = np.arange(round(16000 * seconds)) / 16000
    for number in range(4):
        tone = 0.3 * np.sin(2 * np.pi * (300 + 30 * number) * time)
        noise = generator.normal(0, 0.2, len(time))
        for label, sound in (("noise", noise), ("tone", tone)):
            path = root / ("train" if number < 3 else "validation") / label / f"{number}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(path, sound.astype(np.float32), 16000)


def recipe_for(root: Path, cache: Path, **flags: object) -> Recipe:
    values = {
        "data.dataset": "folder",
        "data.root": str(root),
        "features.names": "musicnn",
        "features.cache": str(cache),
        "finetune.epochs": 2,
        "finetune.hop": 2.0,
        "finetune.learning_rate": 1e-3,
        "finetune.batch_size": 6,
    }
    return build_recipe(None, {**values, **flags})


def test_finetuned_features_are_what_stage_two_trains_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTRANS_CACHE", str(tmp_path / "cache"))
    make_sounds(tmp_path / "sounds")
    small = {"features.finetune": True, "model.window": 12, "training.epochs": 1, "features.hop": 0.5}
    recipe = recipe_for(tmp_path / "sounds", tmp_path / "features", **small)
    remarks: list[str] = []

    def watch(event: Event) -> None:
        if isinstance(event, Remark):
            remarks.append(event.text)

    result = train(recipe, tmp_path / "run", device="cpu", observer=watch)
    assert any(text.startswith("stage 1, epoch 2: loss") for text in remarks)
    assert result.train_recordings == 6
    from pipelines.checkpoints.checkpoint import load_checkpoint
    from pipelines.features.audio.musicnn.extractor import load_musicnn, shipped_weights
    from pipelines.files import file_sha256

    weights = tmp_path / "run" / "extractor.safetensors"
    part = load_checkpoint(tmp_path / "run" / "best.safetensors").features.parts[0]
    assert part.weights == file_sha256(weights)
    changed = load_musicnn(weights).convolutions[0].weight - load_musicnn(shipped_weights("msd")).convolutions[0].weight
    assert 0 < changed.detach().abs().max().item() < 0.05


def test_stage_one_learns_to_tell_tones_from_noise(tmp_path: Path) -> None:
    make_sounds(tmp_path / "sounds")
    recipe = recipe_for(tmp_path / "sounds", tmp_path / "features")
    dataset = open_dataset("folder", tmp_path / "sounds")
    result = finetune_extractor(dataset, recipe, tmp_path)
    assert (result.window_accuracy, result.vote_accuracy) == (1.0, 1.0)


def test_what_cannot_be_fine_tuned_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="trains vggish or musicnn, and --features is logmel"):
        load_trainable(recipe_for(tmp_path, tmp_path, **{"features.names": "logmel"}))
    with pytest.raises(ConfigurationError, match="output pooled"):
        load_trainable(recipe_for(tmp_path, tmp_path, **{"features.options.output": "tags"}))
    (tmp_path / "vggish.pth").write_bytes(b"not looked at")
    vggish = {"features.names": "vggish", "features.weights.vggish": str(tmp_path / "vggish.pth")}
    with pytest.raises(ConfigurationError, match="vggish has no output 'tags'"):
        load_trainable(recipe_for(tmp_path, tmp_path, **vggish, **{"features.options.output": "tags"}))
