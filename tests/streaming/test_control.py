"""Pausing and ending single sources while others play."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Timer

import numpy as np
import pytest

from pipelines.errors import InputError
from pipelines.streaming import PlayOptions, Prediction, PredictionOptions, SourceEnded, Stream, find_sources
from pipelines.streaming.messages import StoppedError
from pipelines.streaming.playing.control import SourceControl
from pipelines.streaming.playing.rota import Rota, take_turns
from pipelines.streaming.playing.turns import Bell, Turns
from pipelines.streaming.several_models import SeveralModels
from tests.streaming.made_streams import chirp, played, scores_of, small_model, write_rows, write_sound, write_video
from tests.streaming.rtsp_server import rtsp_server

PAUSE = 0.4  # seconds


def stood_still(control: SourceControl) -> float:
    """The seconds that a source stands still in a thread of its own."""
    seconds: list[float] = []

    def turns() -> Turns[None]:
        seconds.append((yield from control.stand_still()))

    take_turns(Rota({0: turns()}, Bell()))
    return seconds[0]


def test_a_source_that_stands_still_goes_on_or_ends() -> None:
    control = SourceControl()
    assert stood_still(control) == 0.0
    control.pause()
    Timer(0.05, control.pause, [False]).start()
    assert stood_still(control) > 0.0
    control.pause()
    assert control.paused
    Timer(0.05, control.stop.set).start()
    with pytest.raises(StoppedError):
        stood_still(control)
    assert not control.paused


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("kind", ["rows", "sound"])
def test_a_pause_loses_nothing_of_a_file(tmp_path: Path, kind: str, fast: bool) -> None:
    if kind == "rows":
        path, model = tmp_path / "a.npy", small_model(tmp_path)
        write_rows(path, 12)
    else:
        path, model = write_sound(tmp_path / "a.wav", 1.2), small_model(tmp_path, "logmel")
    whole = played([path], model)
    predictions: list[Prediction] = []
    with Stream(
        find_sources([str(path)]), model, PlayOptions(fast=fast, hop=0.1 if kind == "rows" else None)
    ) as stream:
        stream.pause_source(0)
        begin = time.monotonic()
        Timer(PAUSE, stream.pause_source, [0, False]).start()
        for prediction in stream:
            if not predictions:
                assert time.monotonic() - begin >= PAUSE  # nothing came before it went on
            predictions.append(prediction)
    np.testing.assert_allclose(scores_of(predictions), scores_of(whole), atol=1e-5)
    assert [prediction.index for prediction in predictions] == list(range(12))
    assert stream.summary().dropped == 0


def test_a_live_source_goes_on_with_the_present_and_a_new_window(tmp_path: Path) -> None:
    model = small_model(tmp_path, "logmel")
    predictions: list[Prediction] = []
    with (
        rtsp_server(chirp(60.0, 16_000), [None]) as server,
        Stream(find_sources([server.address]), model, PlayOptions()) as stream,
    ):
        for prediction in stream:
            predictions.append(prediction)
            if len(predictions) == 3:
                stream.pause_source(0)
                Timer(3 * PAUSE, stream.pause_source, [0, False]).start()
            if prediction.restart and prediction.index:
                break
    gap = predictions[-1].index - predictions[-2].index
    assert gap > 3  # rows of 0.1 s that passed meanwhile
    assert predictions[-1].warmup
    assert predictions[-1].time == pytest.approx(predictions[-2].time + 0.1 * gap, abs=0.01)
    assert stream.summary().dropped == 0


@pytest.mark.parametrize("paused", [True, False])
def test_one_source_ends_and_the_others_play_on(tmp_path: Path, paused: bool) -> None:
    paths = [tmp_path / f"{index}.npy" for index in range(3)]
    for index, path in enumerate(paths):
        write_rows(path, 30, index)
    model = small_model(tmp_path)
    events: list[Prediction | SourceEnded] = []
    options = PlayOptions(hop=0.02, at_once=2)  # the third waits for its turn
    with Stream(find_sources([str(path) for path in paths]), model, options) as stream:
        stream.stop_source(2)
        for event in stream.events():
            events.append(event)
            if isinstance(event, Prediction) and event.source_number == 1 and event.index == 4:
                if paused:
                    stream.pause_source(1)
                stream.stop_source(1)
    ended = {event.number: event.error for event in events if isinstance(event, SourceEnded)}
    assert ended == {0: None, 1: None, 2: None}
    counts = [
        sum(isinstance(prediction, Prediction) and prediction.source_number == number for prediction in events)
        for number in range(3)
    ]
    assert counts[0] == 30
    assert 5 <= counts[1] < 30
    assert counts[2] == 0


def test_several_models_stand_still_together(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", 1.0)
    models = [small_model(tmp_path, features, hop=0.1) for features in ("logmel", "efficientnet_lite0")]
    stream = SeveralModels(find_sources([str(path)]), models, PlayOptions(fast=True), PredictionOptions())
    stream.pause_source(1)
    Timer(PAUSE, stream.pause_source, [0, False]).start()
    predictions = [event for event in stream.events() if isinstance(event, Prediction)]
    for number, model in enumerate(models):
        np.testing.assert_allclose(scores_of(predictions, number), scores_of(played([path], model)), atol=1e-5)


def test_stopping_both_models_of_a_source(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", 1.0)
    models = [small_model(tmp_path, features, hop=0.1) for features in ("logmel", "efficientnet_lite0")]
    stream = SeveralModels(find_sources([str(path)]), models, PlayOptions(loop=True), PredictionOptions())
    numbers = []
    for event in stream.events():
        if isinstance(event, SourceEnded):
            numbers.append(event.number)
        else:
            stream.stop_source(event.source_number)
    assert sorted(numbers) == [0, 1]


def test_a_source_that_cannot_be_played_says_so_even_when_it_was_stopped(tmp_path: Path) -> None:
    with Stream(find_sources([str(tmp_path / "none.wav")]), small_model(tmp_path)) as stream:
        stream.stop_source(0)
        with pytest.raises(InputError, match="no such file"):
            list(stream)


def test_media_are_told_at_the_time_of_their_rows_when_a_source_plays_again(tmp_path: Path) -> None:
    path, model = write_sound(tmp_path / "a.wav", 0.5), small_model(tmp_path, "logmel")
    pieces: list[tuple[float, float]] = []  # media time, time in the output
    options = PlayOptions(fast=True, loop=True)
    told = lambda _, item, moment: pieces.append((item.time, moment))  # noqa: E731
    with Stream(find_sources([str(path)]), model, options, on_media=told) as stream:
        for prediction in stream:
            if prediction.index == 14:  # five rows in each turn
                break
    begins = [moment for media, moment in pieces if media == 0.0]
    assert begins[:3] == pytest.approx([0.0, 0.5, 1.0])
    assert all(moment - media in begins for media, moment in pieces)
