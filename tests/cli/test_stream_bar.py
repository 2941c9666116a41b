"""The bar of a stream whose predictions go to a file: it stays where it is, and says how long it takes still."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from cotrans_cli.display import stream_bar
from pipelines.streaming.output.summary import Statistics


@pytest.mark.parametrize("width", [60, 80, 120])
def test_it_does_not_jump(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), width=width, height=10, force_terminal=True, color_system=None)
    monkeypatch.setattr(stream_bar, "status_console", lambda: console)
    plain = Console(file=io.StringIO(), width=width, color_system=None)
    places = set()
    with stream_bar.stream_bar(True) as bar:
        assert bar is not None
        statistics = Statistics(["a.mp4"])
        bar.begin(statistics)
        statistics.opened(0, 700.0)
        for seconds, wall in ((0.25, 1.0), (650.0, 5.0)):
            monkeypatch.setattr(Statistics, "wall_seconds", wall)
            statistics.predicted(0, [seconds], [0.012], True)
            bar.update()
            with plain.capture() as captured:
                plain.print(bar._progress.get_renderable())
            (line,) = captured.get().splitlines()
            assert " of 11:40.0" in line and ("real time" in line) == (width >= 80) and len(line) <= width
            assert re.search(r" · [\d:-]{7} left *$", line) and "×  " not in line
            places.add((line.index("%"), line.index("of"), line.index("left")))
    assert len(places) == 1


def test_a_source_without_an_end_has_no_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), width=100, height=10, force_terminal=True, color_system=None)
    monkeypatch.setattr(stream_bar, "status_console", lambda: console)
    with stream_bar.stream_bar(True) as bar:
        assert bar is not None
        statistics = Statistics(["microphone"])
        bar.begin(statistics)
        statistics.predicted(0, [5.0], [0.012], True)
        bar.update()
        with console.capture() as captured:
            console.print(bar._progress.get_renderable())
    assert "0:05.0" in captured.get() and "left" not in captured.get()
