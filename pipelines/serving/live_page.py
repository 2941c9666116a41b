"""The live page: one HTML file for every stream, which learns from the server's events what there is to show."""

from __future__ import annotations

from pipelines.pages.page import (
    COMMON_SCRIPTS,
    COMMON_STYLES,
    TIMELINE_SCRIPTS,
    TIMELINE_STYLES,
    Page,
    content_policy,
    joined,
    render,
)

SCRIPTS = (*COMMON_SCRIPTS, *TIMELINE_SCRIPTS, "live_sound.js", "live_track.js", "live_source.js", "live.js")
STYLES = (*COMMON_STYLES, *TIMELINE_STYLES, "live.css")
CONNECT = "'self'"


def live_page() -> str:
    return render(Page("cotrans live", SCRIPTS, STYLES, {}, connect=CONNECT))


def live_policy() -> str:
    """What browsers may run and load for it; nobody may show it inside another page."""
    return f"{content_policy(joined(SCRIPTS), joined(STYLES), CONNECT)}; frame-ancestors 'none'"
