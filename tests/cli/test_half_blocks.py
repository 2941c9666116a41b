"""Pictures made of half blocks: aspect, colours, and their place in the live view."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from cotrans_cli.display.half_blocks import UPPER_HALF, HalfBlocks, fitted
from cotrans_cli.display.live_view import LEAST_PICTURE, LiveView
from pipelines.features.media import VideoFrame
from pipelines.streaming.sources.source import StreamSource
from tests.cli.test_live_view import CLASSES, frame
from tests.features.made_media import quadrants


@pytest.mark.parametrize(
    ("size", "room", "expected"),
    [
        ((48, 64), (80, 20), (20, 27)),  # as high as there is room
        ((480, 640), (40, 60), (30, 40)),  # as wide as there is room
        ((640, 360), (76, 30), (30, 17)),  # a phone held upright
        ((2, 4000), (76, 30), (2, 76)),
        ((1, 1), (10, 8), (8, 8)),
    ],
)
def test_pictures_keep_their_aspect(size: tuple[int, int], room: tuple[int, int], expected: tuple[int, int]) -> None:
    pixels = fitted(np.zeros((*size, 3), np.uint8), *room)
    assert pixels.shape == (*expected, 3)


def test_colours_are_those_of_the_picture() -> None:
    console = Console(file=io.StringIO(), width=8, color_system="truecolor", force_terminal=True)
    with console.capture() as captured:
        console.print(HalfBlocks(quadrants(0.0, 8, 8), 8, 4))
    first = captured.get().splitlines()[0]
    assert first.count(UPPER_HALF) == 8
    assert "38;2;255;0;0;48;2;255;0;0m" in first and "38;2;0;255;0;48;2;0;255;0m" in first  # red, then green
    last = captured.get().splitlines()[3]
    assert "38;2;0;0;255;" in last and "38;2;255;255;255;" in last


@pytest.mark.parametrize(("height", "colours", "lines"), [(30, True, 18), (30, False, 0), (12, True, 0)])
def test_the_live_view_shows_as_much_as_fits(height: int, colours: bool, lines: int) -> None:
    system = "truecolor" if colours else None
    console = Console(
        file=io.StringIO(), width=80, height=height, color_system=system, force_terminal=True, legacy_windows=False
    )
    view = LiveView([StreamSource("media", "a.mp4", "")], CLASSES, console)
    view.predicted(frame(0, 0))
    view.played(0, VideoFrame(0.0, 0.04, lambda: quadrants(0.0, 64, 48)), 0.0)
    with console.capture() as captured:
        console.print(view)
    shown = captured.get().splitlines()
    assert sum(UPPER_HALF in line for line in shown) == lines
    assert len(shown) <= height
    assert lines == 0 or lines >= LEAST_PICTURE


@pytest.mark.parametrize(("width", "lines", "across"), [(80, 15, 1), (160, 23, 2)])
def test_several_models_of_one_source_share_a_picture_where_panels_are_stacked(
    width: int, lines: int, across: int
) -> None:
    console = Console(
        file=io.StringIO(), width=width, height=36, color_system="truecolor", force_terminal=True, legacy_windows=False
    )
    sources = [StreamSource("media", "a.mp4", "", model=name) for name in ("first", "second")]
    view = LiveView(sources, CLASSES, console, ["first: " + "bird, " * 40, "second: golf"])
    for number in range(2):
        view.predicted(frame(0, number))
        view.played(number, VideoFrame(0.0, 0.04, lambda: quadrants(0.0, 64, 64)), 0.0)
    with console.capture() as captured:
        console.print(view)
    shown = captured.get().splitlines()
    assert "second: golf" in shown[0] and "…" in shown[0]
    drawn = [line for line in shown if UPPER_HALF in line]
    assert len(drawn) == lines and len(shown) <= 36
    assert all(line.count(UPPER_HALF) == 2 * lines * across for line in drawn)  # a square for each picture
