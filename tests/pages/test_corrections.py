"""Corrections under many edits, and pages of videos."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.pages.media import link_media
from pipelines.pages.packing import as_bytes, packed_rows
from pipelines.pages.recording import Recording, ShownRule, write_recordings
from pipelines.pages.strip import media_strip
from tests.features.made_recordings import write_video
from tests.pages.conftest import OpenPage, until

CLASSES = ("a", "b")
# Random edits of a list, and what must hold after each: order, bounds, no overlap where labels exclude each other.
EDITS = """([single, seed]) => {
  let state = seed;
  const random = () => (state = (state * 16807) % 2147483647) / 2147483647;
  const first = [{start: 1, end: 2, label: "a", score: 1}, {start: 4, end: 9, label: "b", score: 1}];
  const list = new SegmentList(first, {single, end: 20});
  const right = () => list.items.every((item, index) => {
    const before = list.items[index - 1];
    return item.start >= 0 && item.end <= 20 && item.end > item.start &&
      (!before || before.start <= item.start) && (!single || !before || before.end <= item.start + 1e-9);
  });
  for (let edit = 0; edit < 400; edit++) {
    const kind = Math.floor(random() * 6), index = Math.floor(random() * list.items.length);
    if (kind === 0) list.add(random() * 22, random() * 22, "a");
    else if (kind === 1) list.undo();
    else if (kind === 2) list.redo();
    else if (!list.items.length) continue;
    else if (kind === 3 && random() < 0.5) list.remove(index);
    else list.change(index, {[["start", "end"][kind % 2]]: random() * 24 - 2});
    if (!right()) return `edit ${edit}: ${JSON.stringify(list.items)}`;
  }
  while (list.past.length) list.undo();
  return JSON.stringify(list.items.map((item) => [item.start, item.end, item.label]));
}"""


def write_report(path: Path, kind: str = "softmax", **more: Any) -> Path:
    rows = packed_rows(np.arange(8).tolist(), 1.0, as_bytes(np.full((8, 2), 0.6)))
    segments = [(0.0, 8.0, "a", 0.6), (2.0, 6.0, "b", 0.6)] if kind == "sigmoid" else [(0.0, 8.0, "a", 0.6)]
    write_recordings(path, [Recording("r", "r.wav", CLASSES, ShownRule(kind, 0.5, "0.50"), rows, segments, **more)])
    return path


@pytest.mark.parametrize("single", [True, False])
def test_no_edit_breaks_the_list_and_undo_goes_all_the_way(tmp_path: Path, open_page: OpenPage, single: bool) -> None:
    page = open_page(write_report(tmp_path / "r.html"))
    for seed in range(1, 9):
        assert page.evaluate(EDITS, [single, seed]) == '[[1,2,"a"],[4,9,"b"]]'


def test_labels_at_once_stand_in_rows_of_their_own(tmp_path: Path, open_page: OpenPage) -> None:
    page = open_page(write_report(tmp_path / "r.html", "sigmoid"))
    assert page.evaluate("report.view.timeline.rows.find((row) => row.part === 'segments').height") == 48
    page.locator("#threshold").fill("0.7")
    assert page.locator("button.jump").count() == 0
    assert page.get_by_text("No segment: lower the threshold, or add one.").is_visible()
    page.locator(".timeline-box").focus()
    page.keyboard.press("a")
    assert page.locator("#segment-label").input_value() == "a"
    assert page.evaluate("report.table('')") == "file,start,end,label\nr.wav,0,1,a\n"


def test_a_recording_without_segments_is_a_line(tmp_path: Path, open_page: OpenPage) -> None:
    page = open_page(write_report(tmp_path / "r.html"))
    page.locator("button.jump").first.click()
    page.get_by_role("button", name="Delete").click()
    assert page.evaluate("report.table('')") == "file,start,end,label\nr.wav,,,\n"


def write_webm(path: Path) -> Path:
    """Three seconds of a moving bar."""
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream("libvpx", rate=10)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        for index in range(30):
            image = np.zeros((64, 96, 3), np.uint8)
            image[:, 3 * index : 3 * index + 8] = 220
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, "rgb24")))
        container.mux(stream.encode(None))
    return path


def test_a_video_plays_under_its_pictures(tmp_path: Path, open_page: OpenPage, artifacts: Path) -> None:
    media = write_webm(tmp_path / "bar.webm")
    link = link_media(media, tmp_path / "r.html")
    page = open_page(write_report(tmp_path / "r.html", media=link, strip=media_strip(media, link)))
    until(page, "document.querySelector('video').duration > 2.5")
    page.get_by_role("button", name="Play or pause").click()
    until(page, "report.view.timeline.cursor > 0.2")
    assert page.evaluate("report.view.timeline.strip.images.length") == 3
    page.screenshot(path=artifacts / "report-video.png", full_page=True)


def test_a_video_that_browsers_do_not_know(tmp_path: Path, open_page: OpenPage) -> None:
    media = write_video(tmp_path / "old.avi", seconds=1.0, audio=False)
    link = link_media(media, tmp_path / "r.html")
    page = open_page(write_report(tmp_path / "r.html", media=link))
    page.locator(".media .note").wait_for(state="visible")
    assert "This browser cannot play old.avi (avi, mpeg4)" in page.locator(".media .note").inner_text()
