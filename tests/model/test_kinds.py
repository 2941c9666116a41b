"""Every kind of model keeps the same promises: a step is a window is a chunk, and state is a value."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from pipelines.checkpoints.builtin import builtin_names, models_folder
from pipelines.checkpoints.checkpoint import load_checkpoint, read_header, save_checkpoint
from pipelines.errors import CheckpointError, ConfigurationError, InputError, NonFiniteInputError
from pipelines.model import (
    ContinualModel,
    ModelConfig,
    PerFrameConfig,
    RecurrentConfig,
    StreamState,
    config_from_json,
    make_model,
)
from pipelines.model.base_config import BaseConfig
from pipelines.model.kinds import KINDS, settings_of
from pipelines.model.lstr.config import LstrConfig
from pipelines.model.presets import preset
from tests.model.small import SIZES, check_rows_are_independent, stream
from tests.model.test_lstr import SMALL

CONFIGS: dict[str, BaseConfig] = {
    "transformer": ModelConfig(**SIZES, blocks=1, embedding=10, positional="relative"),
    "recurrent": RecurrentConfig(input_width=6, embedding=5, width=7, layers=1, classes=3, window=9),
    "recurrent, two layers": RecurrentConfig(input_width=6, embedding=5, width=4, layers=2, classes=3),
    "per-frame": PerFrameConfig(input_width=6, embedding=5, classes=3),
    "per-frame, linear": PerFrameConfig(input_width=6, classes=3),
    "LSTR": replace(SMALL, long_samples=4, long_positions=True),
    "TeSTra": replace(SMALL, long_samples=4, include_work=True, decay=0.9),
}
LENGTH = 30


def seeded(name: str, dtype: torch.dtype = torch.float64) -> ContinualModel:
    torch.manual_seed(0)
    model = make_model(CONFIGS[name]).to(dtype).eval()
    for parameter in model.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter, mean=0.5, std=0.5)
    return model


def stepped(model: ContinualModel, tokens: Tensor) -> tuple[Tensor, StreamState]:
    state, outputs = model.initial_state(tokens.shape[0]), []
    with torch.no_grad():
        for token in tokens.unbind(1):
            logits, state = model.step(token, state)
            outputs.append(logits)
    return torch.stack(outputs, dim=1), state


def test_every_kind_is_here() -> None:
    assert {config.kind for config in CONFIGS.values()} == set(KINDS)


@pytest.mark.parametrize("name", CONFIGS)
def test_json_says_the_kind(name: str) -> None:
    config = CONFIGS[name]
    assert config_from_json(config.to_json()) == config
    with pytest.raises(ConfigurationError, match="unknown model configuration key: hats"):
        type(config).from_dict({**config.to_dict(), "hats": 1})


def test_kinds_are_kept_apart() -> None:
    with pytest.raises(ConfigurationError, match="no model of kind 'crystal ball'"):
        config_from_json('{"kind": "crystal ball"}')
    with pytest.raises(ConfigurationError, match="kind 'recurrent', not transformer"):
        ModelConfig.from_json(CONFIGS["recurrent"].to_json())
    with pytest.raises(ConfigurationError, match="a recurrent model has no setting 'heads'"):
        preset("miniroad", heads=8)
    assert "layers" in settings_of("recurrent")


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (RecurrentConfig, {"layers": 0}, "layers must be at least 1"),
        (RecurrentConfig, {"width": 1.5}, "width must be int"),
        (RecurrentConfig, {"dropout": 1.0}, "dropout must be in"),
        (LstrConfig, {"heads": 3}, "width 8 is not divisible by heads 3"),
        (LstrConfig, {"decay": 0.0}, "decay must be above 0"),
        (LstrConfig, {"encoder_layers": [1]}, "every encoder module needs"),
        (LstrConfig, {"encoder_queries": [0, 4]}, "the first one queries"),
        (LstrConfig, {"encoder_norms": [True, 1]}, "encoder_norms must be bool"),
        (LstrConfig, {"feature_head": False}, "the width .8. must be that of the input .6."),
        (PerFrameConfig, {"embedding": 0}, "embedding must be at least 1"),
        (PerFrameConfig, {"embedding": None, "dropout": 0.5}, "there is no embedding"),
    ],
)
def test_what_cannot_work_is_refused(kind: type[BaseConfig], changes: dict[str, Any], message: str) -> None:
    config = next(config for config in CONFIGS.values() if isinstance(config, kind))
    with pytest.raises(ConfigurationError, match=message):
        kind.from_dict({**config.to_dict(), **changes})


@pytest.mark.parametrize("name", CONFIGS)
def test_a_step_is_the_model_on_what_it_has_seen(name: str) -> None:
    """On the receptive field or, where that is everything, on the stream from its beginning."""
    model = seeded(name)
    tokens = stream(2, LENGTH, torch.float64)
    reach = model.config.receptive_field or LENGTH
    steps, _ = stepped(model, tokens)
    with torch.no_grad():
        for t in range(LENGTH):
            window = model(tokens[:, max(0, t + 1 - reach) : t + 1], max(0, t + 1 - reach))
            torch.testing.assert_close(steps[:, t], window, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", CONFIGS)
@settings(max_examples=6, deadline=None)
@given(cuts=st.lists(st.integers(0, LENGTH), max_size=6), batch=st.integers(1, 3))
def test_any_partition(name: str, cuts: list[int], batch: int) -> None:
    model = seeded(name)
    tokens = stream(batch, LENGTH, torch.float64)
    wanted, after = stepped(model, tokens)
    state, outputs = model.initial_state(batch), []
    with torch.no_grad():
        for first, last in itertools.pairwise([0, *sorted(cuts), LENGTH]):
            logits, state = model.steps(tokens[:, first:last], state)
            outputs.append(logits)
    torch.testing.assert_close(torch.cat(outputs, dim=1), wanted, rtol=1e-10, atol=1e-10)
    for mine, theirs in zip(state.tensors(), after.tensors(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", CONFIGS)
@settings(max_examples=5, deadline=None)
@given(schedule=st.lists(st.tuples(*[st.booleans()] * 3), min_size=12, max_size=20), reset=st.integers(3, 9))
def test_rows_are_independent(name: str, schedule: list[tuple[bool, ...]], reset: int) -> None:
    model = seeded(name)
    tokens = stream(3, len(schedule), torch.float64)
    alone, _ = stepped(model, tokens)
    check_rows_are_independent(model, tokens, alone, schedule, reset)


@pytest.mark.parametrize("name", CONFIGS)
def test_state_is_a_value(name: str, tmp_path: Path) -> None:
    model = seeded(name)
    tokens = stream(2, 12, torch.float64)
    with torch.no_grad():
        _, state = model.steps(tokens[:, :7], model.initial_state(2))
        before = [tensor.clone() for tensor in state.tensors()]
        model.snapshot(state, tmp_path / "state.safetensors")
        wanted, _ = model.step(tokens[:, 7], state)
        model.steps(tokens[:, 7:], state)
        assert all(map(torch.equal, state.tensors(), before))
        again = model.restore(tmp_path / "state.safetensors")
        assert torch.equal(model.step(tokens[:, 7], again)[0], wanted)
        alone = again.select([1])
        # Rows of a product may be summed in another order.
        torch.testing.assert_close(model.step(tokens[1:, 7], alone)[0], wanted[1:], rtol=1e-12, atol=1e-12)
    other = seeded("per-frame" if name.startswith("recurrent") else "recurrent")
    with pytest.raises(CheckpointError, match="state of another model"):
        other.restore(tmp_path / "state.safetensors")


@pytest.mark.parametrize("name", CONFIGS)
def test_bad_input_is_refused(name: str) -> None:
    model = seeded(name)
    with pytest.raises(NonFiniteInputError, match="batch row 1"):
        model.step(torch.tensor([[0.0] * 6, [torch.nan] * 6]).double(), model.initial_state(2))
    with pytest.raises(InputError, match="1 streams of width 6"):
        model.steps(torch.zeros(1, 3, 5).double(), model.initial_state())
    with pytest.raises(ConfigurationError, match="at least 1"):
        model.initial_state(0)
    with pytest.raises(InputError, match="no decoder"):
        model.predict(torch.zeros(1, 3, 6).double())


@pytest.mark.parametrize("name", CONFIGS)
def test_gradients_through_a_chunk_are_those_of_the_windows(name: str) -> None:
    model = seeded(name).train()
    if model.config.chunk_obstacle is not None:
        pytest.skip(model.config.chunk_obstacle)
    tokens, weights = stream(2, 6, torch.float64), torch.randn(2, 6, 3, dtype=torch.float64)
    reach = model.config.receptive_field or 6
    logits, _ = model.steps(tokens, model.initial_state(2))
    (logits * weights).sum().backward()
    chunk = {key: parameter.grad.clone() for key, parameter in model.named_parameters()}
    model.zero_grad()
    for t in range(6):
        (model(tokens[:, max(0, t + 1 - reach) : t + 1]) * weights[:, t]).sum().backward()
    for key, parameter in model.named_parameters():
        torch.testing.assert_close(chunk[key], parameter.grad, rtol=1e-9, atol=1e-9, msg=key)


class Step(nn.Module):
    def __init__(self, model: ContinualModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, token: Tensor, state: StreamState) -> tuple[Tensor, StreamState]:
        return self.model.step(token, state)


@pytest.mark.parametrize("name", ["recurrent, two layers", "per-frame"])
@torch.no_grad()
def test_exported_step(name: str) -> None:
    model = seeded(name, torch.float32)
    tokens = stream(1, 6)
    state = model.initial_state(1)
    step = torch.export.export(Step(model), (tokens[:, 0], state), strict=False).module()
    wanted, _ = stepped(model, tokens)
    for t in range(6):
        logits, state = step(tokens[:, t], state)
        torch.testing.assert_close(logits, wanted[:, t], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CONFIGS)
def test_checkpoints_bring_the_kind_back(name: str, tmp_path: Path) -> None:
    model = seeded(name)
    save_checkpoint(tmp_path / "model.safetensors", model)
    loaded = load_checkpoint(tmp_path / "model.safetensors").model
    assert type(loaded) is type(model) and loaded.config == model.config
    tokens = stream(1, 4, torch.float64)
    assert torch.equal(stepped(loaded, tokens)[0], stepped(model, tokens)[0])


def test_checkpoints_from_before_there_were_kinds_load_unchanged() -> None:
    """Those that ship with the program say no kind, no embedding and no shortcut."""
    old = {"music-genre", "sound-events", "spoken-digits"}
    assert old < set(builtin_names())
    for name in builtin_names():
        path = models_folder() / f"{name}.safetensors"
        header = read_header(path)
        assert (isinstance(header.config, ModelConfig) and header.config.kind == "transformer") == (name in old)
        model = load_checkpoint(path).model
        assert {key: tuple(value.shape) for key, value in model.state_dict().items()} == dict(header.shapes)
        logits, _ = model.step(torch.zeros(1, model.config.input_width), model.initial_state())
        assert logits.isfinite().all()


def test_a_long_recurrent_stream_equals_one_pass() -> None:
    model = seeded("recurrent, two layers")
    tokens = stream(1, 10_000, torch.float64)
    with torch.inference_mode():
        state = model.initial_state()
        for token in tokens.unbind(1):
            logits, state = model.step_(token, state)
        torch.testing.assert_close(logits, model(tokens), rtol=1e-10, atol=1e-10)


def test_miniroad_gives_the_numbers_of_the_official_program(shared_dir: Path) -> None:
    from safetensors.torch import load_file

    weights = torch.load(shared_dir / "golden" / "miniroad.pth", weights_only=True)
    renamed = {
        key.replace("layer1.0.", "embedding.linear.")
        .replace("layer1.1.", "embedding.norm.")
        .replace("f_classification.0.", "classifier."): value
        for key, value in weights.items()
    }
    expected = load_file(shared_dir / "golden" / "miniroad.expected.safetensors")
    embedding, inputs = renamed["embedding.linear.weight"].shape
    layers = sum(key.startswith("gru.weight_ih") for key in renamed)
    config = RecurrentConfig(
        input_width=inputs,
        embedding=embedding,
        width=renamed["gru.weight_hh_l0"].shape[1],
        layers=layers,
        classes=renamed["classifier.weight"].shape[0],
    )
    model = make_model(config).eval()
    model.load_state_dict(renamed)
    tokens = torch.cat([expected["rgb"], expected["flow"]], dim=1).unsqueeze(0)
    for logits in (stepped(model, tokens)[0], model.steps(tokens, model.initial_state())[0]):
        torch.testing.assert_close(logits[0].softmax(-1), expected["probabilities"], rtol=2e-5, atol=1e-6)
