"""A step of LSTR equals the official forward pass on the frame's memories, for every configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor

from pipelines.checkpoints.foreign_files.imported import Hints
from pipelines.checkpoints.opening import open_source
from pipelines.checkpoints.projects.lstr_keys import TABLE, key_table
from pipelines.checkpoints.projects.lstr_reference import LstrReference
from pipelines.model.lstr.config import LstrConfig
from pipelines.model.lstr.model import LstrModel
from tests.checkpoints.made_lstr import lstr_weights
from tests.model.small import joined_states, relative_error

SMALL = LstrConfig(
    input_width=6,
    width=8,
    heads=2,
    feed_forward=12,
    classes=3,
    long_samples=5,
    long_rate=3,
    work_samples=4,
    work_rate=1,
    encoder_queries=(3, 4),
    encoder_layers=(1, 2),
    encoder_norms=(True, True),
    decoder_layers=2,
)
TESTRA = {"include_work": True}
CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"long_positions": True},
    TESTRA,
    {**TESTRA, "decay": 0.5},
    {"decay": 0.9, "long_positions": True},
    {"work_positions": False},
    {"encoder_layers": (2, 1)},
    {"encoder_layers": (3, 1), "long_positions": True, "decay": 0.8},
    {"encoder_queries": (3,), "encoder_layers": (1,), "encoder_norms": (False,)},
    {"encoder_queries": (3, 0), "encoder_layers": (1, 2)},
    {"encoder_queries": (3, 4, 2), "encoder_layers": (1, 1, 2), "encoder_norms": (True, False, True)},
    {"decoder_layers": 1},
    {**TESTRA, "decoder_layers": 1},
    {**TESTRA, "decoder_layers": 3},
    {"decoder_layers": 3, "decoder_norm": False},
    {"work_rate": 2},
    {"work_rate": 2, "long_rate": 1},
    {**TESTRA, "work_rate": 5},
    {**TESTRA, "work_rate": 4, "decay": 0.3, "encoder_layers": (2, 2)},
    {"long_rate": 1},
    {"long_rate": 7, "long_samples": 2},
    {"work_samples": 1, "long_samples": 1, "long_rate": 1},
    {"activation": "gelu"},
    {"feature_head": False, "input_width": 8},
)

# Models whose official scores are in golden/lstr_others.safetensors.
OTHERS: tuple[dict[str, Any], ...] = (
    {"long_positions": True, "long_rate": 7, "long_samples": 4},
    {**TESTRA, "decay": 0.5, "long_rate": 1, "encoder_layers": (2, 1)},
    {"encoder_queries": (3, 0, 2), "encoder_layers": (1, 2, 1), "encoder_norms": (False, True, False)},
    {**TESTRA, "work_rate": 2, "work_samples": 3, "decoder_layers": 3, "decoder_norm": False},
    {"feature_head": False, "input_width": 8, "activation": "gelu", "heads": 4, "decay": 0.97, "long_positions": True},
    {**TESTRA, "encoder_queries": (2,), "encoder_layers": (3,), "encoder_norms": (True,), "decoder_layers": 1},
)


def made(config: LstrConfig, seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[LstrModel, LstrReference]:
    """A model of ours and the official one, with the same weights."""
    weights = {key: value.to(dtype) for key, value in lstr_weights(config, seed).items()}
    cut = {**weights, TABLE: weights[TABLE][: config.position_count, 0]}
    model = LstrModel(config).to(dtype).eval()
    model.load_state_dict({ours: cut[theirs] for theirs, ours in key_table(config).items()})
    return model, LstrReference(weights, config)


def frames(config: LstrConfig, length: int, batch: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
    """(B, length, input_width)"""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(batch, length, config.input_width, generator=generator, dtype=torch.float64).to(dtype)


def official(reference: LstrReference, stream: Tensor, steps: Sequence[int] | None = None) -> Tensor:
    """The official scores (steps, classes) of a stream (T, input_width); steps: of these frames, None: of all."""
    wanted = range(len(stream)) if steps is None else steps
    return torch.cat([outputs.logits for outputs in reference.along(stream, wanted)])


def stepped(model: LstrModel, tokens: Tensor) -> Tensor:
    """Logits (B, T, classes), one frame at a time."""
    state, outputs = model.initial_state(tokens.shape[0]), []
    for token in tokens.unbind(1):
        logits, state = model.step(token, state)
        outputs.append(logits)
    return torch.stack(outputs, dim=1)


@pytest.mark.parametrize("changes", CHANGES, ids=str)
@torch.inference_mode()
def test_step_steps_and_window_equal_the_official_model(changes: dict[str, Any]) -> None:
    config = replace(SMALL, **changes)
    model, reference = made(config)
    length = 2 * config.window + 5
    tokens = frames(config, length)
    expected = official(reference, tokens[0])
    assert relative_error(stepped(model, tokens)[0], expected) <= 1e-11
    assert relative_error(model.steps(tokens, model.initial_state(1))[0][0], expected) <= 1e-11
    for frame in (0, 1, config.span, config.window - 1, length - 1):
        window = tokens[:, max(0, frame + 1 - config.window) : frame + 1]
        assert relative_error(model(window)[0], expected[frame]) <= 1e-11


@pytest.mark.parametrize("number", range(len(OTHERS)))
@torch.inference_mode()
def test_other_shapes_give_the_official_scores(number: int, golden_dir: Path) -> None:
    """From the first frame on; NaN where the official program predicts nothing (the last frames, with a work rate)."""
    config = replace(SMALL, **OTHERS[number])
    wanted = load_file(golden_dir / "lstr_others.safetensors")[str(number)]
    told = ~wanted.isnan().any(1)
    assert told[: len(told) - config.work_rate + 1].all()
    model, reference = made(config)
    tokens = frames(config, len(wanted))
    for scores in (stepped(model, tokens)[0], official(reference, tokens[0])):
        assert relative_error(scores[told], wanted[told]) <= 1e-11


@settings(max_examples=15, deadline=None)
@given(
    long_samples=st.integers(1, 6),
    long_rate=st.integers(1, 5),
    work_samples=st.integers(1, 5),
    work_rate=st.integers(1, 3),
    layers=st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(1, 3)),
    switches=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    decay=st.sampled_from([1.0, 0.9, 0.2]),
    seed=st.integers(0, 1000),
)
@torch.inference_mode()
def test_any_small_configuration(
    long_samples: int,
    long_rate: int,
    work_samples: int,
    work_rate: int,
    layers: tuple[int, int, int],
    switches: tuple[bool, bool, bool],
    decay: float,
    seed: int,
) -> None:
    config = replace(
        SMALL,
        long_samples=long_samples,
        long_rate=long_rate,
        work_samples=work_samples,
        work_rate=work_rate,
        encoder_layers=layers[:2],
        decoder_layers=layers[2],
        long_positions=switches[0],
        work_positions=switches[1],
        include_work=switches[2],
        decay=decay,
    )
    model, reference = made(config, seed)
    tokens = frames(config, config.window + 12)
    assert relative_error(stepped(model, tokens)[0], official(reference, tokens[0])) <= 1e-11


@pytest.mark.parametrize("changes", [{}, {"long_positions": True}, {**TESTRA, "decay": 0.7}], ids=str)
@torch.inference_mode()
def test_rows_of_a_batch_start_stop_and_wait_on_their_own(changes: dict[str, Any]) -> None:
    config = replace(SMALL, **changes)
    model, _ = made(config)
    length = config.window + 9
    tokens = frames(config, length, batch=8)
    alone = stepped(model, tokens)
    generator = torch.Generator().manual_seed(2)
    seen = torch.zeros(8, dtype=torch.long)
    state = model.initial_state(8)
    for _ in range(3 * length):
        active = (torch.rand(8, generator=generator) < 0.6) & (seen < length)
        index = torch.clamp(seen, max=length - 1)
        logits, state = model.step(tokens[torch.arange(8), index], state, active)
        for row in active.nonzero().flatten().tolist():
            assert relative_error(logits[row], alone[row, seen[row]]) <= 1e-11
        seen += active
    assert int(seen.min()) > config.window


@torch.inference_mode()
def test_rows_can_be_taken_out_and_put_together_in_the_middle_of_a_phase() -> None:
    config = replace(SMALL, include_work=True, decay=0.8)
    model, _ = made(config)
    tokens = frames(config, 60, batch=2)
    alone = stepped(model, tokens)
    _, ahead = model.steps(tokens[:1, :31], model.initial_state(1))
    _, behind = model.steps(tokens[1:, :25], model.initial_state(1))
    both = joined_states([behind, ahead])
    for index in range(20):
        token = torch.stack([tokens[1, 25 + index], tokens[0, 31 + index]])
        logits, both = model.step(token, both)
        assert relative_error(logits[0], alone[1, 25 + index]) <= 1e-11
        assert relative_error(logits[1], alone[0, 31 + index]) <= 1e-11


@pytest.mark.parametrize("changes", [TESTRA, {**TESTRA, "decay": 0.9}], ids=str)
@torch.inference_mode()
def test_keys_that_dominate_and_leave(changes: dict[str, Any]) -> None:
    config = replace(SMALL, **changes)
    model, reference = made(config)
    tokens = frames(config, 1_000)
    tokens[:, ::29] *= 300  # exponents of thousands
    logits, _ = model.steps(tokens, model.initial_state(1))
    assert relative_error(logits[0], official(reference, tokens[0])) <= 1e-9


@pytest.mark.parametrize("in_float64", [True, False], ids=["float64 inside", "float32 inside"])
@pytest.mark.parametrize("changes", [{}, {"long_positions": True}, TESTRA, {**TESTRA, "decay": 0.9}], ids=str)
@torch.inference_mode()
def test_ten_thousand_frames_in_which_keys_dominate_and_leave(
    changes: dict[str, Any], in_float64: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No drift: the official numbers to the end, whether frames and weights are float64 or float32.

    A large model computes in float32, where scores of hundreds cost digits whoever computes: the yardstick is then the
    official way in float32 itself.
    """
    config = replace(SMALL, **changes)
    exact_model, exact = made(config)
    model, single = made(config, dtype=torch.float32)
    tokens = frames(config, 10_000)
    tokens[:, ::29] *= 10
    tokens = tokens.float().double()
    looked_at = range(0, 10_000, 41)
    wanted = official(exact, tokens[0], looked_at)
    if in_float64:
        logits, _ = exact_model.steps(tokens, exact_model.initial_state(1))
        assert relative_error(logits[0, looked_at], wanted) <= 1e-9
        rough, _ = model.steps(tokens[:, :1_000].float(), model.initial_state(1))  # the same computation
        assert rough.dtype == torch.float32
        assert relative_error(rough[0, :1_000:41], wanted[: len(range(0, 1_000, 41))]) <= 1e-6
        return
    monkeypatch.setattr("pipelines.model.lstr.config.FLOAT64_WIDTH", 0)
    rough, _ = model.steps(tokens.float(), model.initial_state(1))
    assert rough.isfinite().all()
    official_error = relative_error(official(single, tokens[0].float(), looked_at), wanted)
    assert relative_error(rough[0, looked_at], wanted) <= max(1e-4, 4 * official_error)


@pytest.mark.parametrize("name", ["lstr", "testra_box", "testra_decay"])
@torch.inference_mode()
def test_features_that_are_ten_times_too_large(name: str, golden_dir: Path) -> None:
    """Here the official float32 computation is up to 2e-3 off: ours, windows and steps, is the one in float64."""
    hints = Hints(config=golden_dir / f"{name}.yaml")
    imported = open_source(golden_dir / f"{name}.pth", hints).imported
    model = LstrModel(imported.config).eval()
    model.load_state_dict(dict(imported.weights))
    assert isinstance(imported.reference, LstrReference)
    tokens = 10 * frames(imported.config, 400, dtype=torch.float32)
    wanted = official(imported.reference, tokens[0].double())
    logits, _ = model.steps(tokens, model.initial_state(1))
    assert relative_error(logits[0], wanted) <= 1e-6
    assert relative_error(model(tokens[:, -imported.config.window :])[0], wanted[-1]) <= 1e-6


@torch.inference_mode()
def test_single_precision() -> None:
    for changes in ({}, {"long_positions": True}, {**TESTRA, "decay": 0.9}):
        config = replace(SMALL, **changes)
        model, reference = made(config, dtype=torch.float32)
        tokens = frames(config, 120, dtype=torch.float32)
        assert relative_error(stepped(model, tokens)[0], official(reference, tokens[0])) <= 2e-5


def test_the_window_can_be_trained() -> None:
    model, _ = made(replace(SMALL, include_work=True))
    model.train()
    model(frames(SMALL, SMALL.window, batch=2)).square().sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
