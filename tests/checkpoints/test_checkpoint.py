"""Our own checkpoints: the same after a round trip, and refused with a reason when they are not right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from pipelines.checkpoints import load_checkpoint, save_checkpoint
from pipelines.checkpoints.checkpoint import read_header
from pipelines.errors import CheckpointError, ConfigurationError, InputError
from pipelines.features.spec import ExtractorSpec, FeatureSpec
from pipelines.model import ContinualTransformer, ModelConfig

CONFIG = ModelConfig(input_width=5, width=8, heads=2, feed_forward=12, blocks=2, window=4, classes=3)
NAMES = ("a", "b", "ç")
FEATURES = FeatureSpec((ExtractorSpec("logmel", "audio", 5, 0.025, {"bands": 5}),), hop=0.25)


@pytest.fixture
def model() -> ContinualTransformer:
    torch.manual_seed(0)
    return ContinualTransformer(CONFIG).eval()


@pytest.fixture
def path(model: ContinualTransformer, tmp_path: Path) -> Path:
    save_checkpoint(tmp_path / "model.safetensors", model, NAMES, FEATURES, {"source": "a test"})
    return tmp_path / "model.safetensors"


def rewrite(path: Path, changes: dict[str, str | None]) -> None:
    """Change the metadata of a file and leave its tensors."""
    with safe_open(path, "pt") as file:
        metadata = dict(file.metadata())
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    metadata.update({key: value for key, value in changes.items() if value is not None})
    save_file(tensors, path, {key: value for key, value in metadata.items() if changes.get(key, "") is not None})


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        ModelConfig(5, 8, 2, 12, 1, 4, 3, positional="recycling", encoding="cyclic"),
        ModelConfig(5, 8, 2, 12, 1, 4, 3, norm="pre", positional="static", class_token_block=1),
        ModelConfig(
            5, 8, 2, 12, 2, 4, 3, positional="none", decoder_blocks=1, decoder_queries=2, decoder_heads=2,
            decoder_feed_forward=8,
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_round_trip(config: ModelConfig, dtype: torch.dtype, tmp_path: Path) -> None:
    torch.manual_seed(1)
    model = ContinualTransformer(config).to(dtype).eval()
    save_checkpoint(tmp_path / "m.safetensors", model, NAMES, FEATURES, {"seed": 1})
    before = torch.get_rng_state()
    loaded = load_checkpoint(tmp_path / "m.safetensors")
    assert torch.equal(torch.get_rng_state(), before)
    assert (loaded.config, loaded.class_names, loaded.features) == (config, NAMES, FEATURES)
    assert loaded.provenance == {"seed": 1}
    window = torch.randn(2, 4, 5, dtype=dtype)
    assert torch.equal(loaded.model(window), model(window))
    assert not loaded.model.training
    assert all(parameter.requires_grad for parameter in loaded.model.parameters())
    assert all(tensor.device.type == "cpu" for tensor in (*loaded.model.parameters(), *loaded.model.buffers()))


def test_default_names_and_no_features(model: ContinualTransformer, tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "m.safetensors", model)
    loaded = load_checkpoint(tmp_path / "m.safetensors")
    assert loaded.class_names == ("class 0", "class 1", "class 2")
    assert loaded.features is None and loaded.provenance == {}


def test_same_model_same_bytes(model: ContinualTransformer, path: Path, tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "again.safetensors", model, NAMES, FEATURES, {"source": "a test"})
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("kept", [0, 1, 7, 8, 100, 0.5, 0.999])
def test_truncated(path: Path, kept: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: kept if isinstance(kept, int) else int(len(data) * kept)])
    with pytest.raises(CheckpointError, match="damaged, truncated or not a safetensors file"):
        load_checkpoint(path)


def test_one_flipped_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match="checksum"):
        load_checkpoint(path)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no checkpoint"):
        load_checkpoint(tmp_path / "none.safetensors")
    with pytest.raises(InputError, match="is a folder"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "not a checkpoint of cotrans"),
        ({"format": None}, "not a checkpoint of cotrans"),
        ({"version": "2"}, "written by a newer cotrans"),
        ({"version": "one"}, "its format version is 'one'"),
        ({"features": None}, "does not say its features"),
        ({"config": "{"}, "not JSON"),
        ({"config": json.dumps({**CONFIG.to_dict(), "extra": 1})}, "unknown model configuration key: extra"),
        ({"config": json.dumps({**CONFIG.to_dict(), "blocks": 10**9})}, "too large for the weights"),
        ({"config": json.dumps({**CONFIG.to_dict(), "encoding": "cyclic", "positions": 10**12})}, "too large"),
        ({"config": json.dumps({**CONFIG.to_dict(), "feed_forward": 10**12})}, "instead of"),
        ({"config": json.dumps({**CONFIG.to_dict(), "final_norm": False})}, "final_norm.weight is not part of"),
        ({"config": json.dumps({**CONFIG.to_dict(), "class_token_block": 1})}, "class_token is missing"),
        ({"class_names": '["a", "b"]'}, "2 class names for 3 classes"),
        ({"class_names": '["a", "b", "a"]'}, "'a' names two classes"),
        ({"class_names": "3"}, "not a list of texts"),
        ({"features": '{"hop": 1}'}, "not a feature specification"),
        ({"features": json.dumps({**FEATURES.to_dict(), "hop": 0})}, "hop between feature rows"),
        ({"features": '{"parts": [{"name": "a", "kind": "audio", "width": "5", "window": 0}], "hop": 1}'}, "wrongly"),
        ({"features": "[1]"}, "describes itself wrongly"),
        ({"provenance": "[" * 100_000}, "describes itself wrongly"),
        ({"provenance": "[]"}, "provenance is not a JSON object"),
    ],
)
def test_refused(path: Path, changes: dict[str, str | None], message: str) -> None:
    rewrite(path, changes)
    with pytest.raises(CheckpointError, match=message) as refusal:
        load_checkpoint(path)
    assert "\n" not in str(refusal.value)


def test_not_finite(model: ContinualTransformer, tmp_path: Path) -> None:
    with torch.no_grad():
        model.classifier.bias[1] = float("nan")
    with pytest.raises(CheckpointError, match=r"NaN or infinity in its weights: classifier\.bias"):
        save_checkpoint(tmp_path / "m.safetensors", model, NAMES)
    assert not list(tmp_path.iterdir())


def test_features_of_another_width(model: ContinualTransformer, tmp_path: Path) -> None:
    wide = FeatureSpec((ExtractorSpec("logmel", "audio", 6, 0.025),), hop=0.25)
    with pytest.raises(ConfigurationError, match="have 6 numbers per row, the model takes 5"):
        save_checkpoint(tmp_path / "m.safetensors", model, NAMES, wide)


def test_header_reads_no_weights(path: Path) -> None:
    header = read_header(path)
    assert header.config == CONFIG and header.class_names == NAMES and header.precision == "float32"
    assert header.shapes["classifier.weight"] == (3, 8)


@pytest.mark.parametrize(
    ("provenance", "kind"),
    [
        ({}, "softmax"),
        ({"loss": "binary"}, "sigmoid"),
        (
            {"loss": "cross-entropy", "recipe": {"training": {"loss": "auto"}, "data": {"dataset": "tvseries"}}},
            "softmax",
        ),
        ({"recipe": {"training": {"loss": "binary"}}}, "sigmoid"),
        ({"recipe": {"training": {"loss": "auto"}, "data": {"dataset": "tvseries"}}}, "sigmoid"),
        ({"recipe": {"training": {"loss": "auto"}, "data": {"options": {"multi_label": True}}}}, "sigmoid"),
        ({"recipe": {"training": {"loss": "auto"}, "data": {"dataset": "gtzan"}}}, "softmax"),
        ({"recipe": "of another tool"}, "softmax"),
    ],
)
def test_files_from_before_score_kinds_were_written_have_that_of_their_loss(
    provenance: dict[str, Any], kind: str, path: Path
) -> None:
    rewrite(path, {"score_kind": None, "provenance": json.dumps(provenance)})
    assert load_checkpoint(path).score_kind == kind


def test_the_score_kind_is_written_and_an_unknown_one_refused(model: ContinualTransformer, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    save_checkpoint(path, model, NAMES, provenance={"loss": "binary"}, score_kind="softmax")
    assert load_checkpoint(path).score_kind == "softmax"
    rewrite(path, {"score_kind": "cosine"})
    with pytest.raises(CheckpointError, match="scores of a kind that this cotrans does not know"):
        load_checkpoint(path)
