"""A live view that is written over itself: rich's own is wiped out first, and a large picture flickers."""

from __future__ import annotations

from typing import Any

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderResult
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType, Segment


class SteadyLive(Live):
    """Draws each view over the one before, in lines as wide as the terminal."""

    def __init__(self, renderable: RenderableType, **options: Any) -> None:
        super().__init__(_Covering(renderable), **options)

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        reset, *drawn = super().process_renderables(renderables)
        nothing_above = all(isinstance(item, Control) and not item.segment.text for item in renderables)
        if nothing_above and isinstance(reset, Control):
            reset = _without_erasing(reset)
        return [reset, *drawn]


class _Covering:
    """A renderable whose lines cover all of what it last was, and of what it last had below them."""

    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable
        self._height = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._renderable, options, pad=True)
        blank = [Segment(" " * options.max_width)]
        below, self._height = self._height - len(lines), len(lines)
        for line in (*lines, *[blank] * below):
            yield from line
            yield Segment.line()


def _without_erasing(reset: Control) -> Control:
    """The way up to the first line of the view that is there."""
    # Line by line, as rich does: its way for old consoles of Windows knows no other.
    ups = [code for code in reset.segment.control or () if code[0] == ControlType.CURSOR_UP]
    return Control(ControlType.CARRIAGE_RETURN, *ups) if ups else reset
