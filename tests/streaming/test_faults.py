"""Streams that fail: each is handled, or ends with one clear line."""

from __future__ import annotations

import os
import threading
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from pipelines.errors import InputError, MissingDependencyError, UsageError
from pipelines.features.media import DamagedMediaError
from pipelines.streaming import PcmOptions, PlayOptions, PredictionOptions, Stream, StreamModel, find_sources
from pipelines.streaming.output.formats import JsonLines
from pipelines.streaming.output.sinks import FrameSink
from pipelines.streaming.predicting.prediction import Prediction
from tests.streaming.made_streams import played, scores_of, small_model, write_rows, write_sound, write_video

HOP = 0.1


@pytest.fixture
def model(tmp_path: Path) -> StreamModel:
    return small_model(tmp_path, "logmel", hop=HOP)


def test_a_file_that_is_damaged_half_way(tmp_path: Path, model: StreamModel) -> None:
    video = write_video(tmp_path / "a.mkv", 3.0)
    whole = scores_of(played([video], model))
    data = video.read_bytes()
    video.write_bytes(data[: len(data) * 2 // 3])
    predictions = []
    with (
        Stream(find_sources([str(video)]), model, PlayOptions(fast=True)) as stream,
        pytest.raises(DamagedMediaError, match="ends in the middle"),
    ):
        for prediction in stream:
            predictions.append(prediction)
    assert 5 < len(predictions) < 30
    np.testing.assert_allclose(scores_of(predictions)[:-2], whole[: len(predictions) - 2], atol=1e-5)


def test_devices_that_are_not_there(tmp_path: Path, model: StreamModel) -> None:
    with pytest.raises(MissingDependencyError, match=r"camera:77: /dev/video77 does not exist; .*camera"):
        played(["camera:77"], small_model(tmp_path, "mobilenet_v2"))
    with pytest.raises(InputError, match=r"camera:77: gives video, but the model takes audio: use mic: "):
        played(["camera:77"], model)
    with pytest.raises(InputError, match=r"mic:: gives audio, but .*: use camera:0 .* takes audio \(music-genre, "):
        played(["mic:"], small_model(tmp_path, "mobilenet_v2"))
    with pytest.raises(InputError, match=r"camera:0: gives pictures only, but the model takes sound and pictures"):
        played(["camera:0"], small_model(tmp_path, "mobilenet_v2+logmel"))
    if not Path("/dev/snd").exists():
        with pytest.raises(MissingDependencyError, match="mic: there is no sound card"):
            played(["mic:"], model)


def test_sources_and_options_that_mean_nothing(tmp_path: Path, model: StreamModel) -> None:
    write_rows(tmp_path / "rows.npy")
    (tmp_path / "empty").mkdir()
    (tmp_path / "list.txt").write_text("rows.npy\nabsent.wav\n")
    (tmp_path / "nothing.txt").write_text("# nothing\n")
    named = ["absent.mp4", "*.mp4", "empty", "list.txt", "nothing.txt"]
    chosen = find_sources([str(tmp_path / name) for name in named])
    problems = [str(source.problem).removeprefix(f"{tmp_path}/") for source in chosen]
    assert problems[:4] == [
        "absent.mp4: no such file",
        "*.mp4: no file matches",
        "empty: no audio, video or feature file in this folder",
        "None",
    ]
    assert problems[4] == f"absent.wav (in {tmp_path}/list.txt): no such file"
    assert problems[5].startswith("nothing.txt: no source was given")
    with pytest.raises(UsageError, match="only once"):
        find_sources(["-", "-"])
    with pytest.raises(UsageError, match="camera:0 cannot be played again"):
        played(["camera:0"], model, loop=True)
    with pytest.raises(UsageError, match="begins when it is opened"):
        played(["mic:"], model, start=2.0)


def test_a_pipe_that_stalls_does_not_hold_up_a_file(
    tmp_path: Path, model: StreamModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = write_sound(tmp_path / "a.wav", 2.0)
    read, write = os.pipe()
    with os.fdopen(read) as pipe, os.fdopen(write, "wb", buffering=0) as other_end:
        monkeypatch.setattr("sys.stdin", pipe)
        other_end.write(bytes(2 * 16_000))  # one second, and then nothing more for now
        options = PlayOptions(fast=True, pcm=PcmOptions(16_000))
        counts: dict[int, int] = {0: 0, 1: 0}
        with Stream(find_sources(["-", str(sound)]), model, options) as stream:
            for event in stream.events():
                if isinstance(event, Prediction):
                    counts[event.source_number] += 1
                elif event.number == 1:
                    assert counts[1] == 20  # the file is done while the pipe still waits
                    other_end.write(bytes(2 * 16_000))
                    other_end.close()
    assert counts == {0: 20, 1: 20}


def test_a_stream_plays_once(tmp_path: Path, model: StreamModel) -> None:
    with Stream(find_sources([str(write_sound(tmp_path / "a.wav", 0.5))]), model, PlayOptions(fast=True)) as stream:
        assert len(list(stream)) == 5
        with pytest.raises(UsageError, match="plays once"):
            list(stream)


def test_no_room_for_the_output(tmp_path: Path, model: StreamModel) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    with Path("/dev/full").open("w") as full:
        sink = FrameSink(full, JsonLines(False))
        prediction = played([write_sound(tmp_path / "a.wav", 0.5)], model)[0]
        with pytest.raises(InputError, match="cannot write to standard output: No space left"):
            sink.write([prediction])
        full.buffer.raw.close()  # what Python still holds cannot be written either
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write to"):
        FrameSink(tmp_path / "file" / "below.csv", JsonLines(False))
    with pytest.raises(InputError, match="cannot write the snapshot"):
        played([tmp_path / "a.wav"], model, snapshot=tmp_path / "file" / "state")


def test_no_thread_is_left_behind(tmp_path: Path, model: StreamModel) -> None:
    before = set(threading.enumerate())
    sound = write_sound(tmp_path / "a.wav", 1.0)
    played([sound, sound], model)
    with Stream(find_sources([str(sound)]), model, PlayOptions()) as stream:
        next(iter(stream))  # broken off at the first prediction
    played_late = Stream(find_sources([str(sound)]), model, PlayOptions(fast=True))
    played_late.close()  # never started
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("fast", [True, False])
def test_a_window_that_restarts_with_a_row_that_is_left_out(tmp_path: Path, fast: bool) -> None:
    """Each pass over a file is smoothed by itself, also where its first row is broken."""
    rows = write_rows(tmp_path / "rows.npy", 8)
    rows[0] = np.nan
    np.save(tmp_path / "rows.npy", rows)
    sources = find_sources([str(tmp_path / "rows.npy")])
    options = PlayOptions(fast=fast, loop=True, hop=0.01)
    with Stream(sources, small_model(tmp_path), options, PredictionOptions(smooth=0.05)) as stream:
        predictions = list(islice(stream, 14))
    assert [prediction.index for prediction in predictions] == [*range(1, 8), *range(9, 16)]
    assert [prediction.restart for prediction in predictions] == ([True] + [False] * 6) * 2
    for first, again in zip(predictions[:7], predictions[7:], strict=True):
        np.testing.assert_allclose(again.probabilities, first.probabilities, atol=1e-6)
