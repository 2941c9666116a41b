"""Extraction of many recordings: the numbers, resuming, several processes, bad inputs, memory."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import soundfile

from pipelines.features.extraction.run import extract
from pipelines.features.files.feature_files import read_features
from pipelines.features.request import FeatureRequest
from pipelines.features.stream_factory import StreamFactory
from tests.features.extraction_problems import LOGMEL, options, statuses, write_folder
from tests.features.made_recordings import write_sound, write_video


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path)


def test_a_folder(folder: Path, tmp_path: Path) -> None:
    summary = extract([str(folder)], tmp_path / "out", LOGMEL)
    assert statuses(summary) == {"a": "done", "b": "done", "deep/a": "done"}
    assert summary.ok
    assert [outcome.rows for outcome in summary.outcomes] == [6, 8, 10]
    assert summary.media_seconds == pytest.approx(6.0)
    read = read_features(tmp_path / "out/deep/a.npy")
    assert read.times is not None and read.manifest is not None and read.spec is not None
    np.testing.assert_allclose(read.times, 0.25 * np.arange(1, 11))
    assert read.manifest.source.path == (folder / "deep/a.wav").as_posix()
    assert read.manifest.source.size == (folder / "deep/a.wav").stat().st_size
    assert read.manifest.source.duration == pytest.approx(2.5)
    assert (read.spec.name, read.spec.width, read.spec.hop) == ("logmel", 192, 0.25)


def test_the_rows_are_those_of_the_stream(tmp_path: Path) -> None:
    """What `extract` writes is, number for number, what pushing the samples live gives."""
    path = write_sound(tmp_path / "a.wav", 3.3, rate=22050)
    summary = extract([str(path)], tmp_path / "out", options("musicnn+logmel", hop=0.2))
    assert summary.width == 256 + 192
    samples, rate = soundfile.read(path, dtype="float32")
    stream = StreamFactory(FeatureRequest("musicnn+logmel", hop=0.2)).prototype()
    pieces = [stream.push_audio(samples[begin : begin + 1000], rate) for begin in range(0, len(samples), 1000)]
    np.testing.assert_array_equal(read_features(tmp_path / "out/a.npy").rows, np.concatenate([*pieces, stream.flush()]))


def test_audio_and_video_on_one_clock(tmp_path: Path) -> None:
    path = write_video(tmp_path / "v.mp4", 2.0)
    joint = extract([str(path)], tmp_path / "joint", options("mobilenet_v2+logmel", random_weights=True, fps=4))
    assert joint.random_weights
    read = read_features(tmp_path / "joint/v.npy")
    assert read.rows.shape == (8, 1280 + 192)
    assert read.spec is not None
    assert [part.weights for part in read.spec.parts] == ["random", None]
    extract([str(path)], tmp_path / "sound", options("logmel"))
    extract([str(path)], tmp_path / "pictures", options("mobilenet_v2", random_weights=True))
    np.testing.assert_array_equal(read.rows[:, 1280:], read_features(tmp_path / "sound/v.npy").rows)
    np.testing.assert_array_equal(read.rows[:, :1280], read_features(tmp_path / "pictures/v.npy").rows)


def test_every_counts_frames_of_each_file(tmp_path: Path) -> None:
    for fps in (12, 24):
        write_video(tmp_path / "in" / f"v{fps}.mp4", 1.0, fps, audio=False)
    write_sound(tmp_path / "in" / "s.wav")
    summary = extract([str(tmp_path / "in")], tmp_path / "out", options("mobilenet_v2", random_weights=True, every=6))
    assert {o.name: o.rows for o in summary.outcomes} == {"v12": 2, "v24": 4, "s": 0}
    assert summary.problems == (f"{tmp_path}/in/s.wav: has no video frames to count with --every: use --hop or --fps",)
    spec = read_features(tmp_path / "out/v24.npy").spec
    assert spec is not None
    assert spec.hop == 0.25


def test_layouts(tmp_path: Path) -> None:
    path = write_video(tmp_path / "in/video_test_1.mp4", 1.0)
    run = {"random_weights": True, "hop": 0.25}
    extract([str(path.parent)], tmp_path / "npy", options("mobilenet_v2+logmel", **run))
    rows = np.array(read_features(tmp_path / "npy/video_test_1.npy").rows)
    extract([str(path.parent)], tmp_path / "lstr", options("mobilenet_v2+logmel", layout="lstr", **run))
    np.testing.assert_array_equal(np.load(tmp_path / "lstr/rgb_random_mobilenet_v2/video_test_1.npy"), rows[:, :1280])
    np.testing.assert_array_equal(np.load(tmp_path / "lstr/audio_logmel/video_test_1.npy"), rows[:, 1280:])
    later = extract([str(path.parent)], tmp_path / "lstr", options("musicnn", layout="lstr"))  # joins the others
    assert statuses(later) == {"video_test_1": "done"}
    assert np.load(tmp_path / "lstr/audio_msd_musicnn/video_test_1.npy").shape == (4, 256)
    extract([str(path.parent)], tmp_path / "vf", options("mobilenet_v2+logmel", layout="video_features", **run))
    np.testing.assert_array_equal(np.load(tmp_path / "vf/video_test_1_mobilenet_v2.npy"), rows[:, :1280])
    np.testing.assert_array_equal(np.load(tmp_path / "vf/video_test_1_timestamps_ms.npy"), [250, 500, 750, 1000])
    write_video(tmp_path / "in/video_test_2.mp4", 0.5, seed=1)
    summary = extract([str(path.parent)], tmp_path / "oadtr", options("mobilenet_v2+logmel", layout="oadtr", **run))
    assert summary.files == ("features.pickle",)
    loaded = pickle.loads((tmp_path / "oadtr/features.pickle").read_bytes())
    assert list(loaded) == ["video_test_1", "video_test_2"]
    np.testing.assert_array_equal(loaded["video_test_1"]["rgb"], rows[:, :1280])
    np.testing.assert_array_equal(loaded["video_test_1"]["audio"], rows[:, 1280:])
