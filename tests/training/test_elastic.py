"""`cotrans train` under `torchrun` on two nodes: a worker that is killed costs time, and no digit."""

from __future__ import annotations

import csv
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from cotrans_cli.main import run
from pipelines.training.fitting.distributed import Processes
from pipelines.training.run_place import goes_on
from pipelines.training.samples.statistics import feature_statistics
from tests.evaluation.evaluation_problems import write_clips
from tests.training.training_problems import clip_data

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
EPOCHS = 40
PATIENCE = 400.0  # seconds: agents wait up to 300 s for each other, on a machine that has much else to do


def arguments(clips: Path, out: Path) -> list[str]:
    # Dropout draws in each process for itself.
    small = ("model.width=8", "model.heads=2", "model.feed_forward=8", "training.rejection=0.0")
    small += ("model.embedding_dropout=0",)
    words = ["train", "--dataset", "folder", "--root", str(clips), "--validate-on", "test", "--out", str(out)]
    words += ["--model", "cotrans-b1", "--window", "6", "--dropout", "0", "--epochs", str(EPOCHS), "--no-baseline"]
    return [*words, *(word for setting in small for word in ("-s", setting)), "--device", "cpu", "--quiet"]


def nodes(count: int, words: list[str]) -> list[subprocess.Popen[str]]:
    """An agent for each node, that meet at one place."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
    torchrun = [sys.executable, "-m", "torch.distributed.run", f"--nnodes={count}", "--nproc-per-node=1"]
    torchrun += ["--rdzv-backend=c10d", f"--rdzv-endpoint={place}", "--rdzv-id=a-test", "--max-restarts=2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return [
        subprocess.Popen(
            [*torchrun, "-m", "cotrans_cli", *words], env=environment, text=True, stderr=subprocess.PIPE, cwd=ROOT
        )
        for _ in range(count)
    ]


def worker_of(agent: subprocess.Popen[str]) -> int:
    """The process that an agent has started."""
    children = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()
    (worker,) = [int(child) for child in children if "cotrans_cli" in Path(f"/proc/{child}/cmdline").read_text()]
    return worker


def metrics(folder: Path) -> list[dict[str, Any]]:
    return list(csv.DictReader((folder / "metrics.csv").open()))


@pytest.mark.skipif(sys.platform != "linux", reason="children of a process are read from /proc")
def test_two_nodes_with_a_killed_worker_equal_one_undisturbed_process(tmp_path: Path) -> None:
    clips = write_clips(tmp_path / "clips")
    assert run(arguments(clips, tmp_path / "one")) == 0
    out = tmp_path / "two"
    agents = nodes(2, arguments(clips, out))
    try:
        limit = time.monotonic() + PATIENCE
        while not (out / "state.pt").is_file():
            assert time.monotonic() < limit and all(agent.poll() is None for agent in agents), _said(agents)
            time.sleep(0.01)
        os.kill(worker_of(agents[1]), signal.SIGKILL)
        killed_after = len(metrics(out))
        codes = [agent.wait(PATIENCE) for agent in agents]
    finally:
        for agent in agents:
            agent.kill()
    assert codes == [0, 0], _said(agents)
    assert killed_after < EPOCHS
    one, two = metrics(tmp_path / "one"), metrics(out)
    assert [row["epoch"] for row in two] == [row["epoch"] for row in one] and len(one) == EPOCHS
    for mine, theirs in zip(one, two, strict=True):
        assert float(mine["train_loss"]) == pytest.approx(float(theirs["train_loss"]), rel=1e-4)
        assert mine["validation_accuracy"] == theirs["validation_accuracy"] and mine["best"] == theirs["best"]
    alone, together = (load_file(folder / "last.safetensors") for folder in (tmp_path / "one", out))
    for name, value in alone.items():
        torch.testing.assert_close(together[name], value, rtol=1e-4, atol=1e-5, msg=name)
    assert float(one[-1]["train_loss"]) < 0.9 * float(one[0]["train_loss"])


def _said(agents: list[subprocess.Popen[str]]) -> str:
    for agent in agents:
        agent.kill()
    return "\n".join(agent.stderr.read()[-3000:] for agent in agents if agent.stderr)


def test_only_the_launch_that_began_a_run_goes_on_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "environment.json").write_text('{"launch": "first"}')
    assert not goes_on(tmp_path)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "second")
    assert not goes_on(tmp_path)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "first")
    assert goes_on(tmp_path)
    for text in ('{"launch": "none"}', "[]", "no JSON", "[" * 100_000):
        (tmp_path / "environment.json").write_text(text)
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
        assert not goes_on(tmp_path)


def test_restarts_that_would_not_find_their_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "2")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    assert run(["train", "--dataset", "folder", "--root", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.endswith("must find their run; give --rdzv-id to torchrun\n")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "a-run")
    assert run(["train", "--dataset", "folder", "--root", str(tmp_path)]) == 2
    assert capsys.readouterr().err.endswith("must find their run; give --out to cotrans train\n")


def test_a_process_reads_only_its_share_for_the_statistics() -> None:
    """Two processes, played one after the other: their sums are those of one, and none reads what is the other's."""
    recordings = clip_data(9).train
    opened: list[list[str]] = []

    class Played(Processes):
        def share(self, count: int) -> list[int]:
            mine = super().share(count)
            opened.append([recordings[index].name for index in mine])
            return mine

        def sum(self, values: torch.Tensor) -> torch.Tensor:
            sums.append(values)
            return values

    sums: list[torch.Tensor] = []
    for rank in (0, 1):
        feature_statistics(recordings, Played(rank, 2))
    whole = feature_statistics(recordings)
    feature_statistics(recordings, Played(0, 1))
    assert not set(opened[0]) & set(opened[1]) and len(opened[0]) + len(opened[1]) == len(recordings)
    torch.testing.assert_close(sums[0] + sums[1], sums[2])
    assert whole.mean.shape == recordings[0].rows[0:1][0].shape
