"""The folder of a training run: a killed run can always go on, and two runs never share one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from cotrans_cli.main import run
from pipelines.file_lock import file_lock
from pipelines.training.artifacts import RunFolder
from pipelines.training.run_place import LOCK, occupied
from tests.robustness.small_run import train_arguments, write_clips

Output = pytest.CaptureFixture[str]


class KilledError(BaseException):
    """Stands for SIGKILL: nothing in the program catches it."""


pytestmark = pytest.mark.usefixtures("no_settings")


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    return train_arguments(write_clips(tmp_path / "clips"))


def killed_before_the_state(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Train until best.safetensors of the first epoch is there and state.pt is not."""

    def die(folder: RunFolder, state: Any) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "write_state", die)
        with pytest.raises(KilledError):
            run(arguments)


def weights_of(folder: Path) -> bytes:
    """The tensors of the last checkpoint, without the times and places that its header holds."""
    data = (folder / "last.safetensors").read_bytes()
    return data[8 + int.from_bytes(data[:8], "little") :]


def test_a_run_killed_before_its_first_state_goes_on(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    out, whole = tmp_path / "run", tmp_path / "whole"
    killed_before_the_state([*arguments, "--out", str(out)], monkeypatch)
    assert (out / "best.safetensors").is_file() and not (out / "state.pt").exists()
    assert run([*arguments, "--out", str(out)]) == 2
    assert f"--resume {out}" in capsys.readouterr().err
    assert run(["train", "--resume", str(out), "--quiet"]) == 0, "what the message says must work"
    assert run([*arguments, "--out", str(whole)]) == 0
    assert weights_of(out) == weights_of(whole)
    assert not (out / LOCK).exists()


def test_seeds_killed_before_their_first_state_go_on(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "seeds"
    killed_before_the_state([*arguments, "--seeds", "2", "--out", str(out)], monkeypatch)
    assert run(["train", "--resume", str(out), "--quiet"]) == 0
    assert len(json.loads((out / "summary.json").read_text())["runs"]) == 2


def test_a_finished_run_without_its_state_is_not_written_over(
    arguments: list[str], tmp_path: Path, capsys: Output
) -> None:
    out = tmp_path / "run"
    assert run([*arguments, "--out", str(out)]) == 0
    (out / "state.pt").unlink()
    before = (out / "best.safetensors").read_bytes()
    assert run(["train", "--resume", str(out), "--quiet"]) == 3
    assert "there is no state.pt" in capsys.readouterr().err
    assert (out / "best.safetensors").read_bytes() == before


def test_edited_runs_are_refused(arguments: list[str], tmp_path: Path, capsys: Output) -> None:
    out = tmp_path / "run"
    assert run([*arguments, "--no-baseline", "--out", str(out)]) == 0
    state = torch.load(out / "state.pt", weights_only=True)
    for change in ({"epoch": -1}, {"history": []}, {"history": {}}, {"step": "x"}):
        torch.save({**state, **change}, out / "state.pt")
        capsys.readouterr()
        assert run(["train", "--resume", str(out), "--quiet"]) == 5
        assert "does not fit this run" in capsys.readouterr().err
    (out / "config.toml").write_bytes(b"\xff\xfe")
    assert run(["train", "--resume", str(out), "--quiet"]) == 3


@pytest.mark.parametrize("more", [(), ("--seeds", "2")])
def test_a_folder_that_another_run_writes_to_is_refused(
    arguments: list[str], tmp_path: Path, capsys: Output, more: tuple[str, ...]
) -> None:
    out = tmp_path / "run"
    with file_lock(out / LOCK):
        assert run([*arguments, *more, "--out", str(out)]) == 3
    printed = capsys.readouterr().err
    assert "in use" in printed and len(printed.splitlines()) == 1
    assert list(out.iterdir()) == []
    assert run([*arguments, *more, "--out", str(out)]) == 0


def test_a_lock_that_fails_leaves_no_folder(tmp_path: Path) -> None:
    out = tmp_path / "runs" / "new"
    with pytest.raises(KilledError), occupied(out):
        assert out.is_dir()
        raise KilledError
    assert not out.parent.exists()
