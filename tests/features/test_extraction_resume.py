"""Extraction that goes on: skipped, changed and broken outputs, runs that were killed or share the work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.errors import UsageError
from pipelines.features.extraction.run import Progress, extract
from tests.features.extraction_problems import LOGMEL, ROOT, options, statuses, tree, write_folder
from tests.features.made_recordings import write_sound


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path)


def test_a_second_run_skips_and_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    extract([str(folder)], out, LOGMEL)
    first = tree(out)
    modified = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    again = extract([str(folder)], out, LOGMEL)
    assert set(statuses(again).values()) == {"skipped"}
    assert again.ok and again.rows == 24 and again.media_seconds == 0
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == modified
    forced = extract([str(folder)], out, options(force=True))
    assert set(statuses(forced).values()) == {"done"}
    assert tree(out) == first


def test_several_processes_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    seen: list[Progress] = []
    extract([str(folder)], tmp_path / "one", options("musicnn"))
    summary = extract([str(folder)], tmp_path / "two", options("musicnn", workers=2), seen.append)
    assert set(statuses(summary).values()) == {"done"}
    assert tree(tmp_path / "one") == tree(tmp_path / "two")
    assert seen[-1].recordings_done == seen[-1].recordings == 3
    assert seen[-1].bytes_done == pytest.approx(seen[-1].bytes_total)
    assert seen[-1].media_seconds == pytest.approx(6.0)


def test_other_settings_are_refused_and_force_replaces(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    extract([str(folder)], out, LOGMEL)
    before = tree(out)
    for changed, said in (
        (options(hop=0.2), "have a hop of 0.25, not 0.2"),
        (options(align="centre"), "have alignment causal, not centre"),
        (options("musicnn"), "have features logmel, not musicnn"),
        (options(dtype="float16"), "are float32, not float16"),
        (options(options={"n_mels": "32"}), "come from other options of logmel"),
    ):
        with pytest.raises(UsageError, match=rf"{said}.*--force.*and 2 more"):
            extract([str(folder)], out, changed)
    assert tree(out) == before
    summary = extract([str(folder)], out, options(hop=0.5, force=True))
    assert [outcome.rows for outcome in summary.outcomes] == [3, 4, 5]


def test_a_changed_source_is_extracted_again(folder: Path, tmp_path: Path) -> None:
    extract([str(folder)], tmp_path / "out", LOGMEL)
    write_sound(folder / "a.wav", 1.5, seed=9)
    assert statuses(extract([str(folder)], tmp_path / "out", LOGMEL)) == {
        "a": "done",
        "b": "skipped",
        "deep/a": "skipped",
    }


def test_another_file_of_the_same_name_does_not_replace_the_first(folder: Path, tmp_path: Path) -> None:
    extract([str(folder / "a.wav")], tmp_path / "out", LOGMEL)
    before = tree(tmp_path / "out")
    with pytest.raises(UsageError, match=r"were made from .*in/a\.wav"):
        extract([str(folder / "deep/a.wav")], tmp_path / "out", LOGMEL)
    assert tree(tmp_path / "out") == before
    summary = extract([str(folder / "a.wav"), str(folder / "deep/a.wav")], tmp_path / "both", LOGMEL)
    assert set(statuses(summary)) == {"a", "deep/a"}


def test_a_moved_source_is_not_extracted_again(folder: Path, tmp_path: Path) -> None:
    extract([str(folder)], tmp_path / "out", LOGMEL)
    moved = folder.rename(tmp_path / "elsewhere")
    assert set(statuses(extract([str(moved)], tmp_path / "out", LOGMEL)).values()) == {"skipped"}


def test_broken_outputs_are_written_again(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    extract([str(folder)], out, LOGMEL)
    whole = tree(out)
    (out / "a.npy").write_bytes(whole["a.npy"][:-4])
    (out / "b.json").write_text("{")
    (out / "deep/a.times.npy").unlink()
    assert set(statuses(extract([str(folder)], out, LOGMEL)).values()) == {"done"}
    assert tree(out) == whole


KILLED = """
import os, signal, sys
from pathlib import Path
from pipelines.features.extraction.run import extract, ExtractionOptions
from pipelines.features.spec import FeatureSpec
from pipelines.features.request import FeatureRequest
def die(progress):
    if progress.recordings_done >= 2 and progress.media_seconds > 7:  # in the middle of a recording
        os.kill(os.getpid(), signal.SIGKILL)
options = ExtractionOptions(FeatureRequest("logmel"), workers=int(sys.argv[3]))
extract([sys.argv[1]], Path(sys.argv[2]), options, die)
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_kill_9_and_go_on(tmp_path: Path, workers: int) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    for index in range(5):
        write_sound(source / f"{index}.wav", 3 if index < 2 else 60, seed=index)
    command = [sys.executable, "-c", KILLED, str(source), str(out), str(workers)]
    killed = subprocess.run(command, check=False, cwd=ROOT)
    assert killed.returncode == -9
    left = tree(out)
    assert sum(name.endswith(".json") for name in left) in (2, 3)
    assert any(name.endswith(".part") for name in left) or workers > 1
    # Whatever has its final name is whole, and belongs to its manifest.
    undisturbed = extract([str(source)], tmp_path / "undisturbed", LOGMEL)
    expected = tree(tmp_path / "undisturbed")
    assert all(content == expected[name] for name, content in left.items() if not name.startswith("."))
    summary = extract([str(source)], out, options(workers=workers))
    assert summary.ok and summary.rows == undisturbed.rows
    assert sum(outcome.status == "skipped" for outcome in summary.outcomes) >= 2
    assert tree(out) == expected


def test_two_runs_at_once_share_the_work(tmp_path: Path) -> None:
    source = tmp_path / "in"
    for index in range(6):
        write_sound(source / f"{index}.wav", 20, seed=index)
    script = KILLED.replace("os.kill(os.getpid(), signal.SIGKILL)", "pass")
    command = [sys.executable, "-c", script, str(source), str(tmp_path / "out"), "1"]
    runs = [subprocess.Popen(command, cwd=ROOT) for _ in range(2)]
    assert [run.wait() for run in runs] == [0, 0]
    extract([str(source)], tmp_path / "undisturbed", LOGMEL)
    assert tree(tmp_path / "out") == tree(tmp_path / "undisturbed")


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_run_leaves_no_half_files(tmp_path: Path, workers: int) -> None:
    """Ctrl-C in the middle of recordings, in this process or while the workers are at it."""

    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    for index in range(3):
        write_sound(tmp_path / "in" / f"{index}.wav", 120, seed=index)
    with pytest.raises(KeyboardInterrupt):
        extract([str(tmp_path / "in")], tmp_path / "out", options("musicnn", workers=workers), interrupt)
    assert not [name for name in tree(tmp_path / "out") if not name.endswith(("npy", "json"))]
