"""A picture in a terminal: each character is two pixels, one above the other, as a half block in two colours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

UPPER_HALF = "▀"


class HalfBlocks:
    """As large as `columns` × `lines` allow with the picture's own aspect: a half of a character is about square."""

    def __init__(self, image: Any, columns: int, lines: int) -> None:
        """image: (height, width, 3) RGB."""
        self._image, self._columns, self._lines = image, columns, lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.color import Color
        from rich.segment import Segment
        from rich.style import Style

        pixels = fitted(self._image, self._columns, 2 * self._lines)
        margin = Segment(" " * ((self._columns - pixels.shape[1]) // 2))
        for upper, lower in zip(pixels[0::2].tolist(), pixels[1::2].tolist(), strict=True):
            yield margin
            for above, below in zip(upper, lower, strict=True):
                yield Segment(UPPER_HALF, Style(color=Color.from_rgb(*above), bgcolor=Color.from_rgb(*below)))
            yield Segment.line()


def fitted(image: Any, columns: int, rows: int) -> Any:
    """(height, width, 3) -> (h, w, 3) with h ≤ rows, even, and w ≤ columns, at the picture's aspect."""
    import cv2

    height, width, _ = image.shape
    scale = min(columns / width, rows / height)
    wide = max(1, min(columns, round(width * scale)))
    high = max(2, min(rows, round(height * scale)) // 2 * 2)
    return cv2.resize(image, (wide, high), interpolation=cv2.INTER_AREA)
