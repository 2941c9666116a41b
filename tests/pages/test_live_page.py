"""The live page in a browser: real streams, two sources, pause and stop, a server that comes back, strange names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pipelines.checkpoints.checkpoint import save_checkpoint
from pipelines.model import ContinualTransformer, ModelConfig
from pipelines.streaming import StreamModel, open_model
from tests.pages.conftest import OpenPage, until
from tests.serving.running import running
from tests.streaming.made_streams import CLASSES, WIDTH, small_model, write_rows, write_sound, write_video

REFUSED = "ERR_CONNECTION_REFUSED"  # what a browser says of a server that is away
# Markup, quotes, a line end, ESC, right-to-left override and letters.
HOSTILE = "<img src=x onerror=alert(1)>\"'&amp;\n\x1b[31m\u202eabc\u05d0\u05d1\u2028"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> StreamModel:
    return small_model(tmp_path_factory.mktemp("rows"))


@pytest.fixture(scope="module")
def listening(tmp_path_factory: pytest.TempPathFactory) -> StreamModel:
    return small_model(tmp_path_factory.mktemp("sound"), "logmel")


@pytest.fixture
def two(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "first.npy", tmp_path / "second.npy"]
    for seed, path in enumerate(paths):
        write_rows(path, 40, seed)
    return paths


def rows(page: Any, card: int = 0) -> int:
    """How many rows a card's timeline holds."""
    return int(page.evaluate(f"live.sources[{card}].tracks[0].timeline.scores.length"))


def more_rows(page: Any, card: int = 0) -> None:
    until(page, f"live.sources[{card}].tracks[0].timeline.scores.length > {rows(page, card)}")


def states(page: Any) -> list[str]:
    return page.locator(".live-state").all_inner_texts()


def test_two_sources_are_shown_while_they_play(
    two: list[Path], model: StreamModel, open_page: OpenPage, artifacts: Path
) -> None:
    with running(two, [model], hop=0.05) as live:
        page = open_page(live.address)
        assert page.locator(".live-source h2").all_inner_texts() == ["first.npy", "second.npy"]
        for card in (0, 1):
            more_rows(page, card)
        assert states(page) == ["playing", "playing"]
        assert page.locator(".live-label strong").first.inner_text() in CLASSES
        until(page, "document.querySelector('.live-figures').textContent.includes('real time')")
        assert "latency" in page.locator(".live-figures").first.inner_text()
        newest = page.evaluate("live.sources[0].tracks[0].newest")
        assert len(newest[5]) >= 2
        page.screenshot(path=artifacts / "live-light.png")


def test_a_source_is_paused_goes_on_and_is_stopped(two: list[Path], model: StreamModel, open_page: OpenPage) -> None:
    with running(two, [model], hop=0.05) as live:
        page = open_page(live.address)
        first = page.locator(".live-source").first
        first.get_by_role("button", name="Pause").click()
        until(page, "document.querySelector('.live-state').textContent === 'paused'")
        page.wait_for_timeout(300)  # what was on its way is there
        still = rows(page)
        more_rows(page, 1)
        more_rows(page, 1)
        assert rows(page) == still
        first.get_by_role("button", name="Resume").click()
        more_rows(page)
        first.get_by_role("button", name="Stop").click()
        assert states(page)[0] == "playing"  # it is asked for twice
        first.get_by_role("button", name="Really stop?").click()
        until(page, "document.querySelector('.live-state').textContent === 'stopped'")
        assert first.get_by_role("button", name="Pause").is_disabled()
        more_rows(page, 1)


def test_it_survives_a_restart_and_an_end(
    two: list[Path], model: StreamModel, listening: StreamModel, tmp_path: Path, open_page: OpenPage
) -> None:
    with running(two, [model], hop=0.05) as live:
        port = str(live.server.options.port)
        page = open_page(live.address, forgiven=REFUSED)
        more_rows(page)
    until(page, "document.querySelector('.live-status').textContent === 'The stream has ended'")
    assert states(page) == ["stopped", "stopped"]
    before = rows(page)
    assert before  # what was shown stays
    with running([write_sound(tmp_path / "third.wav", 2.0)], [listening], port) as live:
        until(page, "document.querySelector('.live-source h2').textContent === 'third.wav'", 60)
        more_rows(page)
        until(page, "document.querySelector('.live-status').textContent === 'Live'")
        until(page, "live.sources[0].tracks[0].timeline.strip.peaks.length > 20")  # its waveform
        assert page.locator(".live-source").count() == 1


def test_a_connection_that_breaks_loses_nothing(two: list[Path], model: StreamModel, open_page: OpenPage) -> None:
    with running(two, [model], hop=0.05) as live:
        page = open_page(live.address, forgiven="ERR_INTERNET_DISCONNECTED")
        more_rows(page)
        page.context.set_offline(True)
        page.evaluate("live.events.dispatchEvent(new Event('error'))")  # an open connection outlives this switch
        until(page, "document.querySelector('.live-status').dataset.state === 'lost'")
        kept = rows(page)
        page.wait_for_timeout(500)
        assert rows(page) == kept
        page.context.set_offline(False)
        more_rows(page)
        scores = "live.sources[0].tracks[0].timeline.scores"
        gaps = page.evaluate(
            f"Array.from({{length: {scores}.length - 1}}, (_, row) => {scores}.begins[row + 1] - {scores}.ends[row])"
        )
        assert max(abs(gap) for gap in gaps) < 1e-3
        until(page, "document.querySelector('.live-status').textContent === 'Live'")


def test_a_page_that_missed_too_much_begins_anew(two: list[Path], model: StreamModel, open_page: OpenPage) -> None:
    with running(two, [model], hop=0.05) as live:
        page = open_page(live.address)
        more_rows(page)
        page.evaluate("live.update({rows: {0: [1, [[1000, 1001, 0, 0, 5, [0, 900]]]]}})")
        assert rows(page) == 1
        assert page.evaluate("live.sources[0].tracks[0].timeline.scores.start") == 1000


def test_pictures_and_two_models_in_the_dark_on_a_phone(
    tmp_path: Path, listening: StreamModel, open_page: OpenPage, artifacts: Path
) -> None:
    watching = small_model(tmp_path, "efficientnet_lite0", hop=0.2)
    video = write_video(tmp_path / "film.mp4", 3.0, size=(320, 180))
    with running([video], [listening, watching], token="auto", address="0") as live:
        page = open_page(live.address, width=390, height=844, scheme="dark")
        assert "token" not in page.url
        until(page, "document.querySelector('.live-picture').naturalWidth === 320")
        assert page.locator(".live-track h3").all_inner_texts() == [
            "logmel.safetensors",
            "efficientnet_lite0.safetensors",
        ]
        for track in (0, 1):
            until(page, f"live.tracks[{track}].timeline.scores.length > 3")
        until(page, "live.sources[0].tracks[0].timeline.strip !== null")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")  # nothing sticks out
        page.screenshot(path=artifacts / "live-phone-dark.png", full_page=True)
        page.reload()  # by the cookie
        page.wait_for_selector("body[data-ready]")
        page.close()  # before the server: what a page that was just opened still asks for would be refused


def test_a_model_that_cannot_watch_a_source_says_so(
    tmp_path: Path, listening: StreamModel, open_page: OpenPage, artifacts: Path
) -> None:
    watching = small_model(tmp_path, "efficientnet_lite0", hop=0.2)
    with running([write_sound(tmp_path / "talk.wav", 4.0)], [watching, listening]) as live:
        page = open_page(live.address)
        until(page, "live.tracks[1].timeline.scores.length > 3")
        until(page, "live.tracks[0].failed")
        assert page.locator(".live-label").first.inner_text() == "Failed: the terminal says why"
        assert states(page) == ["playing"]
        page.screenshot(path=artifacts / "live-one-failed.png")


def test_where_none_of_the_classes_is_there_the_page_says_so(
    two: list[Path], model: StreamModel, open_page: OpenPage
) -> None:
    with running(two[:1], [model], hop=0.05) as live:
        page = open_page(live.address)
        more_rows(page)
        for label, grey in ((-1, True), (1, False)):
            # In one go: the next row of the stream would show its own label.
            classes, text = page.evaluate(
                """(label) => {
                    const [track] = live.tracks;
                    track.newest[2] = label;
                    track.show();
                    return [[...track.element.classList], document.querySelector(".live-label").innerText];
                }""",
                label,
            )
            assert ("none" in classes) == grey
            assert ("none of these" in text) == grey


def test_the_past_can_be_looked_at(two: list[Path], model: StreamModel, open_page: OpenPage) -> None:
    with running(two, [model], hop=0.05) as live:
        page = open_page(live.address)
        until(page, "live.sources[0].tracks[0].timeline.scores.length > 20")
        box = page.locator(".timeline-box").first
        size = box.bounding_box()
        box.click(position={"x": size["width"] - 2, "y": size["height"] - 10})
        label = page.locator(".live-label").first
        assert label.inner_text().startswith("at 0:")
        page.get_by_role("button", name="Back to now").first.click()
        assert not label.inner_text().startswith("at 0:")
        box.focus()
        page.keyboard.press("ArrowLeft")
        until(page, "document.querySelector('.live-label').textContent.startsWith('at ')")
        page.keyboard.press("Escape")
        until(page, "!document.querySelector('.live-label').textContent.startsWith('at ')")


def test_strange_names_are_text(tmp_path: Path, open_page: OpenPage, artifacts: Path) -> None:
    torch.manual_seed(0)
    sizes = {"width": 16, "heads": 2, "feed_forward": 16, "window": 4, "classes": 3}
    network = ContinualTransformer(ModelConfig(input_width=WIDTH, blocks=1, **sizes)).eval()
    folder = tmp_path / "secret-folder"
    folder.mkdir()
    checkpoint = folder / "<b>model.safetensors"
    save_checkpoint(checkpoint, network, [HOSTILE, f"{HOSTILE}2", "</script><script>alert(2)</script>"], None)
    source = folder / f"{HOSTILE.replace('/', '')}.npy"
    write_rows(source, 30)
    with running([source], [open_model(checkpoint)], hop=0.05) as live:
        page = open_page(live.address)
        more_rows(page)
        shown = page.locator(".live-source h2").inner_text()
        assert shown.startswith("<img src=x onerror=alert(1)>\"'&amp;\\n\\x1b[31m")
        names = page.locator(".live-bar-name").all_inner_texts()
        assert any(name.startswith(("<img", "</script>")) for name in names)
        assert page.locator(".live-source img[src=x], .live-source b, .live-source script").count() == 0
        assert page.locator("h1 b, .about b").count() == 0
        assert "<b>model.safetensors" in page.locator(".about").inner_text()
        assert "secret-folder" not in page.content()
        page.screenshot(path=artifacts / "live-names.png")
