"""report.html of a training run."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.training.events import EpochDone
from pipelines.training.fitting.validation import Scores
from pipelines.training.page import RunProgress, RunState, write_run_page
from tests.pages.conftest import OpenPage

NAME = "<b>run</b> \x1b א"


def history(epochs: int) -> list[EpochDone]:
    """A run that learns, and is validated in every second epoch."""
    done = []
    for epoch in range(1, epochs + 1):
        loss, score = 2.0 / epoch, 1 - 0.8 / epoch
        scores = Scores(loss + 0.1, score, score - 0.02, score - 0.05, float("nan")) if epoch % 2 == 0 else None
        done.append(EpochDone(epoch, 20 * epoch, 1e-3 / epoch, loss, 1.0, scores, scores is not None, 3.0, 1000.0))
    return done


def write_page(path: Path, epochs: int, state: RunState) -> Path:
    write_run_page(path, RunProgress(NAME, history(epochs), "accuracy", 12, state))
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_curves_and_epochs(tmp_path: Path, open_page: OpenPage, artifacts: Path, scheme: str) -> None:
    page = open_page(write_page(tmp_path / "report.html", 12, "finished"), scheme=scheme)
    assert page.locator("h1").inner_text() == r"<b>run</b> \x1b א"
    assert page.locator("svg[role=img]").count() == 3
    assert page.locator("svg[aria-label=Loss] polyline").count() == 2
    assert page.locator("svg[aria-label=Validation] polyline").count() == 3  # NaN is no curve
    assert page.locator("tbody tr").count() == 12
    assert page.locator("tbody tr").first.inner_text().startswith("★ 12")
    assert "finished after 12 epochs" in page.locator("header").inner_text()
    assert page.locator("meta[http-equiv=refresh]").count() == 0
    page.screenshot(path=artifacts / f"training-{scheme}.png", full_page=True)


def test_scores_go_by_their_names(tmp_path: Path, open_page: OpenPage) -> None:
    done = [EpochDone(1, 20, 1e-3, 1.0, 1.0, Scores(1.0, None, None, None, 0.5), True, 3.0, 1000.0)]
    write_run_page(tmp_path / "report.html", RunProgress("run", done, "map", 1, "finished"))
    text = open_page(tmp_path / "report.html").locator("body").inner_text()
    assert "Best mAP" in text and "val. mAP" in text and "best, by mAP" in text and "map" not in text.split()


def test_a_run_that_goes_on_looks_again(tmp_path: Path, open_page: OpenPage) -> None:
    page = open_page(write_page(tmp_path / "report.html", 2, "running"))
    assert page.locator("progress").get_attribute("value") == "2"
    write_page(tmp_path / "report.html", 5, "running")
    page.wait_for_selector("body[data-ready='5']", timeout=15_000)
    assert page.locator("tbody tr").count() == 5
