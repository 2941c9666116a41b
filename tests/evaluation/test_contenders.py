"""Which files `--checkpoint` means, and what the rows are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.checkpoints.builtin import builtin_names
from pipelines.errors import CheckpointError, InputError, UsageError
from pipelines.evaluation.data.contenders import BUILT_IN, find_contenders, load_contender, training_record
from tests.evaluation.evaluation_problems import write_model


def names(*texts: object) -> list[str]:
    return [contender.name for contender in find_contenders([str(text) for text in texts], "folder")]


def test_rows_are_named_after_presets_files_and_folders(tmp_path: Path) -> None:
    record = {"model": {"preset": "cotrans-b1"}}
    trained = write_model(tmp_path / "run" / "best.safetensors", record=record)
    again = write_model(tmp_path / "again" / "best.safetensors", record=record)
    plain = write_model(tmp_path / "plain.cotrans.safetensors")
    nameless = write_model(tmp_path / "mine" / "last.safetensors")
    assert names(trained, plain, nameless) == ["cotrans-b1", "plain", "mine"]
    assert names(trained.parent, again.parent) == ["run", "again"]  # the same preset twice: the folders tell
    assert names(f"first={trained}", again) == ["first", "cotrans-b1"]
    assert training_record(trained) == record and training_record(plain) == {}
    other = write_model(tmp_path / "elsewhere" / "run" / "best.safetensors", record=record)
    assert names(trained, other) == [str(trained), str(other)]
    with pytest.raises(UsageError, match="the same model twice"):
        names(trained, trained)


def test_seeds_come_in_order(tmp_path: Path) -> None:
    files = [write_model(tmp_path / f"seed-{seed}" / "best.safetensors", seed=seed) for seed in (2, 10, 1)]
    (tmp_path / "seed-3").mkdir()
    (contender,) = find_contenders([str(tmp_path)], "folder")
    assert contender.files == (files[2], files[0], files[1])
    assert contender.notes == (f"{tmp_path}: seed-1, seed-2, seed-3, seed-10 did not finish training",)


def test_the_built_in_model_is_the_default() -> None:
    for dataset, name in BUILT_IN.items():
        if name in builtin_names():
            (contender,) = find_contenders([], dataset)
            assert contender.name == name and contender.files[0].is_file()
            assert find_contenders([name], "folder") == (contender,)
    with pytest.raises(UsageError, match="which model"):
        find_contenders([], "thumos14")


def test_what_is_no_model(tmp_path: Path, golden_dir: Path) -> None:
    with pytest.raises(InputError, match="there is no model file"):
        find_contenders([str(tmp_path / "no")], "folder")
    (tmp_path / "text.pth").write_text("not a model")
    with pytest.raises(CheckpointError, match="neither a PyTorch nor a safetensors file"):
        find_contenders([str(tmp_path / "text.pth")], "folder")
    with pytest.raises(UsageError, match=r"add --window .* to `cotrans convert .*`, and evaluate what that writes"):
        load_contender(golden_dir / "continual_b1.pth")
