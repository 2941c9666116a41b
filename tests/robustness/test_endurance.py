"""Long and disturbed runs, in short: `make soak` has the same at full length."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from cotrans_cli.main import run
from pipelines.features.extraction.run import ExtractionOptions, Progress, extract
from pipelines.features.request import FeatureRequest
from pipelines.streaming.messages import Place, Row
from pipelines.streaming.playing.inbox import Inbox
from tests.robustness.kills import kill_and_go_on, undisturbed, victims
from tests.robustness.long_stream import run_steps
from tests.robustness.small_run import started, train_arguments, write_clips
from tests.streaming.made_streams import write_model, write_rows, write_sound

Output = pytest.CaptureFixture[str]

pytestmark = pytest.mark.usefixtures("no_settings")


@pytest.mark.parametrize("blocks", [1, 2])
def test_rows_that_join_and_leave(blocks: int) -> None:
    assert run_steps(2001, blocks) == []


def test_two_hundred_sources_of_which_twenty_are_broken(tmp_path: Path, capsys: Output) -> None:
    folder, out = tmp_path / "rows", tmp_path / "out"
    folder.mkdir()
    for number in range(200):
        if number % 10:
            write_rows(folder / f"{number}.npy", 6, seed=number)
        else:
            (folder / f"{number}.npy").write_bytes(b"\x93NUMPY broken")
    model = write_model(tmp_path / "model.safetensors")
    arguments = ["stream", str(folder), "--model", str(model), "--fast", "--format", "jsonl", "--out", str(out)]
    assert run(arguments) == 3
    assert "20 of 200 sources failed" in capsys.readouterr().err
    written = {int(path.stem): len(path.read_text().splitlines()) for path in out.iterdir()}
    assert written == {number: 6 for number in range(200) if number % 10}


def test_stopped_and_continued(tmp_path: Path) -> None:
    rows, out = tmp_path / "rows.npy", tmp_path / "out.jsonl"
    write_rows(rows, 30)
    model = str(write_model(tmp_path / "model.safetensors"))
    process = started(["stream", str(rows), "--model", model, "--hop", "0.1", "--out", str(out), "--quiet"])
    for _ in range(600):
        if out.exists() and out.stat().st_size:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGSTOP)
    time.sleep(1.5)
    process.send_signal(signal.SIGCONT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert [json.loads(line)["index"] for line in out.read_text().splitlines()] == list(range(30))


def test_a_clock_that_jumps_loses_no_row_silently() -> None:
    """Whatever the clock does, a row is taken or counted as dropped, and they stay in order."""
    generator = random.Random(0)
    now, dropped, taken = [1000.0], [0], []
    inbox = Inbox(1, 8, Event(), lambda _, rows: dropped.__setitem__(0, dropped[0] + rows), lambda: now[0])
    for number in range(500):
        now[0] += generator.choice((0.1, 0.1, 0.1, 3600.0, -3600.0, -1e9, 1e9))
        values = np.zeros(1, np.float32)
        row = Row(0, number, Place(), 0.0, 0.0, 0.1, values, now[0], 0.0, now[0], False, 1.0)
        inbox.put(0, row)
        if number % 3 == 0:
            taken += [item.index for _, item in inbox.take() if isinstance(item, Row)]
    inbox.finish(0)
    while items := inbox.take():
        taken += [item.index for _, item in items if isinstance(item, Row)]
    assert taken == sorted(set(taken)) and len(taken) + dropped[0] == 500


def test_a_source_that_vanishes_on_the_way(tmp_path: Path) -> None:
    folder = tmp_path / "media"
    folder.mkdir()
    for name in "abc":
        write_sound(folder / f"{name}.wav", 1.0)

    def vanish(progress: Progress) -> None:
        (folder / "b.wav").unlink(missing_ok=True)

    summary = extract([str(folder)], tmp_path / "out", ExtractionOptions(FeatureRequest("logmel")), vanish)
    assert {outcome.name: outcome.status for outcome in summary.outcomes} == {"a": "done", "b": "failed", "c": "done"}


def test_outputs_that_cannot_be_written(tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/proc/self").exists():
        pytest.skip("there is no folder here that nobody can write to")
    sound = str(write_sound(tmp_path / "a.wav", 0.5))
    model = str(write_model(tmp_path / "model.safetensors", "logmel"))
    monkeypatch.setenv("COTRANS_CACHE", "/proc/cache")
    for arguments in (
        ["extract", sound, "--features", "logmel", "--out", "/proc/features"],
        ["stream", sound, "--model", model, "--fast", "--out", "/proc/labels.jsonl"],
        ["stream", sound, "--model", model, "--fast", "--format", "csv", "--out", "/proc/labels"],
        ["convert", model, "--out", "/proc/other.safetensors"],
        [*train_arguments(write_clips(tmp_path / "clips")), "--out", "/proc/run"],
        ["weights", "add", "mine", model],
    ):
        assert run(arguments) == 3, arguments
        printed = capsys.readouterr().err
        assert "/proc/" in printed and "a bug" not in printed


@pytest.mark.slow
@pytest.mark.parametrize("name", ["extract", "stream --snapshot", "weights get"])
def test_killed_and_gone_on(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "victims"
    folder.mkdir()
    with victims(folder) as commands:
        expected, seconds = undisturbed(commands[name], folder)
        assert kill_and_go_on(commands[name], folder, expected, seconds, 3) is None
