"""What a killed run leaves behind: the next run of the same command removes it, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipelines.datasets.mixing import prepared_folder as prepared_folders
from pipelines.datasets.mixing.prepared_folder import GONE, INDEX, UNKNOWN, prepared_folder
from pipelines.files import atomic_write

ROOT = Path(__file__).parents[2]


def killed_while_writing(path: Path) -> None:
    """A process that dies in the middle of an atomic write."""
    code = (
        "import os, signal, sys; from pathlib import Path; from pipelines.files import atomic_write\n"
        "with atomic_write(Path(sys.argv[1])) as temporary:\n"
        "    temporary.write_bytes(b'half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL


def made_older(path: Path) -> None:
    earlier = time.time() - 60
    os.utime(path, (earlier, earlier))


def test_half_files_of_killed_runs_are_removed(tmp_path: Path) -> None:
    target = tmp_path / "model.safetensors"
    killed_while_writing(target)
    (left,) = tmp_path.glob(".model.safetensors.*.part")
    made_older(left)
    others = [
        tmp_path / name for name in (".other.safetensors.abcdefgh.part", ".model.safetensors.mine.part", ".model")
    ]
    for other in others:
        other.write_text("somebody else's")
        made_older(other)
    with atomic_write(target) as temporary:
        temporary.write_text("whole")
    assert target.read_text() == "whole"
    assert not left.exists() and all(other.exists() for other in others)


def test_half_files_of_running_runs_stay(tmp_path: Path) -> None:
    target = tmp_path / "model.safetensors"
    with atomic_write(target) as first:
        first.write_text("first")
        made_older(first)
        with atomic_write(target) as second:
            second.write_text("second")
        assert first.exists()
    assert target.read_text() == "first"


def test_prepared_folders_of_killed_runs_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTRANS_CACHE", str(tmp_path))

    def prepare(folder: Path) -> None:
        (folder / INDEX).write_text("{}")

    folder = prepared_folder("anno", "identity", prepare)
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    here, gone = prepared_folders._machine(), int(dead.stdout)
    left = folder.with_name(f".{folder.name}.{here}.{gone}.abcdefgh.part")
    ancient = folder.with_name(f".{folder.name}.12345678.{gone}.abcdefgh.part")
    others = [
        folder.with_name(f".{folder.name}.{name}.part")
        for name in (f"{here}.{os.getppid()}.abcdefgh", f"12345678.{gone}.ijklmnop", f"{here}.{gone}.busy", str(gone))
    ]
    for other, age in [(left, GONE), (ancient, UNKNOWN), *zip(others, (GONE, GONE, 0.0, 0.0), strict=True)]:
        other.mkdir()
        then = time.time() - age - 60
        os.utime(other, (then, then))
    (folder / INDEX).unlink()
    folder.rmdir()
    assert prepared_folder("anno", "identity", prepare) == folder
    assert not left.exists() and not ancient.exists() and all(other.exists() for other in others)


def test_the_same_folder_prepared_twice_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by another machine of a shared cache, or in another container, whose process has the same number."""
    monkeypatch.setenv("COTRANS_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "getpid", lambda: 4711)
    places = []

    def prepare_slowly(folder: Path) -> None:
        places.append(folder)
        (folder / "first").write_text("half")
        other = prepared_folder("anno", "identity", prepare)  # begins later and is done earlier
        assert (other / "whole").is_file()
        assert (folder / "first").read_text() == "half"
        (folder / INDEX).write_text("{}")

    def prepare(folder: Path) -> None:
        places.append(folder)
        (folder / "whole").write_text("whole")
        (folder / INDEX).write_text("{}")

    folder = prepared_folder("anno", "identity", prepare_slowly)
    assert len(set(places)) == 2
    assert {path.name for path in folder.iterdir()} == {"whole", INDEX}
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
