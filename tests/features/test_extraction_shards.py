"""Shares of an extraction: whatever order they run in, together they leave the bytes of one run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cotrans_cli.main import run
from pipelines.features.extraction.run import Summary, extract
from pipelines.shard import Shard
from tests.features.extraction_problems import options, statuses, tree, write_folder
from tests.features.made_recordings import write_sound


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = write_folder(tmp_path)
    for number in range(3):
        write_sound(folder / f"more/{number}.wav", 1.0, seed=10 + number)
    return folder


@pytest.mark.parametrize("layout", ["npy", "oadtr"])
def test_shares_side_by_side_leave_what_one_run_leaves(folder: Path, tmp_path: Path, layout: str) -> None:
    """Also the file that all recordings share: the last to finish puts everything into it."""
    whole = extract([str(folder)], tmp_path / "whole", options(layout=layout))

    def share(number: int) -> Summary:
        return extract([str(folder)], tmp_path / "shares", options(layout=layout, shard=Shard(number, 4)))

    with ThreadPoolExecutor(4) as pool:
        summaries = list(pool.map(share, range(1, 5)))
    assert tree(tmp_path / "shares") == tree(tmp_path / "whole")
    assert [len(summary.outcomes) for summary in summaries] == [2, 2, 1, 1]
    together = {name: status for summary in summaries for name, status in statuses(summary).items()}
    assert together == statuses(whole) and set(together.values()) == {"done"}


def test_a_share_of_nothing_is_done_at_once(folder: Path, tmp_path: Path) -> None:
    summary = extract([str(folder)], tmp_path / "out", options(shard=Shard(7, 7)))
    assert summary.ok and summary.outcomes == () and not (tmp_path / "out").exists()


def test_the_share_of_a_command_line(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["extract", str(folder), "--out", str(tmp_path / "out"), "--features", "logmel", "--shard"]
    assert run([*common, "2/3"]) == 0
    assert capsys.readouterr().out.startswith("2 done: ")
    assert sorted(path.name for path in (tmp_path / "out").rglob("*.npy") if "times" not in path.name) == [
        "1.npy",
        "b.npy",
    ]
    assert run([*common, "4/3"]) == 2
    assert capsys.readouterr().err == "cotrans: error: --shard 4/3: there is no such share; give 1/3 to 3/3\n"
