"""Files that appear whole or not at all, and locks that die with their holder."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pipelines.file_lock as file_lock_module
from pipelines.errors import UsageError
from pipelines.file_lock import LockBusyError, file_lock
from pipelines.files import BLOCK, atomic_write, file_sha256, refuse_overwriting, write_text

HOLDER = """
import sys, time
from pathlib import Path
from pipelines.file_lock import file_lock
with file_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("locked", [False, True])
def test_a_failed_write_leaves_what_was_there(tmp_path: Path, locked: bool) -> None:
    path = tmp_path / "new" / "a.txt"
    write_text(path, "old")
    with pytest.raises(RuntimeError), atomic_write(path, locked=locked) as temporary:
        temporary.write_text("half")
        assert path.read_text() == "old" and temporary.parent == path.parent
        raise RuntimeError
    assert names(path.parent) == ["a.txt"] and path.read_text() == "old"
    with atomic_write(path, locked=locked) as temporary:
        temporary.write_text("new")
    assert names(path.parent) == ["a.txt"] and path.read_text() == "new"


def test_what_a_killed_run_left_is_written_over_by_the_holder_of_the_lock(tmp_path: Path) -> None:
    (tmp_path / ".a.txt.part").write_text("left over")
    with atomic_write(tmp_path / "a.txt", locked=True) as temporary:
        assert temporary.read_bytes() == b""
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX")
def test_the_mode_is_that_of_an_ordinary_file(tmp_path: Path) -> None:
    write_text(tmp_path / "ours", "")
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_checksum_of_more_than_one_block(tmp_path: Path) -> None:
    content = bytes(range(256)) * (BLOCK // 256) + b"end"
    (tmp_path / "a").write_bytes(content)
    assert file_sha256(tmp_path / "a") == hashlib.sha256(content).hexdigest()


def test_a_lock_keeps_others_out_until_its_holder_dies(tmp_path: Path) -> None:
    lock = tmp_path / "folder" / "a.lock"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(lock)], stdout=subprocess.PIPE, env=environment)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with pytest.raises(LockBusyError), file_lock(lock, wait=False):
            pass
    finally:
        holder.kill()
        holder.communicate()
    with file_lock(lock, wait=False):  # the file is still there, the lock is not
        assert lock.exists()
    assert not lock.exists()


def test_a_lock_whose_file_was_removed_meanwhile_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder before removes the file when it is done: who had opened it by then holds what nobody else sees."""
    path, taken, original = tmp_path / "lock", [], file_lock_module._lock

    def late(handle: int, wait: bool) -> None:
        original(handle, wait)
        taken.append(handle)
        if len(taken) == 1:
            path.unlink()

    monkeypatch.setattr(file_lock_module, "_lock", late)
    with file_lock(path):
        assert len(taken) == 2 and path.exists()
        with pytest.raises(LockBusyError), file_lock(path, wait=False):
            pass
    assert not path.exists()


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_text(pipe, "through it")
        assert pipe.is_fifo() and names(tmp_path) == ["pipe"]
        assert os.read(reader, 100) == b"through it"
    finally:
        os.close(reader)
    refuse_overwriting([("--out", pipe), ("--summary", pipe)], [])


def test_an_output_that_is_an_input_is_refused(tmp_path: Path) -> None:
    source, other = tmp_path / "a.wav", tmp_path / "b.wav"
    source.write_bytes(b"sound")
    (tmp_path / "soft").symlink_to("a.wav")
    os.link(source, tmp_path / "hard")
    (tmp_path / "dangling").symlink_to("b.wav")
    spelled = tmp_path / "new" / ".." / "a.wav"  # writing would make the folder `new`, and then find a.wav
    for output in (source, tmp_path / "soft", tmp_path / "hard", spelled):
        with pytest.raises(UsageError, match=r"--out would overwrite .*: that is an input; choose another name"):
            refuse_overwriting([("--out", output)], [other, source])
    with pytest.raises(UsageError, match=r"--out and --summary would both be written to .*b\.wav: choose other names"):
        refuse_overwriting([("--out", tmp_path / "dangling"), ("--summary", other)], [source])
    refuse_overwriting([("--out", other), ("--summary", tmp_path / "c.json")], [source])
