"""What is extracted when no features are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipelines.features.default_features import tracks_of
from pipelines.features.extraction.run import AUTO, ExtractionOptions, extract
from pipelines.features.request import FeatureRequest
from tests.features.made_media import AudioTrackOptions, VideoTrackOptions, write_media


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("media")
    (folder / "broken.mp4").write_bytes(b"not media")
    sound = AudioTrackOptions(codec="flac", format="s16")
    return {
        "silent": write_media(folder / "silent.mp4", VideoTrackOptions()),
        "both": write_media(folder / "both.mp4", VideoTrackOptions(), AudioTrackOptions()),
        "sound": write_media(folder / "sound.flac", audio=sound),
        "broken": folder / "broken.mp4",
    }


@pytest.mark.parametrize(
    ("files", "features", "reason"),
    [
        (("silent",), "efficientnet_lite0", "pictures and no sound"),
        (("both",), "musicnn", "sound"),
        (("silent", "sound"), "musicnn", "sound in 1 of 2 files"),
        (("broken", "silent"), "efficientnet_lite0", "pictures and no sound"),
        (("broken",), "musicnn", "no file could be opened"),
    ],
)
def test_files_decide(files: tuple[str, ...], features: str, reason: str, media: dict[str, Path]) -> None:
    tracks = tracks_of([media[name] for name in files])
    assert (tracks.features, tracks.reason) == (features, reason)


def test_a_silent_video_gives_rows_without_a_flag(media: dict[str, Path], tmp_path: Path) -> None:
    summary = extract([str(media["silent"])], tmp_path, ExtractionOptions(FeatureRequest(AUTO)))
    assert summary.ok and summary.reason == "pictures and no sound"
    assert np.load(tmp_path / "silent.npy").shape == (8, 1280)
    again = extract([str(media["silent"])], tmp_path, ExtractionOptions(FeatureRequest("efficientnet_lite0")))
    assert again.count("skipped") == 1 and again.reason is None
