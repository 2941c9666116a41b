"""A real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
ARTIFACTS = ROOT / "test-artifacts"  # pictures of the pages, to look at
# No network of its own, no graphics card, no sandbox (tests run as root in CI).
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--mute-audio",
]
MUST_RUN = "COTRANS_CI"  # set by .ci/run, where nothing is skipped


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium; where it is missing the tests are skipped, but not in CI."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sync_playwright = None
    missing = "playwright is not installed" if sync_playwright is None else "there is no Chromium on this machine"
    if sync_playwright is None or program is None:
        if os.environ.get(MUST_RUN):
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield chromium
        chromium.close()


def until(page: Any, expression: str, seconds: float = 20.0) -> None:
    """Wait for JavaScript to become true. (Playwright's own way evaluates text, which our policy refuses.)"""
    deadline = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, f"never true: {expression}"
        page.wait_for_timeout(30)


OpenPage = Callable[..., Any]


@pytest.fixture
def open_page(browser: Any) -> Iterator[OpenPage]:
    """Opens a file, or the address of a server, and waits until it is drawn. A script error, a refused script or a
    request to anybody else fails; `forgiven` are parts of errors that belong to the test."""
    problems: list[str] = []
    contexts: list[Any] = []
    allowed: list[str] = []

    def open_file(
        place: Path | str, *, width: int = 1280, height: int = 900, scheme: str = "light", forgiven: str = "nothing"
    ) -> Any:
        address = place if isinstance(place, str) else place.resolve().as_uri()
        own = ("file:", "data:", "blob:") if isinstance(place, Path) else ("data:", address.partition("?")[0])
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, has_touch=width < 600
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: message.type == "error" and problems.append(message.text))
        page.on("request", lambda request: request.url.startswith(own) or problems.append(f"asked for {request.url}"))
        allowed.append(forgiven)
        page.goto(address)
        page.wait_for_selector("body[data-ready]")
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert not [problem for problem in problems if not any(part in problem for part in allowed)]


@pytest.fixture(scope="session")
def artifacts() -> Path:
    ARTIFACTS.mkdir(exist_ok=True)
    return ARTIFACTS
