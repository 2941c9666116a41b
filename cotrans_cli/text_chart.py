"""A small chart of curves in characters, both axes logarithmic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

_WIDTH, _HEIGHT = 56, 14  # characters of the plotting area


def log_chart(title: str, xs: Sequence[float], curves: Mapping[str, Sequence[float]], label: str) -> list[str]:
    """Lines of a chart. curves: marker (one character) to values at `xs`; label: of the horizontal axis.

    Where curves meet, the later one is seen.
    """
    values = [value for curve in curves.values() for value in curve]
    bottom, top = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    top = max(top, bottom + 1)
    left, right = math.log(xs[0]), math.log(xs[-1])
    grid = [[" "] * _WIDTH for _ in range(_HEIGHT)]
    for marker, curve in curves.items():
        for column in range(_WIDTH):
            place = left + (right - left) * column / (_WIDTH - 1)
            height = (_interpolated(place, xs, curve) - bottom) / (top - bottom)
            grid[_HEIGHT - 1 - round(height * (_HEIGHT - 1))][column] = marker
    lines = [title]
    for row, characters in enumerate(grid):
        exponent = top - row * (top - bottom) / (_HEIGHT - 1)
        # A power of ten is named in the row that is nearest to it.
        near = abs(exponent - round(exponent)) <= (top - bottom) / (_HEIGHT - 1) / 2
        named = near and round(exponent) in _spaced(bottom, top)
        lines.append(f"{f'1e{round(exponent)}' if named else '':>5} |{''.join(characters).rstrip()}")
    lines.append(f"{'':5} +{'-' * _WIDTH}")
    first, last = f"{xs[0]:g}", f"{xs[-1]:g}"
    lines.append(f"{'':7}{first}{label:^{_WIDTH - len(first) - len(last)}}{last}")
    return lines


def _spaced(bottom: int, top: int) -> range:
    return range(bottom, top + 1, max(1, math.ceil((top - bottom) / 6)))


def _interpolated(place: float, xs: Sequence[float], curve: Sequence[float]) -> float:
    """log₁₀ of the curve at exp(place), straight between the points of a log-log plot."""
    logs = [math.log(x) for x in xs]
    for index in range(len(xs) - 1):
        if place <= logs[index + 1] + 1e-9:
            share = (place - logs[index]) / (logs[index + 1] - logs[index])
            first, second = math.log10(curve[index]), math.log10(curve[index + 1])
            return first + min(max(share, 0.0), 1.0) * (second - first)
    return math.log10(curve[-1])
