"""Spotting for programs: fractions, seconds and hours."""

from __future__ import annotations

from typing import Any

from pipelines.evaluation.scores.spotting import Spotting


def spotting_entries(spotting: Spotting | None, other_sound: Spotting | None) -> dict[str, Any]:
    """Of recordings whose events are known, and of other sound, where each was looked at."""
    parts = {"spotting": spotting, "other_sound": other_sound}
    return {name: _values(part) for name, part in parts.items() if part is not None}


def _values(spotting: Spotting) -> dict[str, Any]:
    return {
        "events": spotting.events,
        "found": spotting.found,
        "recall": spotting.recall,
        "delay_seconds": spotting.delay,
        "false_alarms": spotting.false_alarms,
        "false_alarms_per_hour": spotting.alarms_per_hour,
        "hours": spotting.hours,
    }
