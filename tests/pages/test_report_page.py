"""The report in a browser: it plays, seeks, sorts, is corrected, and what it saves trains a model."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path
from typing import Any

import pytest

from cotrans_cli.main import run
from tests.pages.conftest import ROOT, OpenPage, until


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo clip as the built-in model hears it, beside its truth."""
    folder = tmp_path_factory.mktemp("report")
    shutil.copy(ROOT / "weights/demo/demo.ogg", folder / "demo.ogg")
    (folder / "truth.csv").write_text(
        "file,start,end,label\ndemo.ogg,0,7,clock_tick\ndemo.ogg,7,14,rain\ndemo.ogg,14,21,helicopter\n"
    )
    page, media = folder / "demo.html", str(folder / "demo.ogg")
    options = ["--fast", "--smooth", "1", "--plain", "--quiet", "--truth", str(folder / "truth.csv")]
    assert run(["stream", media, "--model", "sound-events", "--report", str(page), *options]) == 0
    return page


def settle(page: Any) -> None:
    """Wait until what was done is drawn: the table is drawn with the next frame."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def starts(page: Any) -> list[str]:
    settle(page)
    return page.locator("button.jump").all_inner_texts()


def labels(page: Any) -> list[str]:
    settle(page)
    return page.locator(".long-table tbody td:nth-child(4) .name").all_inner_texts()


def canvas_point(page: Any, seconds: float, part: str) -> tuple[float, float]:
    """Where a moment of a row of the timeline stands on the screen."""
    box = page.locator(".timeline-box").bounding_box()
    lane = page.locator(".lane-name", has_text=part).first.bounding_box()
    return box["x"] + box["width"] * seconds / 21.0, lane["y"] + lane["height"] / 2


def cursor(page: Any) -> float:
    return float(page.locator(".timeline-box").get_attribute("aria-valuenow"))


def test_it_plays_and_the_cursor_follows(report: Path, open_page: OpenPage) -> None:
    page = open_page(report)
    assert page.title() == "demo.ogg – cotrans"
    page.get_by_role("button", name="Play or pause").click()
    until(page, "document.querySelector('audio').currentTime > 0.3")
    until(page, "Number(document.querySelector('.timeline-box').getAttribute('aria-valuenow')) > 0.3")
    page.keyboard.press("Escape")
    page.locator(".timeline-box").focus()
    page.keyboard.press(" ")
    until(page, "document.querySelector('audio').paused")


def test_a_click_and_a_drag_seek(report: Path, open_page: OpenPage) -> None:
    page = open_page(report)
    page.mouse.click(*canvas_point(page, 12.0, "dog"))
    assert cursor(page) == pytest.approx(12.0, abs=0.05)
    assert page.evaluate("document.querySelector('audio').currentTime") == pytest.approx(12.0, abs=0.05)
    assert "rain" in page.locator("#readout").inner_text()
    page.mouse.move(*canvas_point(page, 3.0, "Sound"))
    page.mouse.down()
    page.mouse.move(*canvas_point(page, 20.0, "Sound"), steps=4)
    page.mouse.up()
    assert cursor(page) == pytest.approx(20.0, abs=0.05)
    assert "helicopter" in page.locator(".timeline-box").get_attribute("aria-valuetext")


def test_keys_do_what_the_pointer_does(report: Path, open_page: OpenPage) -> None:
    page = open_page(report)
    page.locator(".timeline-box").focus()
    for key in ("ArrowRight", "Shift+ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
    assert cursor(page) == pytest.approx(2.5)
    page.keyboard.press("n")
    page.keyboard.press("n")
    assert cursor(page) == pytest.approx(9.75)
    assert page.locator("#segment-label").input_value() == "rain"
    page.keyboard.press("Delete")
    assert labels(page) == ["clock_tick", "helicopter"]
    page.keyboard.press("Control+z")
    assert labels(page) == ["clock_tick", "rain", "helicopter"]


def test_the_threshold_makes_other_segments(report: Path, open_page: OpenPage) -> None:
    page = open_page(report)
    own = labels(page)
    assert own == ["clock_tick", "rain", "helicopter"]
    page.locator("#threshold").fill("0.8")
    until(page, "document.querySelectorAll('button.jump').length > 0")
    strict = page.evaluate("window.report.view.list.items")
    assert page.locator("#threshold-value").inner_text() == "0.80"
    assert strict and all(item["score"] >= 0.8 for item in strict)
    assert sum(item["end"] - item["start"] for item in strict) < 21
    page.locator("#own-rule").click()
    assert labels(page) == own


def test_the_table_sorts_and_jumps(report: Path, open_page: OpenPage) -> None:
    page = open_page(report)
    page.get_by_role("button", name="Label").click()
    assert labels(page) == ["clock_tick", "helicopter", "rain"]
    page.get_by_role("button", name="Label").click()
    assert labels(page) == ["rain", "helicopter", "clock_tick"]
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("Label")
    settle(page)
    page.locator("button.jump").first.click()
    assert cursor(page) == pytest.approx(9.75)


def test_zoom_and_pan(report: Path, open_page: OpenPage) -> None:
    page = open_page(report)
    view = "[window.report.view.timeline.start, window.report.view.timeline.end]"
    page.get_by_role("button", name="Zoom in (+)").click()
    assert page.evaluate(view) == pytest.approx([0, 10.5])
    page.mouse.move(*canvas_point(page, 10.0, "Sound"))
    page.keyboard.down("Shift")
    page.mouse.wheel(0, 400)
    page.keyboard.up("Shift")
    until(page, "window.report.view.timeline.start > 1")
    page.locator("canvas.overview").click(position={"x": 1, "y": 5})
    assert page.evaluate(view)[0] == 0
    page.get_by_role("button", name="The whole recording (0)").click()
    assert page.evaluate(view) == pytest.approx([0, 21], abs=0.1)


def test_corrections_are_saved_and_train_a_model(report: Path, open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page(report)
    # The border between the first two is dragged to where the rain begins: it must be taken from the left one first.
    page.mouse.click(*canvas_point(page, 5.0, "Segments"))
    page.mouse.move(*canvas_point(page, 9.74, "Segments"))
    page.mouse.down()
    page.mouse.move(*canvas_point(page, 7.0, "Segments"), steps=4)
    page.mouse.up()
    assert float(page.locator("#segment-end").input_value()) == pytest.approx(7.0, abs=0.1)
    page.locator("#segment-end").fill("7")
    page.locator("#segment-end").press("Enter")
    settle(page)
    page.locator("button.jump").nth(1).click()
    page.locator("#segment-start").fill("7")
    page.locator("#segment-start").press("Enter")
    page.locator("#segment-label").fill('heavy "rain", wind')
    page.locator("#segment-label").press("Enter")
    settle(page)
    page.locator("button.jump").nth(2).click()
    page.get_by_role("button", name="Delete").click()
    page.mouse.move(*canvas_point(page, 19.2, "Segments"))
    page.mouse.down()
    page.mouse.move(*canvas_point(page, 20.6, "Segments"), steps=4)
    page.mouse.up()
    page.locator("#segment-label").fill("helicopter")
    page.locator("#segment-label").press("Enter")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save CSV").click()
    folder = tmp_path / "recordings"
    folder.mkdir()
    shutil.copy(report.parent / "demo.ogg", folder / "demo.ogg")
    download.value.save_as(folder / "labels.csv")
    with (folder / "labels.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == ["clock_tick", 'heavy "rain", wind', "helicopter"]
    times = [(float(row["start"]), float(row["end"])) for row in rows]
    assert times[:2] == [(0.5, 7), (7, 18.5)]
    assert times[2] == pytest.approx((19.2, 20.6), abs=0.1)
    small = ["--features", "logmel", "--epochs", "1", "--validation", "0", "--quiet"]
    trained = run(["train", str(folder), *small, "--out", str(tmp_path / "run")])
    assert trained == 0
    assert (tmp_path / "run/best.safetensors").is_file()


@pytest.mark.parametrize(
    ("name", "width", "height", "scheme"),
    [("light", 1280, 900, "light"), ("dark", 1280, 900, "dark"), ("phone", 390, 844, "light")],
)
def test_it_looks_right(
    report: Path, open_page: OpenPage, artifacts: Path, name: str, width: int, height: int, scheme: str
) -> None:
    page = open_page(report, width=width, height=height, scheme=scheme)
    settle(page)
    page.locator("button.jump").nth(1).click()
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # The lanes are drawn: the clock's lane has its colour at the beginning and none at the end.
    pixel = """([x, y]) => [...document.querySelector('.timeline-box canvas').getContext('2d')
        .getImageData(x, y, 1, 1).data].slice(0, 3)"""
    wide = page.locator(".timeline-box").bounding_box()["width"]
    box = page.locator(".timeline-box").bounding_box()
    lane = page.locator(".lane-name", has_text="clock_tick").first.bounding_box()
    middle = lane["y"] - box["y"] + lane["height"] / 2
    strong = page.evaluate(pixel, [wide * 0.1, middle])
    weak = page.evaluate(pixel, [wide * 0.97, middle])
    assert sum(abs(first - second) for first, second in zip(strong, weak, strict=True)) > 150
    page.screenshot(path=artifacts / f"report-{name}.png", full_page=True)


def test_the_theme_can_be_chosen(report: Path, open_page: OpenPage) -> None:
    page = open_page(report)
    page.get_by_role("button", name="Change to the dark theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 21, 26)"
    page.get_by_role("button", name="Change to the light theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(244, 245, 247)"


def test_the_size_of_a_report(report: Path) -> None:
    assert report.stat().st_size < 200_000
