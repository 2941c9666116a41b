"""Sources of every kind on the live page: folders, addresses with passwords, several models, what fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.streaming import StreamModel
from tests.serving.live_client import Events, ServerEvent, ask, own_host, rows_of
from tests.serving.running import Running, running
from tests.streaming.made_streams import chirp, small_model, write_sound, write_video
from tests.streaming.rtsp_server import rtsp_server


@pytest.fixture(scope="module")
def listening(tmp_path_factory: pytest.TempPathFactory) -> StreamModel:
    return small_model(tmp_path_factory.mktemp("sound"), "logmel")


def heard(live: Running, wanted: str) -> list[ServerEvent]:
    return Events(live.server).until(wanted)


def test_a_folder_is_a_source_for_each_file_without_its_path(tmp_path: Path, listening: StreamModel) -> None:
    for name in ("day1/a.wav", "day2/a.wav", "b.wav"):
        (tmp_path / "talks" / name).parent.mkdir(parents=True, exist_ok=True)
        write_sound(tmp_path / "talks" / name, 0.5)
    (tmp_path / "talks" / "broken.wav").write_bytes(b"RIFF no sound")
    with running([tmp_path / "talks", tmp_path / "none.wav"], [listening], fast=True, loop=False) as live:
        live.thread.join()
        events = heard(live, "over")
    names = [source["name"] for source in events[0].data["sources"]]
    assert sorted(names) == ["a.wav (1)", "a.wav (2)", "b.wav", "broken.wav", "none.wav"]
    states = {names[int(place)]: state for event in events for place, state in event.data.get("states", {}).items()}
    assert states["b.wav"] == states["a.wav (1)"] == states["a.wav (2)"] == "ended"
    assert states["broken.wav"] == states["none.wav"] == "failed"
    everything = json.dumps([event.data for event in events])
    for secret in (str(tmp_path), "talks", "day1", "no such file"):
        assert secret not in everything
    assert len(rows_of(events, names.index("b.wav"))) == 5


def test_passwords_and_keys_of_addresses_are_never_told(listening: StreamModel) -> None:
    with rtsp_server(chirp(30.0, 16_000), [None]) as server:
        address = f"rtsp://admin:pass-word@127.0.0.1:{server.port}/stream-key?token=qu-ery"
        gone = "rtsp://other:se-cret@127.0.0.1:9/live"
        with running([address, gone], [listening], loop=False, reconnects=0) as live:
            events = Events(live.server)
            seen: list[ServerEvent] = []
            while not rows_of(seen) or not any(event.data.get("states", {}).get("1") == "failed" for event in seen):
                seen.append(next(iter(events)))
            page = ask(live.server, "/", host=own_host(live.server)).body.decode()
    assert [source["name"] for source in seen[0].data["sources"]] == [
        f"rtsp://127.0.0.1:{server.port}",
        "rtsp://127.0.0.1:9",
    ]
    everything = json.dumps([event.data for event in seen]) + page
    for secret in ("admin", "pass-word", "stream-key", "qu-ery", "other:", "se-cret"):
        assert secret not in everything


@pytest.mark.parametrize("order", [1, -1])
def test_two_models_share_the_sound_and_the_picture_of_a_source(
    tmp_path: Path, listening: StreamModel, order: int
) -> None:
    models = [listening, small_model(tmp_path, "efficientnet_lite0", hop=0.2)][::order]
    with running([write_video(tmp_path / "film.mp4", 1.0)], models, fast=True, loop=False) as live:
        live.thread.join()
        events = heard(live, "pictures")
    hello = events[0].data
    assert [track["model"] for track in hello["tracks"]] == [
        f"{name}.safetensors" for name in ("logmel", "efficientnet_lite0")
    ][::order]
    assert [track["source"] for track in hello["tracks"]] == [0, 0]
    counts = [len(rows_of(events, track)) for track in (0, 1)][::order]
    assert counts == [10, 5]
    stretches = [value for event in events for value in event.data.get("sound", {}).get("0", [])[0::2]]
    assert stretches == sorted(set(stretches))  # heard once, not by both
    assert len(stretches) >= 18


def test_a_page_that_is_open_when_pictures_are_not_wanted(tmp_path: Path) -> None:
    watching = small_model(tmp_path, "efficientnet_lite0", hop=0.2)
    with running([write_video(tmp_path / "film.mp4", 1.0)], [watching], pictures=False, fast=True, loop=False) as live:
        live.thread.join()
        events = heard(live, "over")
    assert len(rows_of(events)) == 5
    assert not any("pictures" in event.data for event in events)
