"""One HTML file out of the scripts and styles in `assets` and the data of a page: no network, nothing to build.

Data travel as JSON in a block that browsers do not run, and reach the page as text alone. A content security policy
lets run what is listed here by its hash, and nothing else: whatever a class or a file is called, it is no code.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib.resources import files
from typing import Any

from pipelines import __version__

# In the order in which they need each other. The live page takes the parts up to `overview.js` too.
COMMON_SCRIPTS = ("text.js", "theme.js", "packed.js", "figures.js")
TIMELINE_SCRIPTS = (
    "scores.js",
    "segments.js",
    "timeline_painter.js",
    "timeline_input.js",
    "timeline.js",
    "overview.js",
)
CHART_SCRIPTS = ("chart.js",)
COMMON_STYLES = ("base.css",)
TIMELINE_STYLES = ("timeline.css",)
CHART_STYLES = ("charts.css",)
# Media are read from beside the file (or from where the page was loaded), and from within the page.
LOCAL_MEDIA = "'self' file: data: blob:"


@dataclass(frozen=True)
class Page:
    """What a page is made of."""

    title: str
    scripts: Sequence[str]  # names of assets, joined in this order
    styles: Sequence[str]
    data: Mapping[str, Any]  # plain JSON values, for `pageData()`
    blocks: Mapping[str, str] = field(default_factory=dict)  # base64 by the id of their element: embedded media
    connect: str = "'none'"  # where the page may send requests: 'self' for the live page
    refresh: int | None = None  # seconds after which the browser loads it again


def asset(name: str) -> str:
    """The text of a script or style."""
    return files("pipelines.pages").joinpath("assets", name).read_text(encoding="utf-8")


def joined(names: Sequence[str]) -> str:
    return "\n".join(asset(name) for name in names)


def render(page: Page) -> str:
    """The whole file."""
    script, style = joined(page.scripts), joined(page.styles)
    policy = content_policy(script, style, page.connect)
    refresh = "" if page.refresh is None else f'<meta http-equiv="refresh" content="{page.refresh}">\n'
    blocks = "".join(
        f'<script type="text/plain" id="{html.escape(name)}">{_base64_text(content)}</script>\n'
        for name, content in page.blocks.items()
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"{refresh}<title>{html.escape(_plain(page.title))}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        "<noscript>This page draws with JavaScript: allow it, or open the file in another browser.</noscript>\n"
        f'<main class="page" id="page"></main>\n'
        f'<script type="application/json" id="data">{safe_json(page.data)}</script>\n{blocks}'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def made_line() -> str:
    """The foot of a page: by what, and when."""
    return f"Made by cotrans {__version__} on {datetime.now().astimezone():%d %B %Y, %H:%M}."


def content_policy(script: str, style: str, connect: str = "'none'") -> str:
    """What a browser may run and load for a page with this script and style."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "img-src data: blob: 'self'",
            f"media-src {LOCAL_MEDIA}",
            f"connect-src {connect}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def safe_json(value: Any) -> str:
    """JSON that may stand inside an element: it cannot end it, and no line of it ends where JavaScript sees one."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text.encode("utf-8", "backslashreplace").decode("utf-8")  # half a surrogate pair, out of a file name


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode()}"


def _base64_text(content: str) -> str:
    if not content.isascii() or "<" in content:
        raise ValueError("a block of a page holds base64 only")
    return content


def _plain(text: str) -> str:
    """A title: one line, without letters that act."""
    return (
        "".join(letter if letter.isprintable() else " " for letter in text).encode("utf-8", "replace").decode("utf-8")
    )
