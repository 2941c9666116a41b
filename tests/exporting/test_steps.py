"""Exported steps in onnxruntime give the numbers of the model in PyTorch, far past the window, row by row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pipelines.checkpoints.builtin import builtin_names, find_model
from pipelines.checkpoints.checkpoint import load_checkpoint, save_checkpoint
from pipelines.exporting.exporter import export_model
from pipelines.exporting.runtime import OnnxStep
from pipelines.exporting.verification import difference
from pipelines.model import ContinualModel, make_model
from pipelines.model.base_config import BaseConfig
from pipelines.model.presets import PRESETS
from tests.model.small import SIZES, small_model, small_preset
from tests.model.test_lstr import SMALL

pytestmark = pytest.mark.slow

STEPS = 1000
ROWS = 3
# Every structure that a preset does not have.
MODELS: dict[str, dict[str, Any]] = {
    "two blocks, class token at the first": {"blocks": 2, "class_token_block": 1},
    "three blocks, class token at the last, alibi": {"blocks": 3, "class_token_block": 3, "positional": "alibi"},
    "one block, relative, class token": {"blocks": 1, "positional": "relative", "class_token_block": 1},
    "two blocks, rope, lag": {"blocks": 2, "positional": "rope", "lag": 1},
    "deep, rope, lag": {"blocks": 2, "stacking": "deep", "positional": "rope", "lag": 1},
    "embedding, shortcut": {"blocks": 1, "embedding": 10, "shortcut": "concatenate"},
    "no positions, rows read": {"blocks": 1, "positional": "none", "reading": 0.5},
    "rows and evidence read": {"blocks": 1, "positional": "relative", "reading": 0.5, "reading_evidence": True},
    "relative, answers recalled": {"blocks": 1, "positional": "relative", "recall": 7, "background": 1},
}
LSTR = {"LSTR": replace(SMALL, long_positions=True), "TeSTra": replace(SMALL, include_work=True, decay=0.9)}


def small_presets() -> dict[str, BaseConfig]:
    """Every preset at a size that a thousand steps take no time with; equal ones once."""
    sizes = {**SIZES, "embedding": 10, "positions": None, "decoder_heads": 2, "decoder_feed_forward": 8}
    configs: dict[str, BaseConfig] = {}
    for name in PRESETS:
        config = small_preset(name, **{key: value for key, value in sizes.items() if key in PRESETS[name].values})
        if config not in configs.values():
            configs[name] = config
    return configs


PRESET_CONFIGS = small_presets()


def seeded(config: BaseConfig) -> ContinualModel:
    torch.manual_seed(0)
    return make_model(config).eval()


def check_steps(path: Path, folder: Path) -> None:
    """A thousand steps, in which one row begins anew, and each row as if it were alone."""
    exported = export_model(path, folder / "step.onnx")
    step, model = OnnxStep(exported.path), load_checkpoint(path).model
    assert exported.verification.relative <= 1e-5
    tokens = np.random.default_rng(1).normal(size=(STEPS, ROWS, model.config.input_width)).astype(np.float32)
    state, theirs_state, ours, theirs = step.initial_state(ROWS), model.initial_state(ROWS), [], []
    with torch.inference_mode():
        for number, token in enumerate(tokens):
            if number == STEPS // 2:
                for tensor in state.values():
                    tensor[1] = 0
                theirs_state = model.reset_(theirs_state, [1])
            scores, state = step(token, state)
            logits, theirs_state = model.step_(torch.from_numpy(token), theirs_state)
            ours.append(scores)
            theirs.append(logits.numpy())
    assert difference(np.stack(ours), np.stack(theirs)) <= 1e-5
    state = step.initial_state(1)
    for number, token in enumerate(tokens[:50]):
        scores, state = step(token[2:], state)
        np.testing.assert_allclose(scores[0], ours[number][2], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", PRESET_CONFIGS)
def test_presets(name: str, tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "model.safetensors", seeded(PRESET_CONFIGS[name]))
    check_steps(tmp_path / "model.safetensors", tmp_path)


@pytest.mark.parametrize("kind", MODELS)
def test_structures(kind: str, tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "model.safetensors", small_model(**MODELS[kind]))
    check_steps(tmp_path / "model.safetensors", tmp_path)


@pytest.mark.parametrize("kind", LSTR)
def test_memories_of_lstr_and_testra(kind: str, tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "model.safetensors", seeded(LSTR[kind]))
    check_steps(tmp_path / "model.safetensors", tmp_path)


@pytest.mark.parametrize("name", builtin_names())
def test_built_in_models(name: str, tmp_path: Path) -> None:
    check_steps(find_model(name), tmp_path)
