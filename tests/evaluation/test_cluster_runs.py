"""An evaluation on a Ray cluster of two nodes: the table of one process, whatever happens to a worker."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cotrans_cli.main import run
from pipelines.evaluation.comparison import ComparisonOptions, compare_models
from pipelines.evaluation.data.contenders import find_contenders
from pipelines.evaluation.data.data_request import parse_request
from pipelines.evaluation.sharing.cluster_runs import cluster_runs
from pipelines.ray_cluster import ray_cluster
from tests.evaluation.counted_work import begun, counted
from tests.evaluation.evaluation_problems import write_clips, write_model
from tests.evaluation.test_sharing import without_times
from tests.robustness.ray_kills import two_nodes
from tests.streaming.made_streams import write_model as write_sound_model
from tests.streaming.made_streams import write_sound

Output = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    with two_nodes() as address:
        yield address


def evaluate(*arguments: object) -> int:
    return run(["evaluate", *map(str, arguments)])


def test_the_table_of_one_process(cluster: str, tmp_path: Path, capsys: Output) -> None:
    """In three modes, with a lag, a broken recording, and more recordings than run side by side; then int8 too."""
    write_clips(tmp_path / "clips", train=1, test=22, rows=5)
    model = write_model(tmp_path / "model.safetensors", lag=2)
    np.save(tmp_path / "clips/test/cat/cat0.npy", np.full((4, 5), np.nan, np.float32))
    common = ["--dataset", "folder", "--root", tmp_path / "clips", "--model", model, "--threads", 1, "--json"]
    for more in (["--mode", "all"], ["--precision", "int8"]):
        assert evaluate(*common, *more, "--quiet") == 0
        alone = json.loads(capsys.readouterr().out)
        assert evaluate(*common, *more, "--engine", "ray", "--address", cluster) == 0
        assert without_times(json.loads(capsys.readouterr().out)) == without_times(alone)
        assert alone["damaged"]


def test_media_are_extracted_by_the_cluster(
    cluster: str, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        for label in ("bark", "rain"):
            folder = tmp_path / "sounds" / label
            folder.mkdir(parents=True, exist_ok=True)
            write_sound(folder / f"{number}.wav", 1.0 + number)
    model = write_sound_model(tmp_path / "model.safetensors", "logmel")
    tables = []
    for place, more in (("here", []), ("there", ["--engine", "ray", "--address", cluster])):
        monkeypatch.setenv("COTRANS_CACHE", str(tmp_path / place))
        common = ["--dataset", "folder", "--root", tmp_path / "sounds", "--on", "all", "--model", model, "--threads", 1]
        assert evaluate(*common, "--json", "--quiet", *more) == 0
        tables.append(without_times(json.loads(capsys.readouterr().out)))
    assert tables[0] == tables[1]
    rows = [{path.name: path.read_bytes() for path in (tmp_path / p).rglob("*.npy")} for p in ("here", "there")]
    assert rows[0] == rows[1] and rows[0]


def test_a_killed_worker_repeats_only_its_items(cluster: str, tmp_path: Path) -> None:
    write_clips(tmp_path / "clips", train=1, test=4, rows=5)
    model = write_model(tmp_path / "model.safetensors")
    request = parse_request("folder", tmp_path / "clips", "test", {}, None, [], [], None)
    options = ComparisonOptions(("stream",), baseline="off", device="cpu")
    contenders = find_contenders([str(model)], "folder")
    alone = compare_models(contenders, request, options)
    killed: list[tuple[int, str]] = []

    def kill_one() -> None:
        while not killed:
            time.sleep(0.02)
            if tasks := begun(tmp_path)[2:]:
                os.kill(tasks[-1][0], signal.SIGKILL)
                killed.append(tasks[-1])

    with ray_cluster(cluster) as ray:
        killer = threading.Thread(target=kill_one)
        killer.start()
        together = compare_models(contenders, request, options, run_of=cluster_runs(ray, options, counted))
        killer.join()
    first, second = alone.rows[0].first, together.rows[0].first
    assert (first.predictions.scores == second.predictions.scores).all()
    assert list(first.predictions.videos) == list(second.predictions.videos)
    times = Counter(what for _, what in begun(tmp_path))
    assert len(times) == 12
    assert {what: count for what, count in times.items() if count > 1} == {killed[0][1]: 2}


def test_mistakes_are_one_line(tmp_path: Path, capsys: Output) -> None:
    write_clips(tmp_path / "clips", train=1, test=1, rows=5)
    common = ["--dataset", "folder", "--root", tmp_path / "clips", "--model", write_model(tmp_path / "m.safetensors")]

    def mistake(*arguments: object) -> tuple[int, str]:
        code = evaluate(*common, *arguments)
        (line,) = capsys.readouterr().err.splitlines()
        return code, str(line).removeprefix("cotrans: error: ")

    assert mistake("--engine", "spark") == (2, "unknown engine 'spark': choose from local, ray")
    assert mistake("--address", "auto") == (2, "--address is that of a Ray cluster: add --engine ray")
    code, line = mistake("--engine", "ray", "--shard", "1/2", "--out", tmp_path / "part.json")
    assert code == 2 and "leave --engine out" in line
    code, line = mistake("--engine", "ray", "--workers", "3")
    assert code == 2 and "leave --workers out" in line
    assert mistake("--engine", "ray", "--address", "nowhere")[0] == 2
