"""Worker processes: results, progress, and workers that die."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipelines.features.extraction.worker_pool import FatalWorkerError, WorkerDiedError, WorkerPool
from tests.datasets.dataset_builders import write_sound

ROOT = Path(__file__).parents[2]
WORKER = """
import os, signal, sys, time
from pipelines.features.extraction.worker_pool import serve, worker_channel
tasks, out = worker_channel()
base = next(tasks)
print("noise on standard output")
def work(task, progress):
    if task == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if task == "leave":
        os._exit(7)
    if task == "fatal":
        return "fatal", "nothing works any more"
    if task == "sleep":
        open(base, "w").write(str(os.getpid()))
        time.sleep(600)
    progress(task * 10)
    return "result", base + task
serve(work, tasks, out)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "little_worker.py").write_text(WORKER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "little_worker"


def test_results_and_progress(module: str) -> None:
    said: dict[int, int] = {}
    pool = WorkerPool(module, 100, 2)
    results = dict(pool.map([1, 2, 3, 4, 5], said.__setitem__))
    assert results == {0: 101, 1: 102, 2: 103, 3: 104, 4: 105}
    assert said == {0: 10, 1: 20, 2: 30, 3: 40, 4: 50}


def test_a_worker_that_dies_takes_one_task_with_it(module: str) -> None:
    results = dict(WorkerPool(module, 100, 2).map([1, "die", 2, "leave", 3]))
    assert [results[index] for index in (0, 2, 4)] == [101, 102, 103]
    assert isinstance(results[1], WorkerDiedError)
    assert str(results[1]) == "killed by signal 9"
    assert str(results[3]) == "ended with code 7"


def test_workers_that_cannot_be_started(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(subprocess, "Popen", refuse)
    results = dict(WorkerPool(module, 100, 2).map([1, 2, 3]))
    assert [str(results[index]) for index in range(3)] == [f"it could not be started: {os.strerror(errno.EAGAIN)}"] * 3


def test_a_fatal_answer_ends_the_run(module: str) -> None:
    with pytest.raises(FatalWorkerError, match="nothing works"):
        dict(WorkerPool(module, 100, 1).map([1, "fatal", 2]))


def test_workers_end_with_their_parent(module: str, tmp_path: Path) -> None:
    """Killed with SIGKILL, a parent cannot tell its workers anything; they notice, in the middle of a task."""
    mark = tmp_path / "worker.pid"
    script = f"""
from pipelines.features.extraction.worker_pool import WorkerPool
dict(WorkerPool({module!r}, {str(mark)!r}, 1).map(["sleep"]))
"""
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT)
    deadline = time.monotonic() + 300  # a busy machine may take long to start
    while not (mark.exists() and mark.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    worker = int(mark.read_text())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    while time.monotonic() < deadline and _alive(worker):
        time.sleep(0.05)
    assert not _alive(worker)


def test_workers_run_our_code_whatever_lies_in_the_working_folder(tmp_path: Path) -> None:
    """A user's `weights.py` and `pipelines/`, where `python -m` would find them first."""
    (tmp_path / "weights.py").write_text("raise RuntimeError('not ours')")
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "__init__.py").write_text("raise RuntimeError('not ours')")
    for name in ("one.wav", "two.wav"):
        write_sound(tmp_path / name)
    cotrans = f"import sys; sys.path[0] = {str(ROOT)!r}; from cotrans_cli.main import main; main()"  # as its script
    extract = ["extract", "one.wav", "two.wav", "--features", "logmel", "--workers", "2", "--out", "features"]
    subprocess.run([sys.executable, "-c", cotrans, *extract], cwd=tmp_path, check=True)
    assert {path.name for path in (tmp_path / "features").glob("*.npy")} >= {"one.npy", "two.npy"}
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1"]
    train = ["train", "--dataset", "digits", "--write-recipe", "recipe.toml"]
    subprocess.run([sys.executable, *torchrun, "-m", "cotrans_cli", *train], cwd=tmp_path, check=True)
    assert (tmp_path / "recipe.toml").is_file()


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    # A process that nobody has waited for yet is dead all the same.
    status = Path(f"/proc/{process}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")
