"""For mkdocs: links that leave docs/ (to the README, a model card) lead nowhere on the site, and become plain text.

That they lead somewhere in the repository is what tests/docs/test_pages.py checks.
"""

from __future__ import annotations

import re
from typing import Any

OUTSIDE = re.compile(r"(?<!!)\[([^\]]+)\]\(\.\./[^)\s]+\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    return OUTSIDE.sub(r"\1", markdown)
