"""Network sources that stop and return: HTTP and RTSP servers that run in the test."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipelines.errors import InputError
from pipelines.streaming import PlayOptions, Stream, StreamModel, find_sources
from pipelines.streaming.messages import Remark
from pipelines.streaming.predicting.prediction import Prediction
from tests.features.made_media import AudioTrackOptions, write_media
from tests.file_server import file_server
from tests.streaming.flaky_server import Script, serving
from tests.streaming.made_streams import chirp, played, scores_of, small_model, step_by_step, write_sound
from tests.streaming.rtsp_server import RtspServer, rtsp_server

HOP = 0.1


@pytest.fixture
def model(tmp_path: Path) -> StreamModel:
    return small_model(tmp_path, "logmel", hop=HOP)


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.streaming.playing.player.FIRST_DELAY", 0.05)


def listened(address: str, model: StreamModel, **play: object) -> tuple[list[Prediction], list[str], Stream]:
    remarks: list[str] = []
    options = PlayOptions(fast=True, **play)  # type: ignore[arg-type]
    with Stream(
        find_sources([address]), model, options, on_remark=lambda remark: remarks.append(remark.text)
    ) as stream:
        return list(stream), remarks, stream


def test_a_server_that_stops_in_the_middle_of_a_file_and_returns(tmp_path: Path, model: StreamModel) -> None:
    sound = write_sound(tmp_path / "a.wav", 3.0)
    data = sound.read_bytes()
    script = Script(data, [len(data) // 2, None], refused=1)
    with serving(script) as address:
        predictions, remarks, stream = listened(address, model)
    with step_by_step():  # as a source that cannot be played again is taken
        expected = played([sound], model)
    np.testing.assert_allclose(scores_of(predictions), scores_of(expected), atol=1e-6)
    assert [prediction.index for prediction in predictions] == list(range(30))
    assert remarks[0].startswith("connection lost (")
    assert remarks[-1].endswith("nothing is lost")
    assert stream.summary().sources[0]["reconnects"] == 1


def test_a_live_stream_that_stops_and_returns_restarts_its_window(tmp_path: Path, model: StreamModel) -> None:
    audio = AudioTrackOptions("mp2", 16_000, "mono", samples=chirp(2.0, 16_000)[None], format="s16")
    data = write_media(tmp_path / "a.ts", None, audio).read_bytes()
    script = Script(data, [None], stated=False)
    remarks: list[str] = []
    options = PlayOptions(reconnects=5, late="wait")
    first: list[Prediction] = []
    with serving(script, "live.ts") as address:
        sources = find_sources([address])
        with Stream(sources, model, options, on_remark=lambda remark: remarks.append(remark.text)) as stream:
            for prediction in stream:
                first.append(prediction)
                if prediction.restart and prediction.index:
                    break
    assert any("the window restarts" in remark for remark in remarks)
    assert first[0].restart
    assert first[-1].warmup
    indexes = [prediction.index for prediction in first]
    assert indexes == sorted(set(indexes))
    # The first rows after the gap are those of a new window.
    np.testing.assert_allclose(first[-1].scores, first[0].scores, atol=1e-5)


def heard(
    server: RtspServer, model: StreamModel, rows_after: int, **play: object
) -> tuple[list[Prediction], list[str]]:
    """What an RTSP address gives until some rows after its return, and what was said meanwhile."""
    remarks: list[str] = []
    predictions: list[Prediction] = []
    options = PlayOptions(late="wait", **play)  # type: ignore[arg-type]

    def on_remark(remark: Remark) -> None:
        remarks.append(remark.text)
        if "Connection refused" in remark.text:
            server.come_back()

    with Stream(find_sources([server.address]), model, options, on_remark=on_remark) as stream:
        for prediction in stream:
            predictions.append(prediction)
            returned = next(
                (place for place, prediction in enumerate(predictions) if prediction.restart and place),
                len(predictions),
            )
            if len(predictions) - returned > rows_after:
                break
    assert stream.summary().sources[0]["reconnects"] == 1
    return predictions, remarks


def check_return(predictions: list[Prediction], first: int, model: StreamModel, sound: Path) -> None:
    """`first` rows, a gap that index and time count, and then the same sound in a window that restarted."""
    alone = played([sound], model)
    before, after = predictions[:first], predictions[first:]
    assert [prediction.index for prediction in before] == list(range(first))
    assert [prediction.index for prediction in after] == list(range(after[0].index, after[0].index + len(after)))
    assert after[0].index > first
    assert [prediction.time for prediction in predictions] == pytest.approx(
        [HOP * (prediction.index + 1) for prediction in predictions]
    )
    assert [prediction.restart for prediction in predictions] == [
        place in (0, first) for place in range(len(predictions))
    ]
    for part in (before, after):
        assert [prediction.warmup for prediction in part] == [place < model.window - 1 for place in range(len(part))]
        np.testing.assert_allclose(scores_of(part), scores_of(alone)[: len(part)], atol=1e-5)


def test_an_rtsp_server_that_stops_and_returns(tmp_path: Path, model: StreamModel) -> None:
    sound = write_sound(tmp_path / "a.wav", 3.0)
    with rtsp_server(chirp(3.0, 16_000), [50, None], away=60.0) as server:  # 1 s, and then the server is gone
        predictions, remarks = heard(server, model, rows_after=8)
    check_return(predictions, 10, model, sound)
    assert remarks[0] == "connection lost (the connection ended): trying again in 0.05 s"
    assert any("Connection refused" in remark for remark in remarks[1:-1])
    assert remarks[-1].startswith("connected again after a gap of ")
    assert remarks[-1].endswith(": the window restarts")


def test_an_rtsp_server_that_falls_silent(tmp_path: Path, model: StreamModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.features.media.container.READ_TIMEOUT", 3.0)
    sound = write_sound(tmp_path / "a.wav", 3.0)
    with rtsp_server(chirp(3.0, 16_000), [50, None], silent=True) as server:
        predictions, remarks = heard(server, model, rows_after=3)
    check_return(predictions, 10, model, sound)
    assert "nothing came for too long" in remarks[0]


def test_a_server_that_stays_away_is_given_up(tmp_path: Path, model: StreamModel) -> None:
    data = write_sound(tmp_path / "a.wav", 2.0).read_bytes()
    with (
        serving(Script(data, [len(data) // 2], refused=99)) as address,
        pytest.raises(InputError, match=r"was lost .* and did not come back in 3 attempts"),
    ):
        listened(address, model, reconnects=3)


def test_an_address_that_was_never_there(model: StreamModel) -> None:
    with pytest.raises(InputError, match="cannot be opened"):
        listened("http://127.0.0.1:9/a.wav", model)


def test_an_mp4_with_its_index_at_the_end_from_a_server_that_does_not_seek(tmp_path: Path, model: StreamModel) -> None:
    """One line that says what helps, at once: trying again would give the same."""
    sound = write_media(tmp_path / "a.mp4", None, AudioTrackOptions(samples=np.stack([chirp(9.0, 44_100)] * 2)))
    with file_server(sound.read_bytes(), "a.mp4") as server:
        server.behaviour.ranges = False
        with pytest.raises(InputError, match=r"does not take Range requests: download it first"):
            listened(server.url, model)
        assert len(server.behaviour.requests) == 1
        server.behaviour.ranges = True
        assert len(listened(server.url, model)[0]) == 90
