"""A small chart of curves in characters, both axes logarithmic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

_WIDTH, _HEIGHT = 56, 14  # characters of the plotting area, where there is room
_LEAST = 16  # below this a curve is none
_AXIS = 7  # characters to the left of it


def log_chart(
    title: str, xs: Sequence[float], curves: Mapping[str, Sequence[float]], label: str, available: int = _AXIS + _WIDTH
) -> list[str]:
    """Lines of a chart. curves: marker (one character) to values at `xs`; label: of the horizontal axis.

    Where curves meet, the later one is seen. available: columns of the terminal.
    """
    width = max(_LEAST, min(_WIDTH, available - _AXIS))
    values = [math.log10(value) for curve in curves.values() for value in curve]
    bottom, top = min(values), max(max(values), min(values) + 1)
    left, right = math.log(xs[0]), math.log(xs[-1])
    grid = [[" "] * width for _ in range(_HEIGHT)]
    for marker, curve in curves.items():
        for column in range(width):
            place = left + (right - left) * column / (width - 1)
            grid[_row(_interpolated(place, xs, curve), bottom, top)][column] = marker
    labels = {_row(power, bottom, top): f"1e{power}" for power in _powers(bottom, top)}
    lines = [title]
    for row, characters in enumerate(grid):
        lines.append(f"{labels.get(row, ''):>5} |{''.join(characters).rstrip()}")
    lines.append(f"{'':5} +{'-' * width}")
    first, last = f"{xs[0]:g}", f"{xs[-1]:g}"
    lines.append(f"{'':7}{first}{label:^{width - len(first) - len(last)}}{last}")
    return lines


def _row(logarithm: float, bottom: float, top: float) -> int:
    return _HEIGHT - 1 - round((logarithm - bottom) / (top - bottom) * (_HEIGHT - 1))


def _powers(bottom: float, top: float) -> range:
    """Powers of ten within the chart, at most seven of them."""
    first, last = math.ceil(bottom), math.floor(top)
    return range(first, last + 1, max(1, math.ceil((last - first) / 6)))


def _interpolated(place: float, xs: Sequence[float], curve: Sequence[float]) -> float:
    """log₁₀ of the curve at exp(place), straight between the points of a log-log plot."""
    logs = [math.log(x) for x in xs]
    for index in range(len(xs) - 1):
        if place <= logs[index + 1] + 1e-9:
            share = (place - logs[index]) / (logs[index + 1] - logs[index])
            first, second = math.log10(curve[index]), math.log10(curve[index + 1])
            return first + min(max(share, 0.0), 1.0) * (second - first)
    return math.log10(curve[-1])
