"""What pages are told: rings that forget, messages after a number, states, sound and pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import InputError
from pipelines.features.media import AudioBlock, VideoFrame
from pipelines.serving.hub import LiveHub
from pipelines.serving.ring import Ring
from pipelines.serving.sound import STEP, SoundLevel
from pipelines.serving.track import RECENT_ROWS
from pipelines.streaming import SourceEnded, StreamModel, find_sources
from pipelines.streaming.output.summary import Statistics
from tests.serving.live_client import spoken
from tests.streaming.made_streams import CLASSES, small_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> StreamModel:
    return small_model(tmp_path_factory.mktemp("model"))


def hub_of(model: StreamModel, *names: str, models: int = 1) -> LiveHub:
    return LiveHub(find_sources(names), [model] * models)


def told(hub: LiveHub, number: int = 0) -> Any:
    hub.collect(True)
    return json.loads(hub.since(number))


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(0, 40), st.integers(1, 8))
def test_a_ring_gives_what_came_after_a_number_or_says_that_it_cannot(steps: list[int], heard: int, most: int) -> None:
    ring, number, all_items = Ring(most), 1, []
    for place, step in enumerate(steps):
        number += step
        ring.add(number, str(place))
        all_items.append((number, str(place)))
    missing, texts = ring.since(heard)
    wanted = [text for at, text in all_items if at > heard]
    kept = [text for _, text in all_items[-most:]]
    assert missing == (not set(wanted) <= set(kept))
    assert texts == (kept if missing else wanted)


def test_a_late_page_gets_the_recent_past_and_a_current_one_only_what_is_new(model: StreamModel) -> None:
    hub = hub_of(model, "a.wav")
    for index in range(3):
        hub.predicted(spoken(index))
    assert told(hub)["rows"]["0"] == [
        0,
        [
            [0.0, 0.25, 1, 3, 12.3, [1, 800, 0, 50, 2, 50, 3, 50, 4, 50]],
            [0.25, 0.5, 1, 1, 12.3, [1, 800, 0, 50, 2, 50, 3, 50, 4, 50]],
            [0.5, 0.75, 1, 0, 12.3, [1, 800, 0, 50, 2, 50, 3, 50, 4, 50]],
        ],
    ]
    heard = hub.number
    hub.predicted(spoken(3, label=None))
    assert [row[:3] for row in told(hub, heard)["rows"]["0"][1]] == [[0.75, 1.0, -1]]
    assert len(told(hub)["rows"]["0"][1]) == 4
    assert not hub.collect(True)  # nothing new is no message
    assert "rows" not in told(hub, hub.number)


def test_the_past_is_bounded_and_a_page_that_missed_some_of_it_is_told_so(model: StreamModel) -> None:
    hub = hub_of(model, "a.wav")
    hub.predicted(spoken(0))
    hub.collect(True)
    heard = hub.number
    for index in range(1, RECENT_ROWS + 10):
        hub.predicted(spoken(index))
        if index % 100 == 0:
            hub.collect(True)
    missing, rows = told(hub, heard)["rows"]["0"]
    assert missing == 1
    assert len(rows) == RECENT_ROWS
    assert rows[-1][0] == pytest.approx(0.25 * (RECENT_ROWS + 9))


def test_rows_that_nobody_collects_are_bounded_too(model: StreamModel) -> None:
    hub = hub_of(model, "a.wav")
    for index in range(3 * RECENT_ROWS):
        hub.predicted(spoken(index))
    _, rows = told(hub)["rows"]["0"]
    assert [rows[0][0], rows[-1][0]] == [0.25 * 2 * RECENT_ROWS, 0.25 * (3 * RECENT_ROWS - 1)]


class Asked:
    """Notes what a page asks of a stream."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, bool | None]] = []

    def pause_source(self, number: int, paused: bool = True) -> None:
        self.calls.append((number, paused))

    def stop_source(self, number: int) -> None:
        self.calls.append((number, None))


def test_states_of_sources_watched_by_two_models(model: StreamModel) -> None:
    hub = hub_of(model, "a.wav", "b.wav", models=2)
    assert not hub.pause(0, True)  # nothing plays yet
    hub.controls = asked = Asked()
    assert told(hub)["states"] == {"0": "waiting", "1": "waiting"}
    hub.predicted(spoken(0, source=2))
    assert told(hub)["states"] == {"0": "waiting", "1": "playing"}
    assert hub.pause(1, True)
    assert told(hub)["states"]["1"] == "paused"
    assert hub.pause(1, False)
    assert hub.stop(0)
    assert not hub.stop(0)
    assert not hub.pause(0, True)
    assert told(hub)["states"] == {"0": "stopping", "1": "playing"}
    hub.ended(SourceEnded(0, "a.wav", None))
    assert told(hub)["states"]["0"] == "stopping"  # the other model still speaks of it
    hub.ended(SourceEnded(1, "a.wav", None))
    hub.ended(SourceEnded(2, "b.wav", InputError("/home/me/b.wav: broken")))
    hub.ended(SourceEnded(3, "b.wav", InputError("/home/me/b.wav: broken")))
    assert told(hub)["states"] == {"0": "stopped", "1": "failed"}
    assert asked.calls == [(2, True), (2, False), (0, None)]
    assert not hub.pause(1, True)
    hub.finish()
    assert told(hub)["over"] is True
    assert "/home" not in hub.since(0) + hub.hello()


def test_what_a_page_must_know_names_no_path(tmp_path: Path) -> None:
    model = small_model(tmp_path)
    hub = LiveHub(find_sources([str(tmp_path / "a.wav"), "rtsp://me:word@cam/key"]), [model])
    hello = json.loads(hub.hello())
    assert [source["name"] for source in hello["sources"]] == ["a.wav", "rtsp://cam"]
    assert [(track["source"], track["model"]) for track in hello["tracks"]] == [
        (0, "rows.safetensors"),
        (1, "rows.safetensors"),
    ]
    assert hello["tracks"][0]["classes"] == list(CLASSES)
    assert str(tmp_path) not in hub.hello()
    assert "word" not in hub.hello()


def test_figures_speak_of_pace_latency_and_what_was_lost(model: StreamModel) -> None:
    hub = hub_of(model, "a.wav")
    statistics = Statistics(["a.wav"])
    hub.begin(statistics)
    statistics.predicted(0, [0.25], [0.010], True)
    statistics.dropped(0, 3)
    hub.predicted(spoken(0))
    (figures,) = told(hub)["numbers"]
    assert figures["frames"] == 1
    assert figures["dropped"] == 3
    assert figures["p50_ms"] == pytest.approx(10, rel=0.1)
    assert figures["pace"] is None  # of one moment
    assert figures["failed"] is False


@pytest.mark.parametrize("size", [1, 100, 733, 8000])
def test_peaks_of_sound_are_those_of_the_whole_in_pieces_of_any_size(size: int) -> None:
    samples = np.random.default_rng(0).normal(size=8000).astype(np.float32) * 0.2
    level = SoundLevel()
    for begin in range(0, len(samples), size):
        level.played(AudioBlock(samples[begin : begin + size], 8000, 0.0), 2.0 + begin / 8000)
    level.played(AudioBlock(np.array([np.nan, 7.0], np.float32), 8000, 0.0), 3.0)
    level.played(AudioBlock(np.zeros(1, np.float32), 8000, 0.0), 3.1)
    assert level.collect(1)
    values = json.loads(level.since(0) or "")
    first = round(2.0 / STEP)
    pairs = dict(zip(values[0::2], values[1::2], strict=True))
    whole = [round(1000 * float(peak)) for peak in np.abs(samples).reshape(-1, round(STEP * 8000)).max(axis=1)]
    for stretch, peak in enumerate(whole, first):
        assert pairs[stretch] == pytest.approx(min(1000, peak), abs=1)
    assert level.since(1) is None


def test_pictures_are_made_when_somebody_looks(model: StreamModel) -> None:
    hub = hub_of(model, "a.mp4")
    made = []

    def picture() -> np.ndarray[Any, Any]:
        made.append(1)
        return np.full((720, 1280, 3), 200, np.uint8)

    for _ in range(20):
        hub.played(0, VideoFrame(0.0, 0.04, picture), 0.0)
    hub.collect(False)
    assert not made
    assert told(hub)["pictures"]["0"].startswith("/9j/")  # a JPEG
    assert len(made) == 1
    assert len(hub.since(0)) < 20_000  # a small one
    hidden = LiveHub(find_sources(["a.mp4"]), [model], pictures=False)
    hidden.played(0, VideoFrame(0.0, 0.04, picture), 0.0)
    assert "pictures" not in told(hidden)
