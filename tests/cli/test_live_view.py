"""The live view at several widths, with and without colours."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from rich.console import Console

from cotrans_cli.display.live_view import SIXTEEN, LiveView
from cotrans_cli.display.terminal_text import clock
from pipelines.errors import InputError
from pipelines.streaming.messages import Remark, SourceEnded
from pipelines.streaming.output.palette import PALETTE
from pipelines.streaming.output.summary import Statistics
from pipelines.streaming.predicting.prediction import Prediction
from pipelines.streaming.sources.source import StreamSource

CLASSES = ("dog bark", "rain", "crackling fire")


def frame(number: int, index: int, label: str | None = "rain") -> Prediction:
    values = np.array([0.2, 0.7, 0.1])
    top = (("rain", 0.7), ("dog bark", 0.2), ("crackling fire", 0.1))
    time = 0.25 * (index + 1)
    return Prediction("x", number, index, time, time - 0.25, time, label, 0.7, top, index < 4, 12.0, values, values)


def drawn(sources: int, width: int, height: int = 30, colours: bool = True) -> list[str]:
    console = Console(
        file=io.StringIO(),
        width=width,
        height=height,
        force_terminal=True,
        color_system="standard" if colours else None,
        legacy_windows=False,
    )
    named = [StreamSource("media", f"folder/number {number}.mp4", "") for number in range(sources)]
    view = LiveView(named, CLASSES, console)
    console.print(view)  # before anything has come
    statistics = Statistics([source.name for source in named])
    view.begin(statistics)
    statistics.begin()
    for number in range(sources):
        for index in range(12):
            statistics.predicted(number, [0.25], [0.012], index != 6)
            view.predicted(frame(number, index, None if index == 6 else "rain"))
    view.remark(Remark(named[0].name, "connection lost"))
    view.ended(SourceEnded(sources - 1, named[-1].name, InputError("it broke")))
    plain = Console(file=io.StringIO(), width=width, height=height, color_system=None, force_terminal=not colours)
    view._console = console if colours else plain
    with plain.capture() as captured:
        plain.print(view)
    return captured.get().splitlines()


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for sources in (1, 3, 12):
        lines = drawn(sources, width)
        assert max(map(len, lines)) <= width
        assert sum("rain" in line for line in lines) >= (1 if width >= 100 else sources)
        assert any("connection lost" in line for line in lines)
        assert any("it broke" in line for line in lines)


def test_a_panel_shows_time_bars_strip_and_numbers() -> None:
    lines = drawn(1, 80)
    text = "\n".join(lines)
    assert "folder/number 0.mp4" in lines[0]
    assert "70.0 %" in lines[1] and lines[1].count("█") > 30
    assert "▒▒▒▒██·█████" in text
    assert "latency 12 / 12 ms (p50/p95) · dropped 0" in text
    assert "0:03.0  failed" in text


def test_a_file_shows_how_far_it_is() -> None:
    console = Console(file=io.StringIO(), width=80, height=24, color_system=None)
    view = LiveView([StreamSource("media", "a.mp4", "")], CLASSES, console)
    statistics = Statistics(["a.mp4"])
    view.begin(statistics)
    statistics.begin()
    statistics.opened(0, 12.0)
    for index in range(12):
        statistics.predicted(0, [0.25], [0.012], True)
        view.predicted(frame(0, index))
    with console.capture() as captured:
        console.print(view)
    assert re.search(r"0:03\.0 of 0:12\.0 · 25 % · \d+:\d\d\.\d left ─╯", captured.get())


@pytest.mark.parametrize(
    ("width", "length", "foot"),
    [
        (80, 12.0, r"0:00\.2 of 0:12\.0 · 2 % · [\d:.]+ left  warming up · none of these ─╯"),
        (60, 12.0, r"─ 0:00\.2 of 0:12\.0 · 2 %  warming up · none of these ─╯"),
        (60, 40_000.0, r"─ 0:00\.2 of 11:06:40\.0 · 0 %  warming up · none of these ─╯"),
        (50, 40_000.0, r"─ 0:00\.2 of 11:06:40\.0 · 0 %  none of these ─╯"),
    ],
)
def test_the_foot_is_never_cut_off(width: int, length: float, foot: str) -> None:
    console = Console(file=io.StringIO(), width=width, height=24, color_system=None)
    view = LiveView([StreamSource("media", "a.mp4", "")], CLASSES, console)
    statistics = Statistics(["a.mp4"])
    view.begin(statistics)
    statistics.begin()
    statistics.opened(0, length)
    statistics.predicted(0, [0.25], [0.012], True)
    view.predicted(frame(0, 0, label=None))
    with console.capture() as captured:
        console.print(view)
    assert re.search(foot, captured.get()), captured.get()


def test_two_panels_side_by_side_show_the_time_that_is_left() -> None:
    console = Console(file=io.StringIO(), width=120, height=24, color_system=None)
    view = LiveView([StreamSource("media", name, "") for name in ("a.mp4", "b.mp4")], CLASSES, console)
    statistics = Statistics(["a.mp4", "b.mp4"])
    view.begin(statistics)
    statistics.begin()
    for number in (0, 1):
        statistics.opened(number, 12.0)
        statistics.predicted(number, [0.25], [0.012], True)
        view.predicted(frame(number, 0))
    with console.capture() as captured:
        console.print(view)
    assert captured.get().count(" left ") == 2


def test_the_pace_of_a_source_that_is_over_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), width=80, height=24, color_system=None)
    view = LiveView([StreamSource("media", "a.mp4", "")], CLASSES, console)
    statistics = Statistics(["a.mp4"])
    view.begin(statistics)
    for seconds, over in ((3.0, True), (30.0, False)):  # the other sources play on
        monkeypatch.setattr(Statistics, "wall_seconds", seconds)
        if over:
            for index in range(12):
                statistics.predicted(0, [0.25], [0.012], True)
                view.predicted(frame(0, index))
            view.ended(SourceEnded(0, "a.mp4", None))
        with console.capture() as captured:
            console.print(view)
        assert "× 1.00 real time" in captured.get()


def test_as_fast_as_possible_says_nothing_of_latency() -> None:
    for paced in (True, False):
        console = Console(file=io.StringIO(), width=80, height=24, color_system=None)
        view = LiveView([StreamSource("media", "a.mp4", "")], CLASSES, console, paced=paced)
        statistics = Statistics(["a.mp4"])
        view.begin(statistics)
        statistics.begin()
        statistics.predicted(0, [0.25], [0.012], True)
        view.predicted(frame(0, 0))
        with console.capture() as captured:
            console.print(view)
        assert ("latency" in captured.get()) == paced and "real time · " in captured.get()


def test_colours_can_be_read_on_black_and_on_white() -> None:
    """A contrast of 3, which large letters and bars need, on both."""
    assert len(set(PALETTE)) >= 10
    for colour in PALETTE:
        red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in (red, green, blue)]
        light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
        assert 1.05 / (light + 0.05) >= 3 and (light + 0.05) / 0.05 >= 3, colour


def test_sixteen_colours_have_ten_for_classes_and_none_that_white_swallows() -> None:
    assert len(set(SIXTEEN)) == 10
    assert not {"bright_yellow", "bright_green", "bright_cyan", "white", "bright_white", "black"} & set(SIXTEEN)


def test_without_colours_the_strip_has_letters() -> None:
    assert any("rrrrRR·RRRRR" in line for line in drawn(1, 80, colours=False))


def test_sources_that_do_not_fit_get_a_line_each() -> None:
    lines = drawn(12, 80, height=24)
    assert len(lines) == 14
    assert all("rain" in line for line in lines[:12])


def test_more_sources_than_lines() -> None:
    lines = drawn(40, 80, height=24)
    assert len(lines) == 20 + 2
    assert lines[19] == "… and 21 more: 20 playing, 1 failed"


def test_lines_of_several_models_name_source_and_model_at_any_width() -> None:
    sources = [
        StreamSource("media", f"folder/{name}.ogg", "", model=model)
        for name in ("one", "two")
        for model in ("sound-events", "objects")
    ]
    for width, named in (
        (60, ["…er/one·…events", "…er/one·objects", "…er/two·…events", "…er/two·objects"]),
        (40, ["…/one·…nts", "…/one·…cts", "…/two·…nts", "…/two·…cts"]),
    ):
        console = Console(file=io.StringIO(), width=width, height=10, color_system=None)
        view = LiveView(sources, CLASSES, console)
        for number in range(4):
            view.predicted(frame(number, 0))
            view.ended(SourceEnded(number, "", None))
        with console.capture() as captured:
            console.print(view)
        lines = captured.get().splitlines()
        assert all(line.startswith(name) for line, name in zip(lines, named, strict=True)), lines
        assert all(("ended" in line) == (width == 60) and "end…" not in line for line in lines), lines


def test_a_source_that_never_gave_anything_says_why() -> None:
    for width, sources in ((80, 2), (40, 2)):
        console = Console(file=io.StringIO(), width=width, height=40, color_system=None)
        view = LiveView([StreamSource("media", name, "") for name in ("a.mp4", "b.mp4")[:sources]], CLASSES, console)
        assert view.empty
        view.predicted(frame(0, 0))
        assert not view.empty
        view.ended(SourceEnded(1, "b.mp4", InputError("b.mp4: no such file")))
        assert view.errors == ["b.mp4: no such file"]
        with console.capture() as captured:
            console.print(view)
        text = captured.get()
        assert text.count("no such file") == 1
        assert text.count("b.mp4") == 1
        assert ("warming up" in text) == (width == 80)


@pytest.mark.parametrize("width", [80, 40])
def test_where_none_of_the_classes_is_there_no_class_is_the_answer(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, height=24, color_system="truecolor", force_terminal=True)
    view = LiveView([StreamSource("media", "a.mp4", "")], CLASSES, console)
    texts = {}
    for index, label in ((4, "rain"), (5, None)):
        view.predicted(frame(0, index, label))
        with console.capture() as captured:
            console.print(view)
        lines = captured.get().splitlines()
        texts[label] = next(line for line in lines if ("rain" if width == 80 or label else "–") in line)
        assert any("none of these" in line for line in lines) == (width == 80 and label is None)
    assert "38;2;" in texts["rain"] and ("38;2;" in texts[None]) == (
        width == 40
    )  # there the strip has the colour of before
    assert "70" in texts["rain"] and ("70" in texts[None]) == (width == 80)


def test_times() -> None:
    assert [clock(seconds) for seconds in (0.0, 59.96, 61.25, 3725.5)] == ["0:00.0", "1:00.0", "1:01.2", "1:02:05.5"]
