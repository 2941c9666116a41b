"""MiniROAD: the official numbers at every frame, and what is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from pipelines.checkpoints import load_checkpoint
from pipelines.checkpoints.conversion import ConversionOptions, convert
from pipelines.checkpoints.foreign_files.imported import Hints
from pipelines.checkpoints.opening import open_source
from pipelines.errors import CheckpointError, UsageError


def test_official_numbers_at_every_frame(golden_dir: Path, tmp_path: Path) -> None:
    report = convert(golden_dir / "miniroad.pth", ConversionOptions(output=tmp_path / "m.safetensors"))
    assert report.proof.relative < 2e-5 and report.macs_before == report.macs_after
    expected = load_file(golden_dir / "miniroad.expected.safetensors")
    stream = torch.cat([expected["rgb"], expected["flow"]], dim=1)
    model = load_checkpoint(report.output).model
    with torch.inference_mode():
        scores, _ = model.steps(stream.unsqueeze(0), model.initial_state(1))
    assert (scores[0].softmax(-1) - expected["probabilities"]).abs().max() < 2e-6


def made(layers: int, **changes: torch.Tensor | None) -> dict[str, torch.Tensor]:
    """A state dict of MiniROAD: 6 inputs, embedding 5, width 4, 3 classes."""
    torch.manual_seed(0)
    gru = torch.nn.GRU(5, 4, layers)
    weights = {f"gru.{key}": value.detach() for key, value in gru.named_parameters()}
    for name, shape in (("layer1.0", (5, 6)), ("layer1.1", (5,)), ("f_classification.0", (3, 4))):
        weights |= {f"{name}.weight": torch.randn(shape), f"{name}.bias": torch.randn(shape[0])}
    for key, value in changes.items():
        weights.pop(key.replace("__", "."), None)
        if value is not None:
            weights[key.replace("__", ".")] = value
    return weights


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_several_layers(tmp_path: Path, layers: int) -> None:
    torch.save(made(layers), tmp_path / "m.pth")
    report = convert(tmp_path / "m.pth", ConversionOptions(output=tmp_path / "m.safetensors"))
    assert report.proof.relative < 5e-6 and f"GRU of {layers} layer" in report.kind


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"anticipation_layer__0__weight": torch.zeros(8, 4)}, "an anticipation model, .* not supported yet"),
        ({"f_classification__0__weight": None}, "lacks f_classification.0.weight"),
        ({"gru__bias_hh_l0": None}, "gru.bias_hh_l0 is missing"),
        ({"f_actionness__0__weight": torch.zeros(1, 4)}, "f_actionness.0.weight is not known"),
        ({"layer1__0__weight": torch.zeros(5)}, "layer1.0.weight is no matrix"),
    ],
)
def test_weights_that_do_not_fit_are_one_line(
    tmp_path: Path, changes: dict[str, torch.Tensor | None], message: str
) -> None:
    torch.save(made(1, **changes), tmp_path / "m.pth")
    with pytest.raises(CheckpointError, match=message) as refused:
        open_source(tmp_path / "m.pth")
    assert "\n" not in str(refused.value)


def test_nothing_has_to_be_said(golden_dir: Path) -> None:
    with pytest.raises(UsageError, match="--heads: a MiniROAD, which says everything itself, has no use for this"):
        open_source(golden_dir / "miniroad.pth", Hints(heads=8))
