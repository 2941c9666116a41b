"""The bar of a training run: its times stay visible whatever the recordings are called."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cotrans_cli.display import console as console_module
from cotrans_cli.display import training_progress
from cotrans_cli.display.training_progress import TrainingProgress, print_result
from pipelines.training.events import Remark, StepDone
from pipelines.training.fitting.baseline import PerFrameScores
from pipelines.training.fitting.validation import Scores
from pipelines.training.run import RunResult


@contextmanager
def bar_on_a_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[TrainingProgress]:
    console = Console(file=io.StringIO(), width=width, height=10, force_terminal=True, color_system=None)
    monkeypatch.setattr(training_progress, "status_console", lambda: console)
    with training_progress.training_progress(quiet=False) as progress:
        yield progress


@pytest.mark.parametrize("width", [60, 80, 120])
def test_long_names_leave_room_for_the_times(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with bar_on_a_terminal(width, monkeypatch) as progress:
        assert progress._bar is not None
        progress.on_item(3, 10, "[red]folder/of/clips/with/a/very/long/name/" + "x" * 60)
        line = drawn(progress._bar.get_renderable(), width)
        assert re.search(r" -:--:-- left( ·)? …xxx", line) and len(line) <= width
        progress.on_item(3, 10, "[red]a.wav")
        assert drawn(progress._bar.get_renderable(), width).endswith("[red]a.wav")  # a name, not a colour


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_bar_does_not_jump_with_the_names(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with bar_on_a_terminal(width, monkeypatch) as progress:
        assert progress._bar is not None
        ends = set()
        for name in ("a", "copy of dog/1-100032-A-0", "x" * 60):
            progress.on_item(3, 10, name)
            line = drawn(progress._bar.get_renderable(), width)
            ends.add(line.index("left"))
            assert "copy of" not in line and "…f" not in line
    assert len(ends) == 1


@pytest.mark.parametrize("width", [60, 80, 120])
def test_times_are_whole_while_it_trains(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with bar_on_a_terminal(width, monkeypatch) as progress:
        assert progress._bar is not None
        progress(StepDone(1140, 1600, 3, 4, 12.36731, 1e-3))
        line = drawn(progress._bar.get_renderable(), width)
    assert (
        re.search(r" -:--:-- left( ·)? epoch 1140/1600  loss 12\.3673$", line)
        and "…" not in line
        and len(line) <= width
    )


def test_copies_that_are_made_are_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """On a terminal and elsewhere: else it is a silent wait."""
    plain = TrainingProgress(None, quiet=False)
    for done in range(120):
        plain.on_item(done, 120, f"copy of clip {done}")
    plain.on_item(120, 120, "")
    assert capsys.readouterr().err.splitlines() == [
        "a changed copy is made of 120 clips, and kept",
        "copies: 100 of 120 recordings",
    ]
    TrainingProgress(None, quiet=True).on_item(0, 120, "copy of clip 0")
    assert not capsys.readouterr().err
    console = Console(file=io.StringIO(), width=80, height=10, force_terminal=True, color_system=None)
    monkeypatch.setattr(training_progress, "status_console", lambda: console)
    with training_progress.training_progress(quiet=False) as progress:
        assert progress._bar is not None
        progress.on_item(3, 10, "copy of a")
        assert drawn(progress._bar.get_renderable(), 80).startswith("copies ")


def drawn(bar: Any, width: int) -> str:
    plain = Console(file=io.StringIO(), width=width, color_system=None)
    with plain.capture() as captured:
        plain.print(bar)
    (line,) = captured.get().splitlines()
    return line.rstrip()


@pytest.mark.parametrize("width", [60, 80])
def test_before_the_first_recording_it_says_what_it_does(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with bar_on_a_terminal(width, monkeypatch) as progress:
        assert progress._bar is not None
        assert "preparing the data" in drawn(progress._bar.get_renderable(), width)
        progress.on_item(1, 10, "a.wav")
        assert "preparing" not in drawn(progress._bar.get_renderable(), width)
        progress.on_item(10, 10, "")  # and what comes next takes a while, too
        progress(Remark("something"))
        assert "preparing the data" in drawn(progress._bar.get_renderable(), width)
        progress(StepDone(1, 60, 1, 4, 1.0, 1e-3))
        assert "preparing" not in drawn(progress._bar.get_renderable(), width)


def test_so_it_does_without_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(console_module, "A_MOMENT", 0.0)
    with training_progress.training_progress(quiet=False):
        deadline = time.monotonic() + 20
        said = ""
        while "preparing the data" not in said and time.monotonic() < deadline:
            time.sleep(0.01)
            said += capsys.readouterr().err
    assert said == "preparing the data …\n"
    monkeypatch.setattr(console_module, "A_MOMENT", 3600.0)
    with training_progress.training_progress(quiet=False) as progress:
        progress(Remark("something"))
    assert capsys.readouterr().err == "something\n"


@pytest.mark.parametrize(("steps", "said"), [(1, "0 s for 1 step\n"), (1200, "0 s for 1,200 steps\n")])
def test_one_step_is_a_step(steps: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_result(RunResult(tmp_path, 0, "loss", 1, None, None, 1, steps, 10, 2, 0, 0.1))
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("own", "clips", "said"),
    [
        (0.97, 100, ""),
        (0.95, 100, ""),
        (0.90, 100, "level with a classifier of single rows: it names 5 clips more of 100, which may be chance"),
        (0.90, 20, "level with a classifier of single rows: it names 1 clip more of 20, which may be chance"),
        (0.80, 100, "no better than a classifier of single rows: the memory is worth nothing yet; try more epochs"),
    ],
)
def test_a_model_below_single_rows_says_so_and_whether_it_may_be_chance(
    own: float, clips: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores, single_rows = Scores(0.1, own, own - 0.1, own), PerFrameScores("accuracy_mean", 0.95, 0.9)
    print_result(RunResult(tmp_path, 0, "accuracy", 1, scores, scores, 1, 1, 10, 2, clips, 0.1, single_rows))
    told = capsys.readouterr().err
    assert told.startswith(said) if said else not told


def test_frames_below_single_rows_are_no_matter_of_a_few(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores, single_rows = Scores(0.1, map=0.94), PerFrameScores("map", 0.95, 0.9)
    print_result(RunResult(tmp_path, 0, "map", 1, scores, scores, 1, 1, 10, 2, 9, 0.1, single_rows))
    assert capsys.readouterr().err.startswith("no better than a classifier of single rows")
