"""Names of classes and files that hold markup, quotes, control characters or right-to-left text show as text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipelines.pages.media import link_media
from pipelines.pages.packing import as_bytes, packed_rows
from pipelines.pages.page import safe_json
from pipelines.pages.recording import Recording, ShownRule, write_recordings
from tests.features.made_recordings import write_sound
from tests.pages.conftest import OpenPage, until

NAMES = (
    "</script><script>window.hacked = 1</script>",
    '<img src=x onerror="window.hacked = 2">',
    "quotes \" ' ` and a back\\slash",
    "two\nlines\tand \x1b[31mESC",
    "עברית \u202e abc",
    "line\u2028separator",
    "--> <!-- ${window.hacked = 3}",
)
SHOWN = r"two\nlines\tand \x1b[31mESC"  # control characters in writing


def make_report(path: Path, media: Path | None = None, embed: bool = False) -> Path:
    scores = np.eye(len(NAMES))
    recording = Recording(
        name=NAMES[1],
        file=NAMES[1],
        classes=NAMES,
        rule=ShownRule("softmax", 0.5, NAMES[2]),
        rows=packed_rows(np.arange(len(NAMES)).tolist(), 1.0, as_bytes(scores)),
        segments=[(index, index + 1.0, name, 1.0) for index, name in enumerate(NAMES)],
        model=NAMES[0],
        truth=[(0.0, 3.0, NAMES[3])],
        media=None if media is None else link_media(media, path, embed),
        figures=[(NAMES[0], NAMES[1], NAMES[3])],
    )
    write_recordings(path, [recording, recording])
    return path


def test_everything_shows_as_text(tmp_path: Path, open_page: OpenPage, artifacts: Path) -> None:
    page = open_page(make_report(tmp_path / "names.html"))
    assert page.evaluate("window.hacked") is None
    assert page.locator("script").count() == 2  # the data and ours
    assert page.locator("img").count() == 0
    assert page.locator("h1").inner_text() == NAMES[1]
    lanes = page.locator(".lane-name:not(.part)").all_inner_texts()
    assert lanes[:3] == list(NAMES[:3])
    assert SHOWN in lanes and SHOWN in page.locator(".long-table").inner_text()
    options = page.locator("#recording option").all_inner_texts()
    assert options == [f"{NAMES[1]} · {NAMES[0]}"] * 2
    assert page.evaluate("getComputedStyle(document.querySelector('.lane-name:not(.part)')).unicodeBidi") == "isolate"
    for index in range(len(NAMES)):
        page.locator("button.jump").nth(index).click()
        assert page.locator("#segment-label").input_value().split() == NAMES[index].replace("\n", "").split()
    page.screenshot(path=artifacts / "report-names.png", full_page=True)
    assert page.evaluate("window.hacked") is None


def test_the_saved_table_keeps_the_names(tmp_path: Path, open_page: OpenPage) -> None:
    from pipelines.datasets.own.annotation_csv import read_table

    page = open_page(make_report(tmp_path / "names.html"))
    with page.expect_download() as download:
        page.get_by_role("button", name="Save CSV").click()
    download.value.save_as(tmp_path / "labels.csv")
    events = read_table(tmp_path / "labels.csv").events
    assert [event.label for event in events] == 2 * list(NAMES)
    assert {event.file for event in events} == {NAMES[1]}


@pytest.mark.parametrize("embed", [False, True])
def test_media_with_a_strange_name_plays(tmp_path: Path, open_page: OpenPage, embed: bool) -> None:
    media = write_sound(tmp_path / "sub" / "a \"<b>' #1?&100%.wav", seconds=3.0)
    page = open_page(make_report(tmp_path / "report #1.html", media, embed))
    until(page, "document.querySelector('audio').duration > 2.9")
    assert page.locator(".media .note").is_hidden()


def test_what_a_browser_cannot_play_is_said(tmp_path: Path, open_page: OpenPage) -> None:
    media = write_sound(tmp_path / "gone.wav", seconds=1.0)
    path = make_report(tmp_path / "report.html", media)
    media.write_bytes(b"no sound at all")
    page = open_page(path)
    page.locator(".media .note").wait_for(state="visible")
    assert "cannot play gone.wav (wav, pcm_16)" in page.locator(".media .note").inner_text()
    assert page.locator("button.jump").count() == len(NAMES)


def test_data_cannot_leave_their_element() -> None:
    text = safe_json({"name": "</script>\u2028\u2029<!--&\ud800"})
    assert not {"<", ">", "&", "\u2028", "\u2029"} & set(text)
    text.encode("utf-8")
