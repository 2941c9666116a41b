"""Conversion as a whole: the report, the proof, what is written and when nothing is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from pipelines.checkpoints import conversion as conversion_module
from pipelines.checkpoints import load_checkpoint, save_checkpoint
from pipelines.checkpoints.conversion import Conversion, ConversionOptions, convert
from pipelines.checkpoints.foreign_files.imported import Hints, Outputs
from pipelines.checkpoints.foreign_files.source_file import SourceFile
from pipelines.checkpoints.output_path import output_path
from pipelines.checkpoints.projects.oadtr import read
from pipelines.checkpoints.projects.own_import import OwnReference, filled_model
from pipelines.checkpoints.proof import Proof, prove, random_stream
from pipelines.costs.model_cost import model_cost
from pipelines.errors import CheckpointError, ConfigurationError, InputError, UsageError
from pipelines.model import ContinualTransformer, ModelConfig
from tests.checkpoints.made_oadtr import oadtr_weights

NO_TOKEN = Hints(class_token=False)


def run(path: Path, **options: object) -> Conversion:
    return convert(path, ConversionOptions(**options))  # type: ignore[arg-type]


@pytest.fixture
def b1(golden_dir: Path, tmp_path: Path) -> Path:
    path = tmp_path / "oadtr_b1.pth"
    path.write_bytes((golden_dir / "oadtr_b1.pth").read_bytes())
    return path


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_report_and_file(b1: Path) -> None:
    report = run(b1, hints=NO_TOKEN)
    assert report.output == b1.with_name("oadtr_b1.cotrans.safetensors")
    assert report.proof.steps == 96 and report.proof.relative < 5e-6
    assert report.beside == ("optimizer", "lr_scheduler", "epoch", "args")
    assert len(report.mapped) + len(report.dropped) == 22
    assert report.mapped["linear_encoding.weight"] == "input_projection.weight"
    assert report.macs_before > 10 * report.macs_after
    assert report.next_command is None
    checkpoint = load_checkpoint(report.output)
    assert checkpoint.config == report.config and checkpoint.class_names == report.class_names
    assert checkpoint.provenance["source"] == "oadtr_b1.pth" and checkpoint.provenance["mode"] == "exact"
    assert files(b1.parent) == ["oadtr_b1.cotrans.safetensors", "oadtr_b1.pth"]


@pytest.mark.parametrize("name", ["oadtr_b1", "oadtr_b1_cls", "oadtr_b2", "oadtr_decoder", "cooadtr_b2"])
def test_second_conversion_is_the_identity(golden_dir: Path, tmp_path: Path, name: str) -> None:
    """Must show 2."""
    token = {"oadtr_b1": False, "oadtr_b1_cls": True, "oadtr_b2": False}.get(name)
    first, second = tmp_path / "first.safetensors", tmp_path / "second.safetensors"
    assert not run(golden_dir / f"{name}.pth", hints=Hints(class_token=token), output=first).already_continual
    again = run(first, output=second)
    assert first.read_bytes() == second.read_bytes()
    assert again.already_continual
    assert f"{first} is a continual model already: there was nothing to convert, {second} is a copy" in again.notes[-1]


def test_own_file_with_new_names_remembers_where_it_came_from(b1: Path, tmp_path: Path) -> None:
    first = run(b1, hints=NO_TOKEN).output
    names = tuple(f"action {index}" for index in range(22))
    again = load_checkpoint(run(first, class_names=names, output=tmp_path / "named.safetensors").output)
    assert again.class_names == names and again.provenance["before"]["source"] == "oadtr_b1.pth"


def test_a_changed_checkpoint_of_ours_is_no_copy(golden_dir: Path, tmp_path: Path) -> None:
    first, out = tmp_path / "first.safetensors", tmp_path / "out.safetensors"
    run(golden_dir / "oadtr_decoder.pth", output=first)
    names = tuple(f"action {index}" for index in range(22))
    for changes in ({"drop_decoder": True}, {"mode": "recycling"}, {"class_names": names}):
        report = run(first, output=out, force=True, **changes)
        assert not report.already_continual and not report.to_dict()["already_continual"], changes
        assert report.own_source and not any("is a copy" in note for note in report.notes)


def test_deep_stack_proves_against_its_banded_pass(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = ModelConfig(5, 8, 2, 12, 3, 4, 3, stacking="deep")
    save_checkpoint(tmp_path / "deep.safetensors", ContinualTransformer(config))
    report = run(tmp_path / "deep.safetensors", output=tmp_path / "again.safetensors")
    assert report.proof.relative < 5e-6
    assert (tmp_path / "deep.safetensors").read_bytes() == (tmp_path / "again.safetensors").read_bytes()


@pytest.mark.parametrize("name", ["oadtr_b1", "oadtr_b1_cls", "oadtr_decoder"])
@pytest.mark.parametrize("entries", ["n", "2n-1"])
@pytest.mark.parametrize("encoding", ["learned", "cyclic"])
def test_recycling(golden_dir: Path, tmp_path: Path, name: str, entries: str, encoding: str) -> None:
    """The proof is against the source with recycled positions; the scores are no longer the source's."""
    token = {"oadtr_b1": False, "oadtr_b1_cls": True}.get(name)
    hints = Hints(class_token=token, positions=entries, encoding=encoding)  # type: ignore[arg-type]
    report = run(golden_dir / f"{name}.pth", mode="recycling", hints=hints, output=tmp_path / "r.safetensors")
    assert report.config.positional == "recycling" and report.config.encoding == encoding
    assert report.config.position_count == {"n": 16, "2n-1": 31}[entries]
    assert report.proof.relative < 5e-6
    assert report.source_difference is not None and report.source_difference.relative > 1e-3
    assert report.next_command == f"cotrans train --init {tmp_path / 'r.safetensors'} --dataset DATASET --root FOLDER"
    assert any("fine-tune" in note for note in report.notes)


def test_learned_recycling_starts_as_the_source(golden_dir: Path, tmp_path: Path) -> None:
    """Through the first window every token has the position that it had."""
    expected = load_file(golden_dir / "oadtr_b1_cls.expected.safetensors")
    report = run(
        golden_dir / "oadtr_b1_cls.pth", mode="recycling", hints=Hints(class_token=True), output=tmp_path / "r.st"
    )
    model = load_checkpoint(report.output).model
    stream = torch.cat([expected["rgb"], expected["flow"]], dim=1)[:16].unsqueeze(0)
    with torch.inference_mode():
        scores, _ = model.steps(stream, model.initial_state(1))
    assert torch.allclose(scores[0, -1], expected["scores"][0], atol=1e-5)


def test_recycling_of_an_own_file(golden_dir: Path, tmp_path: Path) -> None:
    first = run(golden_dir / "oadtr_b1_cls.pth", hints=Hints(class_token=True), output=tmp_path / "s.safetensors")
    again = run(first.output, mode="recycling", hints=Hints(positions="n"), output=tmp_path / "r.safetensors")
    direct = run(
        golden_dir / "oadtr_b1_cls.pth",
        mode="recycling",
        hints=Hints(class_token=True, positions="n"),
        output=tmp_path / "d.safetensors",
    )
    assert again.config == direct.config and again.proof.relative < 5e-6
    one, two = (load_checkpoint(report.output) for report in (again, direct))
    assert all(torch.equal(value, two.model.state_dict()[name]) for name, value in one.model.state_dict().items())
    assert one.provenance["before"]["mode"] == "exact"


def test_recycling_needs_static_positions(golden_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="but this model's are recycling"):
        run(golden_dir / "cooadtr_b1.pth", mode="recycling", output=tmp_path / "r.safetensors")
    assert not files(tmp_path)


@pytest.mark.parametrize("mode", ["exact", "recycling"])
def test_drop_decoder(golden_dir: Path, tmp_path: Path, mode: str) -> None:
    report = run(golden_dir / "oadtr_decoder.pth", drop_decoder=True, mode=mode, output=tmp_path / "d.safetensors")
    assert report.config.decoder_blocks == 0 and report.proof.relative < 5e-6
    assert report.dropped["decoder_cls_token"] == "--drop-decoder"
    assert report.next_command is not None and any("train it again" in note for note in report.notes)
    with pytest.raises(UsageError, match="has no decoder"):
        run(golden_dir / "oadtr_b1.pth", hints=NO_TOKEN, drop_decoder=True, output=tmp_path / "e.safetensors")


def test_never_overwrites(b1: Path) -> None:
    target = b1.with_name("oadtr_b1.cotrans.safetensors")
    target.write_text("precious")
    with pytest.raises(UsageError, match="exists already: add --force"):
        run(b1, hints=NO_TOKEN)
    assert target.read_text() == "precious"
    assert load_checkpoint(run(b1, hints=NO_TOKEN, force=True).output).config.window == 16


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("a.pth", "a.cotrans.safetensors"),
        ("a.b.pt", "a.b.cotrans.safetensors"),
        ("a.pth.tar", "a.cotrans.safetensors"),
        ("a.safetensors", "a.cotrans.safetensors"),
        ("checkpoint", "checkpoint.cotrans.safetensors"),
    ],
)
def test_default_output(tmp_path: Path, name: str, output: str) -> None:
    assert output_path(tmp_path / name) == tmp_path / output


def test_the_input_is_never_the_output(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="choose another name with --out"):
        output_path(tmp_path / "a.cotrans.safetensors", force=True)


def test_output_that_cannot_be_written(b1: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InputError, match=r"is no folder that you may write to\): choose another folder"):
        run(b1, hints=NO_TOKEN, output=tmp_path / "file" / "m.safetensors")
    with pytest.raises(UsageError, match="is a folder: give --out the name of a file"):
        run(b1, hints=NO_TOKEN, output=tmp_path)


def test_failed_proof_writes_nothing(b1: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that the converted model does not equal, in one score of one late step."""
    real = conversion_module.open_source

    def with_a_fault(path: Path, hints: Hints) -> object:
        opened = real(path, hints)
        reference = opened.imported.reference

        def faulty(windows: torch.Tensor, start: int) -> Outputs:
            logits, anticipation = reference(windows, start)
            if start == 64:
                logits[0, 0] += 2e-4 * logits[0].abs().max()
            return Outputs(logits, anticipation)

        object.__setattr__(opened.imported, "reference", faulty)
        return opened

    monkeypatch.setattr(conversion_module, "open_source", with_a_fault)
    with pytest.raises(
        CheckpointError, match=r"at step 80 of random features it differs by 2\.0e-04 relative"
    ) as error:
        run(b1, hints=NO_TOKEN)
    assert error.value.exit_code == 5
    assert files(b1.parent) == ["oadtr_b1.pth"]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_is_no_proof(value: float) -> None:
    torch.manual_seed(0)
    model = ContinualTransformer(ModelConfig(5, 8, 2, 12, 1, 4, 3)).eval()
    right = OwnReference(model)

    class Wrong:
        def __call__(self, windows: torch.Tensor, start: int) -> Outputs:
            logits = right(windows, start).logits
            return Outputs(torch.full_like(logits, value) if start == 0 else logits, None)

    proof = prove(model, Wrong(), random_stream(model.config, torch.float32))  # type: ignore[arg-type]
    assert not proof.holds
    assert Proof(1, 1e-4, 0.0, 1).holds and not Proof(1, 1.1e-4, 0.0, 1).holds


def test_verify_on_own_features(b1: Path, golden_dir: Path, tmp_path: Path) -> None:
    expected = load_file(golden_dir / "oadtr_b1.expected.safetensors")
    np.save(tmp_path / "mine.npy", torch.cat([expected["rgb"], expected["flow"]], dim=1).numpy())
    report = run(b1, hints=NO_TOKEN, verify=tmp_path / "mine.npy")
    assert report.verified is not None and report.verified.steps == 56 and report.verified.relative < 5e-6


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((5, 35)), r"the model takes \(rows, 36\)"),
        (np.zeros(36), r"not rows of features: give \(rows, 36\)"),
        (np.zeros((0, 36)), r"not rows of features: give \(rows, 36\)"),
        (np.full((5, 36), np.nan), "not finite numbers"),
        (np.full((5, 36), "a"), "not finite numbers"),
        (np.array([{}], dtype=object), "not a .npy file of plain numbers"),
        (None, "there is no file"),
    ],
)
def test_verify_refuses(b1: Path, tmp_path: Path, array: np.ndarray | None, message: str) -> None:
    path = tmp_path / "features" / "mine.npy"
    path.parent.mkdir()
    if array is not None:
        np.save(path, array)
    wrong_width = array is not None and array.shape == (5, 35)
    with pytest.raises(ConfigurationError if wrong_width else InputError, match=message):
        run(b1, hints=NO_TOKEN, verify=path)
    assert "oadtr_b1.cotrans.safetensors" not in files(tmp_path)


def test_wrong_number_of_names(b1: Path) -> None:
    with pytest.raises(ConfigurationError, match="2 class names for 22 classes"):
        run(b1, hints=NO_TOKEN, class_names=("a", "b"))
    assert files(b1.parent) == ["oadtr_b1.pth"]


# ---- cost ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("blocks", "token", "regular", "limit"),
    [
        (1, False, 612e6, 10.2e6),
        (1, True, 612e6, 10.2e6),
        (2, False, 1023e6, 360e6),
        (3, True, 1455e6, 790e6),
    ],
)
def test_macs_at_the_papers_sizes(blocks: int, token: bool, regular: float, limit: float) -> None:
    """Must show 3: counted as they run. n = 64, d = 1024, 3072 inputs, random weights."""
    weights = oadtr_weights(blocks, width=1024, inputs=3072, window=64, classes=22)
    source = SourceFile(Path("random"), "torch", weights, {"enc_layers": 64, "num_heads": 8}, ())
    imported = read(source, Hints(class_token=token))
    model = filled_model(imported.config, imported.weights)
    assert conversion_module._regular_macs(imported, model) == pytest.approx(regular, rel=0.015)
    assert conversion_module._step_macs(model) <= limit


@pytest.mark.parametrize("name", ["oadtr_b2", "oadtr_decoder"])
@pytest.mark.parametrize("entries", [None, "2n-1"])
def test_deep(golden_dir: Path, tmp_path: Path, name: str, entries: str | None) -> None:
    """The proof is against blocks that run on windows; the scores are not the source's, and it is said how far."""
    whole = name == "oadtr_b2"
    hints = Hints(class_token=False if whole else None, positions=entries)  # type: ignore[arg-type]
    report = run(
        golden_dir / f"{name}.pth", mode="deep", hints=hints, drop_decoder=not whole, output=tmp_path / "d.safetensors"
    )
    assert report.config.stacking == "deep" and report.config.positional == ("recycling" if entries else "static")
    assert report.config.class_token_block == (None if whole else 3)
    assert report.proof.relative < 5e-6 and report.proof.steps == 96
    difference = report.source_difference
    assert difference is not None and difference.relative > 1e-2 and 0 < difference.mean < difference.relative
    assert difference.features == "random features" and 0 <= difference.same_class <= 1
    assert report.macs_after < 0.1 * report.macs_before
    assert report.next_command == f"cotrans train --init {tmp_path / 'd.safetensors'} --dataset DATASET --root FOLDER"
    assert any("another model" in note for note in report.notes)


def test_deep_is_measured_on_the_users_features(golden_dir: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "own.npy", np.random.default_rng(0).standard_normal((20, 36)).astype(np.float32))
    report = run(
        golden_dir / "oadtr_b2.pth",
        mode="deep",
        hints=NO_TOKEN,
        verify=tmp_path / "own.npy",
        output=tmp_path / "d.safetensors",
    )
    assert report.source_difference is not None
    assert report.source_difference.steps == 20 and report.source_difference.features.endswith("own.npy")


def test_what_cannot_be_deep_is_said(golden_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the decoder reads all of them: add --drop-decoder"):
        run(golden_dir / "oadtr_decoder.pth", mode="deep", output=tmp_path / "d.safetensors")
    with pytest.raises(UsageError, match="has one output already: leave it out"):
        run(golden_dir / "oadtr_b1.pth", mode="deep", hints=NO_TOKEN, output=tmp_path / "d.safetensors")


def test_three_deep_blocks_of_the_papers_size_cost_less_than_25_million() -> None:
    config = ModelConfig(3072, 1024, 8, 1024, 3, 64, 22, norm="pre", positional="static", stacking="deep")
    assert model_cost(config).step.macs <= 25e6
    assert model_cost(replace(config, stacking="exact")).step.macs > 700e6
