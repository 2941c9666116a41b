"""OadTR: the official files convert, step by step, to the official scores."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from pipelines.checkpoints.foreign_files.imported import Hints
from pipelines.checkpoints.opening import OpenedSource, open_checkpoint, open_source
from pipelines.checkpoints.projects.own_import import filled_model
from pipelines.checkpoints.proof import prove, random_stream
from pipelines.errors import CheckpointError, UsageError
from tests.checkpoints.made_oadtr import oadtr_weights

GOLDEN = {
    "oadtr_b1": Hints(class_token=False),
    "oadtr_b1_cls": Hints(class_token=True),
    "oadtr_b2": Hints(class_token=False),
    "oadtr_decoder": Hints(),
}
ARGUMENTS = {"enc_layers": 8, "num_heads": 4, "decoder_num_heads": 2}


def relative(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max() / theirs.abs().max())


def saved(path: Path, weights: dict[str, Tensor], **arguments: Any) -> Path:
    torch.save({"model": weights, "epoch": 1, "args": argparse.Namespace(**arguments)}, path)
    return path


def proves(opened: OpenedSource) -> None:
    imported = opened.imported
    model = filled_model(imported.config, imported.weights)
    proof = prove(model, imported.reference, random_stream(imported.config, torch.float32))
    assert proof.steps == 6 * imported.config.window and proof.relative < 5e-6


@pytest.mark.parametrize("name", GOLDEN)
@torch.inference_mode()
def test_golden(name: str, golden_dir: Path) -> None:
    """Must show 1 and 2: steps and windows give the official scores, and so does our forward pass of the source."""
    path = golden_dir / f"{name}.pth"
    expected = load_file(golden_dir / f"{name}.expected.safetensors")
    checkpoint = open_checkpoint(path, GOLDEN[name])
    model, n = checkpoint.model, checkpoint.config.window
    stream = torch.cat([expected["rgb"], expected["flow"]], dim=1)
    state = model.initial_state(1)
    scores, anticipation = [], []
    for token in stream.unsqueeze(1):
        if model.decoder is None:
            logits, state = model.step(token, state)
        else:
            (logits, coming), state = model.step_predict_(token, state)
            anticipation.append(coming)
        scores.append(logits)
    assert len(expected["scores"]) == len(stream) - n + 1
    assert relative(torch.cat(scores[n - 1 :]), expected["scores"]) < 2e-6
    windows = stream.unfold(0, n, 1).transpose(1, 2)
    assert relative(model(windows), expected["scores"]) < 2e-6
    reference = open_source(path, GOLDEN[name]).imported.reference(windows, 0)
    assert relative(reference.logits, expected["scores"]) < 2e-6
    if "anticipation" in expected:
        assert relative(torch.cat(anticipation[n - 1 :]), expected["anticipation"]) < 2e-6
        assert relative(model.predict(windows).anticipation, expected["anticipation"]) < 2e-6
        assert reference.anticipation is not None
        assert relative(reference.anticipation, expected["anticipation"]) < 2e-6


def test_copies_are_the_shared_files(golden_dir: Path, shared_dir: Path) -> None:
    for name in GOLDEN:
        for file in (f"{name}.pth", f"{name}.expected.safetensors"):
            assert (golden_dir / file).read_bytes() == (shared_dir / "golden" / file).read_bytes()


@pytest.mark.parametrize("blocks", [1, 2, 3])
@pytest.mark.parametrize("token", [True, False])
@pytest.mark.parametrize("decoder", [0, 2])
def test_variants_prove(tmp_path: Path, blocks: int, token: bool, decoder: int) -> None:
    path = saved(tmp_path / "m.pth", oadtr_weights(blocks, decoder_blocks=decoder), **ARGUMENTS)
    opened = open_source(path, Hints(class_token=token))
    assert opened.imported.config.decoder_blocks == decoder
    proves(opened)


@pytest.mark.parametrize("layer", [0, 2, 4])
def test_class_token_at_any_block(tmp_path: Path, layer: int) -> None:
    """CoOadTR's repository keeps the class token in the encoder and gives it no position."""
    weights = oadtr_weights(3, positions=8)
    weights["encoder.cls_token"] = weights.pop("cls_token")
    opened = open_source(saved(tmp_path / "m.pth", weights, **ARGUMENTS, cls_token_layer_idx=layer))
    assert opened.imported.config.class_token_block == layer // 2 + 1
    proves(opened)
    proves(open_source(saved(tmp_path / "m.pth", weights, **ARGUMENTS), Hints(class_token_block=layer // 2 + 1)))
    with pytest.raises(CheckpointError, match="before a feed-forward part"):
        open_source(saved(tmp_path / "m.pth", weights, **ARGUMENTS, cls_token_layer_idx=layer + 1))


def test_unused_decoder_and_no_class_position(tmp_path: Path) -> None:
    """Early CoOadTR models carry a decoder and a class token that their forward pass leaves out."""
    weights = oadtr_weights(2, decoder_blocks=1, positions=8)
    weights["mlp_head.weight"] = weights["mlp_head.weight"][:, :16].clone()
    opened = open_source(saved(tmp_path / "m.pth", weights, **ARGUMENTS))
    assert opened.imported.config.decoder_blocks == 0 and opened.imported.config.class_token_block is None
    assert opened.imported.dropped["decoder.norm.weight"].startswith("belongs to a decoder")
    proves(opened)


def test_safetensors_of_the_same(tmp_path: Path) -> None:
    weights = {key: value.contiguous() for key, value in oadtr_weights(2).items()}
    save_file(weights, tmp_path / "m.safetensors")
    proves(open_source(tmp_path / "m.safetensors", Hints(window=8, heads=4, class_token=True)))


def test_what_the_file_does_not_say_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "m.pth"
    torch.save(oadtr_weights(1, decoder_blocks=1), path)
    for hints, wanted in [
        (Hints(), "its window, number of heads and number of decoder heads: add --window (its table has 9 positions"),
        (Hints(window=8, decoder_heads=2), "does not say its number of heads: add --heads"),
        (Hints(window=8, heads=4), "does not say its number of decoder heads: add --decoder-heads"),
        (Hints(window=5, heads=4, decoder_heads=2), "a window of 5 does not fit"),
    ]:
        with pytest.raises(UsageError) as error:
            open_source(path, hints)
        assert wanted in str(error.value)
    proves(open_source(path, Hints(window=8, heads=4, decoder_heads=2)))


@pytest.mark.parametrize(
    ("hints", "message"),
    [
        (Hints(), "cannot tell whether this OadTR runs with its class token"),
        (Hints(class_token=True, heads=2), "the file says that its number of heads is 4"),
        (Hints(class_token=True, window=9), "the file says that its window is 8"),
        (Hints(class_token=True, norm="pre"), "--norm: an OadTR without decoder has no use for this"),
        (Hints(class_token=True, decoder_heads=2), "--decoder-heads"),
        (Hints(class_token=True, encoding="cyclic"), "--encoding"),
        (Hints(class_token_block=2), "the class token enters at block 1"),
    ],
)
def test_hints_that_do_not_fit(tmp_path: Path, hints: Hints, message: str) -> None:
    path = saved(tmp_path / "m.pth", oadtr_weights(1), **ARGUMENTS)
    with pytest.raises(UsageError, match=message):
        open_source(path, hints)


def test_class_names_of_the_training_script(tmp_path: Path) -> None:
    names = ["Background", "A", "B", "C", "Ambiguous"]
    path = saved(tmp_path / "m.pth", oadtr_weights(1), **ARGUMENTS, class_index=names)
    assert open_checkpoint(path, Hints(class_token=True)).class_names == tuple(names)
    saved(path, oadtr_weights(1), **ARGUMENTS, class_index=[["Background"], ["A"], ["A"], [], 1])  # names nothing
    assert open_checkpoint(path, Hints(class_token=True)).class_names[0] == "class 0"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encoder.net.1.fn.norm.bias": None}, "encoder.net.1.fn.norm.bias is missing"),
        ({"pre_head_ln.weight": None}, "lacks pre_head_ln.weight"),
        ({"extra.weight": torch.zeros(3)}, "extra.weight is not known"),
        ({"encoder.net.0.fn.fn.proj.weight": torch.zeros(16, 15)}, "proj.weight is 16×15 instead of 16×16"),
        ({"mlp_head.bias": torch.full((5,), torch.nan)}, "NaN or infinity in its weights: mlp_head.bias"),
        ({"cls_token": torch.full((1, 1, 16), torch.inf)}, "NaN or infinity in its weights: cls_token"),
        ({"position_encoding.pe": torch.zeros(5000, 1, 16)}, "'fixed' positions"),
        ({"mlp_head.weight": torch.zeros(5, 32)}, "reads a decoder"),
        ({"linear_encoding.weight": torch.zeros(16)}, "linear_encoding.weight is 16"),
        ({"decoder_cls_token": torch.tensor(1.0)}, "decoder_cls_token is a single number"),
    ],
)
def test_damaged_weights(tmp_path: Path, change: dict[str, Tensor | None], message: str) -> None:
    """Must show 6: one missing, extra, mis-shaped or NaN tensor is named."""
    weights = {**oadtr_weights(1), **change}
    path = saved(tmp_path / "m.pth", {key: value for key, value in weights.items() if value is not None}, **ARGUMENTS)
    with pytest.raises(CheckpointError) as error:
        open_source(path, Hints(class_token=True))
    assert message in str(error.value) and "\n" not in str(error.value)
