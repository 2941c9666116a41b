"""Spotting in words: what was found, how soon, and what was heard that is not there."""

from __future__ import annotations

from pipelines.evaluation.comparison import Comparison
from pipelines.evaluation.scores.spotting import Spotting

SHORTEST_HOURS = 0.1  # below, seconds say more


def spotting_lines(comparison: Comparison) -> list[str]:
    """What each model spotted in its data and in other sound, where that was looked at."""
    lines = []
    for row in comparison.rows:
        name = f"{row.name}: " if len(comparison.rows) > 1 else ""
        lines += [f"{name}{spotting_line(row.first.spotting)}"] if row.first.spotting is not None else []
        lines += [f"{name}{other_sound_line(row.first.other_sound)}"] if row.first.other_sound is not None else []
    return lines


def spotting_line(spotting: Spotting) -> str:
    """Of recordings whose events are known."""
    recall = "-" if spotting.recall is None else f"{100 * spotting.recall:.1f} %"
    delay = "" if spotting.delay is None else f", {_delay(spotting.delay)}"
    return f"spotted {recall} of {spotting.events} events{delay}; {_alarms(spotting)}"


def other_sound_line(spotting: Spotting) -> str:
    """Of recordings that hold nothing of what the model knows."""
    return f"other sound: {_alarms(spotting)}"


def _delay(seconds: float) -> str:
    return f"on average {abs(seconds):.2f} s {'before' if seconds < 0 else 'after'} their end"


def _alarms(spotting: Spotting) -> str:
    count = sum(spotting.false_alarms.values())
    names = ", ".join(f"{name} {number}" for name, number in spotting.false_alarms.items() if number)
    by_class = f" ({names})" if names else ""
    length = f"{spotting.hours:.2f} h" if spotting.hours >= SHORTEST_HOURS else f"{3600 * spotting.hours:.0f} s"
    return f"{spotting.alarms_per_hour:.1f} false alarms per hour: {count} in {length}{by_class}"
