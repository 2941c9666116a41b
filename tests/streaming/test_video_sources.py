"""Video of every kind through the network in the box: stream, extract and window agree; what cannot play says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.errors import CotransError
from pipelines.features.extraction.run import ExtractionOptions, extract
from pipelines.features.files.feature_files import read_features
from pipelines.features.request import FeatureRequest
from pipelines.streaming import StreamModel, find_sources
from pipelines.streaming.options import PlayOptions
from pipelines.streaming.pipeline import Stream
from pipelines.streaming.predicting.model_choice import ModelChoice, choose_models
from tests.features.made_media import (
    AudioTrackOptions,
    VideoTrackOptions,
    brightness,
    quadrants,
    write_media,
    write_song_with_cover,
)
from tests.streaming.made_streams import chirp, played, scores_of, small_model, window_scores, write_sound

HOP = 0.2
UNEVEN = list(np.cumsum([0.0, *np.random.default_rng(3).uniform(0.01, 0.12, 17)]))  # a variable frame rate


@pytest.fixture(scope="module")
def watching(tmp_path_factory: pytest.TempPathFactory) -> StreamModel:
    return small_model(tmp_path_factory.mktemp("watching"), "efficientnet_lite0", hop=HOP)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> StreamModel:
    return small_model(tmp_path_factory.mktemp("both"), "efficientnet_lite0+logmel", hop=HOP)


def rate(frames_per_second: float, seconds: float = 1.2) -> list[float]:
    return [index / frames_per_second for index in range(round(frames_per_second * seconds))]


@pytest.mark.parametrize(
    "changes",
    [
        {"times": rate(8)},
        {"times": rate(60), "size": (62, 34)},
        {"times": UNEVEN},
        {"rotation": 90, "size": (64, 36)},
        {"size": (36, 64)},
        {"size": (34, 66), "pixels": "yuv422p"},
        {"pixels": "yuv420p10le"},
        {"size": (63, 35), "pixels": "yuv444p"},
    ],
    ids=["8 fps", "60 fps", "variable", "phone", "portrait", "4:2:2", "10 bit", "odd size"],
)
def test_stream_extract_and_window_agree(
    changes: dict[str, Any], tmp_path: Path, watching: StreamModel, both: StreamModel
) -> None:
    video = VideoTrackOptions(**{"picture": brightness, "times": rate(25), **changes})
    path = write_media(tmp_path / "a.mp4", video, AudioTrackOptions(samples=np.stack([chirp(1.2, 44_100)] * 2)))
    for model in (watching, both):
        assert model.features is not None
        out = tmp_path / model.features.name
        extract([str(path)], out, ExtractionOptions(FeatureRequest(model.features.name, hop=HOP)))
        rows = read_features(out / "a.npy").rows
        streamed = scores_of(played([path], model))
        assert len(streamed) == len(rows) >= 4
        np.testing.assert_allclose(streamed, window_scores(model, rows), atol=1e-4)


def test_rotated_pictures_are_seen_upright(tmp_path: Path, watching: StreamModel) -> None:
    """A phone stores pictures sideways: turned back, they are those of an upright camera."""
    lossless = {"pixels": "yuv444p", "times": rate(10, 0.6)}

    def sideways(time: float, width: int, height: int) -> Any:
        return np.ascontiguousarray(np.rot90(quadrants(time, height, width), -1))

    upright = write_media(tmp_path / "a.mp4", VideoTrackOptions(size=(48, 64), picture=quadrants, **lossless))
    stored = {"size": (64, 48), "picture": sideways, **lossless}
    turned = write_media(tmp_path / "b.mp4", VideoTrackOptions(**stored, rotation=90))
    lying = write_media(tmp_path / "c.mp4", VideoTrackOptions(**stored))
    first, second, third = (scores_of(played([path], watching)) for path in (upright, turned, lying))
    # Two encodings of one picture are not quite the same picture, but another picture is far from both.
    assert np.abs(first - second).max() < 0.3 * np.abs(first - third).max()


def test_one_frame_is_one_row(tmp_path: Path, watching: StreamModel) -> None:
    path = write_media(tmp_path / "a.mp4", VideoTrackOptions(times=[0.0]))
    assert len(played([path], watching)) == 1


def test_a_broken_second_half_gives_the_first_and_says_so(tmp_path: Path) -> None:
    whole = write_media(tmp_path / "a.mkv", VideoTrackOptions(times=rate(25, 4.0), picture=brightness)).read_bytes()
    broken = tmp_path / "b.mkv"
    broken.write_bytes(whole[: len(whole) // 2])
    summary = extract([str(broken)], tmp_path / "out", ExtractionOptions(FeatureRequest("efficientnet_lite0", hop=HOP)))
    (outcome,) = summary.outcomes
    assert outcome.status == "damaged" and 2 <= outcome.rows < 20 and "\n" not in str(outcome.message)


def test_a_broken_second_half_is_streamed_up_to_there(tmp_path: Path, watching: StreamModel) -> None:
    whole = write_media(tmp_path / "a.mkv", VideoTrackOptions(times=rate(25, 4.0), picture=brightness))
    broken = tmp_path / "b.mkv"
    broken.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    *first, ended = Stream(find_sources([str(broken)]), watching, PlayOptions(fast=True)).events()
    all_of_it = scores_of(played([whole], watching))
    assert "ends in the middle" in str(ended.error) and "\n" not in str(ended.error)
    assert 2 <= len(first) < len(all_of_it) == 20
    np.testing.assert_allclose(scores_of(first)[:-1], all_of_it[: len(first) - 1], atol=1e-5)


def test_a_cover_is_nothing_to_watch(tmp_path: Path, watching: StreamModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTRANS_CONFIG", str(tmp_path / "none.toml"))
    song = write_song_with_cover(tmp_path / "song.mp3")
    with pytest.raises(CotransError, match="has no video track, but the model's features need video"):
        played([song], watching)
    request = ExtractionOptions(FeatureRequest("efficientnet_lite0", hop=HOP))
    (outcome,) = extract([str(song)], tmp_path / "out", request).outcomes
    assert outcome.status == "failed" and "has no video track" in str(outcome.message)
    assert choose_models(None, find_sources([str(song)])) == ModelChoice(("sound-events",), "sound")


def test_sound_has_no_pictures(tmp_path: Path, watching: StreamModel) -> None:
    sound = write_sound(tmp_path / "a.wav", 0.5)
    with pytest.raises(CotransError, match="has no video track, but the model's features need video"):
        played([sound], watching)
