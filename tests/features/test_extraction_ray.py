"""Extraction on a Ray cluster of two nodes: the bytes of one machine, whatever happens to a worker."""

from __future__ import annotations

import random
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cotrans_cli.main import run
from pipelines.features.extraction.run import Progress, extract
from tests.features.extraction_problems import options, statuses, tree
from tests.features.made_recordings import write_sound, write_video
from tests.robustness.ray_kills import OPTIONS, extract_with_kills, two_nodes

pytestmark = pytest.mark.slow

Output = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    with two_nodes() as address:
        yield address


def test_a_cluster_leaves_what_one_machine_leaves(cluster: str, tmp_path: Path) -> None:
    """Short recordings, long ones in pieces, and a broken one; then once more."""
    folder, seen = tmp_path / "in", list[Progress]()
    for number in range(2):
        write_sound(folder / f"{number}.wav", 1.5, seed=number)
    write_video(folder / "film.mp4", 12.0)
    (folder / "bad.mp4").write_bytes(b"not a video")
    write_sound(folder / "song.mp3", 13.0, rate=44100)
    alone = extract([str(folder)], tmp_path / "one", options())
    ray = options(engine="ray", address=cluster, piece_seconds=4.0)
    summary = extract([str(folder)], tmp_path / "two", ray, seen.append)
    assert statuses(summary) == statuses(alone) and summary.problems == alone.problems
    assert tree(tmp_path / "two") == tree(tmp_path / "one")
    assert seen[-1].recordings_done == seen[-1].recordings == 5
    assert seen[-1].bytes_done == pytest.approx(seen[-1].bytes_total)
    assert any(0 < progress.media_seconds < 20 for progress in seen)  # pieces report by themselves
    again = extract([str(folder)], tmp_path / "two", ray)
    assert set(statuses(again).values()) == {"skipped", "failed"}


@pytest.mark.skipif(sys.platform != "linux", reason="who holds a lock is read from /proc/locks")
def test_a_killed_worker_loses_nothing_and_repeats_only_its_own(cluster: str, tmp_path: Path) -> None:
    for number in range(4):
        write_sound(tmp_path / "in" / f"{number}.wav", 90.0, seed=number)
    extract([str(tmp_path / "in")], tmp_path / "one", OPTIONS)
    whole = tree(tmp_path / "one")
    # In one piece each, so that a worker is at work on a recording for long enough to be met.
    options = replace(OPTIONS, piece_seconds=600.0)
    killed = extract_with_kills(tmp_path / "in", tmp_path / "two", whole, cluster, 1, random.Random(0), options)
    assert len(killed) == 1


def test_mistakes_are_one_line(tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sound(tmp_path / "a.wav", 1.0)
    common = ["extract", str(tmp_path / "a.wav"), "--out", str(tmp_path / "out"), "--features", "logmel"]

    def mistake(*arguments: str) -> tuple[int, str]:
        code = run([*common, *arguments])
        (line,) = capsys.readouterr().err.splitlines()
        return code, line.removeprefix("cotrans: error: ")

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code, line = mistake("--engine", "ray", "--address", f"127.0.0.1:{port}")
    assert code == 3 and line.startswith(f"nothing answers at --address 127.0.0.1:{port} (")
    assert mistake("--engine", "ray", "--address", "nowhere") == (
        2,
        "--address nowhere: give HOST:PORT of the cluster's head, such as 10.0.0.1:6379, or auto",
    )
    assert mistake("--address", "auto") == (2, "--address is that of a Ray cluster: add --engine ray")
    assert mistake("--engine", "spark") == (2, "unknown engine 'spark': choose from local, ray")
    code, line = mistake("--engine", "ray", "--workers", "2")
    assert code == 2 and line.endswith("leave it out")
    assert mistake("--pieces", "60")[1].endswith("add --workers N or --engine ray")
    assert mistake("--workers", "2", "--pieces", "0")[1] == "--pieces must be at least 1 seconds, not 0"
    monkeypatch.setitem(sys.modules, "ray", None)
    assert mistake("--engine", "ray") == (6, "--engine ray: ray is not installed: pip install 'cotrans[ray]'")
    assert not (tmp_path / "out" / "a.npy").exists()
