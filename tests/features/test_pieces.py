"""Long recordings in pieces: the files that one pass writes, byte for byte, or that pass itself."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.features.extraction.pieces import (
    MOST_PIECES,
    PROOF_ROWS,
    Piece,
    extract_piece,
    join_pieces,
    pieces_of,
    plan_pieces,
)
from pipelines.features.extraction.recording import Target, extract_recording
from pipelines.features.extraction.run import extract
from pipelines.features.extraction.sources import Recording
from pipelines.features.media import decode
from pipelines.features.request import FeatureRequest
from pipelines.features.stream_factory import EXTRACTORS, StreamFactory
from tests.features.extraction_problems import options, statuses, tree
from tests.features.made_media import VideoTrackOptions, write_media
from tests.features.made_recordings import sound, write_sound, write_video
from tests.features.tflite_files import save as save_tflite

# What makes an extractor quick enough for a test: fewer rows, and weights that need no download.
RANDOM: Mapping[str, Any] = {"random_weights": True, "hop": 3.0}
CHANGES: Mapping[str, Mapping[str, Any]] = {
    "vggish": {"random_weights": True, "hop": 1.0},
    "resnet50": RANDOM,
    "mobilenet_v2": RANDOM,
    "resnet50-flow": RANDOM,
    "efficientnet_lite0": {"hop": 1.0},
    "musicnn": {"hop": 0.5},
}
PICTURES = ("resnet50", "mobilenet_v2", "resnet50-flow", "efficientnet_lite0", "motion")


@pytest.fixture(scope="module")
def song(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """To be resampled, and through a codec whose packets do not say where they stand to the sample."""
    return write_sound(tmp_path_factory.mktemp("song") / "song.mp3", 24.0, rate=44100)


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key picture every second, and pictures that are predicted from later ones, across key pictures too."""
    path = tmp_path_factory.mktemp("film") / "film.mkv"
    background = np.random.default_rng(0).integers(0, 255, (48, 64, 3), np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=12)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.options = {"g": "12", "keyint_min": "12", "bf": "2", "x264-params": "open-gop=1:scenecut=0"}
        for index in range(24 * 12):
            image = np.roll(background, (index, 2 * index), (0, 1))
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, "rgb24")))
        container.mux(stream.encode(None))
    return path


def in_pieces(path: Path, folder: Path, streams: StreamFactory, seconds: float) -> tuple[int, bool]:
    """Extract in one go and in pieces; how many there were, and whether both left the same bytes."""
    recording = Recording(path, path.stem)
    extract_recording(recording, Target(folder / "whole", "npy", "float32", False), streams)
    target = Target(folder / "pieces", "npy", "float32", False)
    pieces = plan_pieces(recording, streams, seconds)
    results = [extract_piece(recording, target, streams, piece) for piece in reversed(pieces)]
    outcome = join_pieces(recording, target, streams, pieces, results[::-1])
    assert outcome is not None and outcome.status == "done"
    return len(pieces), tree(folder / "whole") == tree(folder / "pieces")


@pytest.mark.parametrize("name", [name for name in EXTRACTORS if name != "yamnet"])
def test_every_extractor(name: str, song: Path, film: Path, tmp_path: Path) -> None:
    streams = StreamFactory(FeatureRequest(name, **CHANGES.get(name, {})), "cpu")
    pieces = 2 if CHANGES.get(name) is RANDOM else 3
    assert in_pieces(film if name in PICTURES else song, tmp_path, streams, 7.0) == (pieces, True)


def test_a_published_network(song: Path, shared_dir: Path, tmp_path: Path) -> None:
    weights = {"yamnet": str(shared_dir / "yamnet/yamnet.tflite")}
    streams = StreamFactory(FeatureRequest("yamnet", hop=0.5, weights=weights))
    assert in_pieces(song, tmp_path, streams, 7.0) == (3, True)


@pytest.mark.parametrize("align", ["centre", "start"])
def test_alignments_networks_in_files_and_joined_extractors(align: Any, tmp_path: Path) -> None:
    network = save_tflite(tmp_path / "network.tflite", [[1, 800]], np.eye(800, 5))
    film = write_video(tmp_path / "film.mp4", 18.0)
    request = FeatureRequest(f"motion+logmel+{network}", hop=0.2, align=align, options={f"{network}.rate": 16000})
    assert in_pieces(film, tmp_path, StreamFactory(request, "cpu"), 5.0) == (3, True)


def test_a_level_that_is_remembered_for_a_minute(tmp_path: Path) -> None:
    """A bang shortly before the second piece is what its rows are measured by, long after."""
    samples = 0.01 * sound(240.0, rate=8000)
    samples[119 * 8000 : 119 * 8000 + 400] = 1.0
    import soundfile

    soundfile.write(tmp_path / "bang.wav", samples, 8000, subtype="FLOAT")
    streams = StreamFactory(FeatureRequest("logmel", hop=0.5, options={"level": "relative", "sample_rate": 8000}))
    assert in_pieces(tmp_path / "bang.wav", tmp_path, streams, 110.0) == (2, True)


@given(st.floats(0.1, 1e6), st.floats(0.001, 600.0), st.floats(1.0, 1e5))
def test_pieces_are_a_partition(duration: float, hop: float, seconds: float) -> None:
    pieces = pieces_of(duration, hop, seconds)
    assert len(pieces) != 1 and len(pieces) <= min(MOST_PIECES, duration / seconds)
    if pieces:
        assert pieces[0].first == pieces[0].begin == 0 and pieces[-1].stop is None
    for before, after in pairwise(pieces):
        assert before.stop == after.first and after.first - before.first >= PROOF_ROWS
        assert after.first * hop < duration


def test_workers_share_a_recording(song: Path, tmp_path: Path) -> None:
    """With others beside it, in several processes; what is short or damaged is not divided."""
    short, cut = write_sound(tmp_path / "short.wav", 2.0), tmp_path / "cut.mp3"
    cut.write_bytes(song.read_bytes()[: song.stat().st_size // 2])
    sources = [str(path) for path in (song, short, cut)]
    alone = extract(sources, tmp_path / "one", options(dtype="float16"))
    summary = extract(sources, tmp_path / "two", options(dtype="float16", workers=2, piece_seconds=6.0))
    assert statuses(summary) == statuses(alone) == {"cut": "damaged", "short": "done", "song": "done"}
    assert tree(tmp_path / "one") == tree(tmp_path / "two") and summary.problems == alone.problems
    assert summary.rows == alone.rows and summary.media_seconds == alone.media_seconds


@pytest.mark.parametrize("damage", ["cut", "noise"])
def test_what_is_damaged_is_extracted_in_one_go(song: Path, tmp_path: Path, damage: str) -> None:
    data = bytearray(song.read_bytes())
    if damage == "noise":
        data[len(data) // 3 : len(data) // 3 + 3000] = np.random.default_rng(0).bytes(3000)
    broken = tmp_path / "song.mp3"
    broken.write_bytes(data[: len(data) // (1 if damage == "noise" else 2)])
    streams, target = StreamFactory(FeatureRequest("logmel")), Target(tmp_path / "out", "npy", "float32", False)
    recording = Recording(broken, "song")
    pieces = plan_pieces(recording, streams, 3.0)
    results = [extract_piece(recording, target, streams, piece) for piece in pieces]
    assert results[0].usable and not all(result.usable for result in results)
    assert join_pieces(recording, target, streams, pieces, results) is None
    assert list((tmp_path / "out").iterdir()) == []


def test_a_piece_that_does_not_fit_is_not_believed(song: Path, tmp_path: Path) -> None:
    streams, target = StreamFactory(FeatureRequest("logmel")), Target(tmp_path, "npy", "float32", False)
    recording = Recording(song, "song")
    pieces = plan_pieces(recording, streams, 7.0)
    results = [extract_piece(recording, target, streams, piece) for piece in pieces]
    kept = sorted(tmp_path.glob(".song.piece-*"))
    stamps = [path.stat().st_mtime_ns for path in kept]
    assert [
        extract_piece(recording, target, streams, piece) for piece in pieces
    ] == results  # of a run that was stopped
    assert [path.stat().st_mtime_ns for path in kept] == stamps and len(kept) == 3
    rows = np.load(kept[0])
    np.save(kept[0], rows + np.float32(1e-6))
    assert join_pieces(recording, target, streams, pieces, results) is None
    assert list(tmp_path.iterdir()) == []


def test_a_recording_without_enough_of_a_past_is_not_divided(tmp_path: Path) -> None:
    """A stack of six pictures, and one picture every five seconds: nobody knows where the first of them is."""
    slow = write_media(tmp_path / "slow.mkv", VideoTrackOptions(times=[5.0 * index for index in range(9)]))
    streams = StreamFactory(FeatureRequest("resnet50-flow", random_weights=True, hop=5.0), "cpu")
    target = Target(tmp_path / "out", "npy", "float32", False)
    assert not extract_piece(Recording(slow, "slow"), target, streams, Piece(6, None)).usable
    assert list((tmp_path / "out").iterdir()) == []


def test_pictures_before_a_time_are_not_decoded(film: Path) -> None:
    with decode(film, audio=False, video=True) as reader:
        whole = {item.time: item.image for item in reader}  # type: ignore[union-attr]
    with decode(film, audio=False, video=True, pictures_from=9.4) as reader:
        later = {item.time: item.image for item in reader}  # type: ignore[union-attr]
        assert reader.flawless
    assert 8.0 < min(later) <= 9.4 and max(later) == max(whole)
    assert all(np.array_equal(image, whole[time]) for time, image in later.items())
