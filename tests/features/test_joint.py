"""Several extractors on one clock: any order and any pieces give the same rows, and causal rows know no future."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pipelines.errors import UsageError
from pipelines.features.audio import build_audio_extractor
from pipelines.features.joint import FeatureStream, feature_rows
from pipelines.features.media import DamagedMediaError, VideoFrame, decode
from pipelines.features.spec import Align, ExtractorSpec
from pipelines.features.video import VIDEO_EXTRACTORS, build_video_extractor
from tests.features.made_media import AudioTrackOptions, VideoTrackOptions, brightness, tone, write_media

HOP = 0.25
ALIGNMENTS: tuple[Align, ...] = ("causal", "centre", "start")


class Means:
    """A video extractor that is cheap: the mean colour of each picture of a row. Counts its calls."""

    def __init__(self, frames_per_row: int = 1, frame: str = "centre") -> None:
        self.frames_per_row = frames_per_row
        self.spec = ExtractorSpec("means", "video", 3 * frames_per_row, 0.0, {"frame": frame})
        self.calls = 0

    def push(self, frames: np.ndarray) -> np.ndarray:
        self.calls += 1
        return frames.mean(axis=(1, 2)).reshape(-1, self.spec.width).astype(np.float32)


def logmel(align: Align = "causal", rate: int = 16_000) -> Any:
    return build_audio_extractor("logmel", HOP, {"n_mels": 8, "sample_rate": rate}, align=align)


@pytest.fixture(scope="module")
def pictures() -> list[tuple[np.ndarray, float]]:
    """3 s at an uneven rate."""
    times = np.cumsum(np.random.default_rng(2).uniform(0.02, 0.08, 60))
    return [(brightness(time, 64, 48), float(time)) for time in times - times[0] if time < 3.0]


@pytest.fixture(scope="module")
def wave() -> np.ndarray:
    return np.random.default_rng(3).uniform(-0.5, 0.5, 3 * 22_050).astype(np.float32)


def joint(align: Align = "causal") -> FeatureStream:
    return FeatureStream([Means(), logmel(align), Means(6), logmel(align, 8000)], HOP, align)


def run(stream: FeatureStream, wave: np.ndarray, pictures: Any, pieces: list[int], order: list[bool]) -> np.ndarray:
    """Push sound in the given pieces and pictures one by one, in the given order, again and again."""
    rows, position, frames, turn = [], 0, list(pictures), 0
    while position < len(wave) or frames:
        sound = order[turn % len(order)]
        if (sound and position < len(wave)) or not frames:
            size = pieces[turn % len(pieces)]
            rows.append(stream.push_audio(wave[position : position + size], 22_050))
            position += size
        else:
            rows.append(stream.push_frame(*frames.pop(0)))
        turn += 1
    return np.concatenate([*rows, stream.flush()])


@pytest.mark.parametrize("align", ALIGNMENTS)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_pieces_in_any_order_equal_the_whole(align: Align, wave: Any, pictures: Any, data: st.DataObject) -> None:
    pieces = data.draw(st.lists(st.integers(150, 30_000), min_size=1, max_size=5))
    order = data.draw(st.lists(st.booleans(), min_size=1, max_size=6))
    whole = run(joint(align), wave, pictures, [len(wave)], [True, False])
    assert len(whole) in (11, 12)
    rows = run(joint(align), wave, pictures, pieces, order)
    np.testing.assert_allclose(rows, whole, atol=1e-5)
    np.testing.assert_array_equal(rows[:, :3], whole[:, :3])


@pytest.mark.parametrize("align", ALIGNMENTS)
def test_joined_rows_are_the_rows_of_the_parts(align: Align, wave: Any, pictures: Any) -> None:
    rows = run(joint(align), wave, pictures, [4410], [True, False, False])
    begin = 0
    for part in (Means(), logmel(align), Means(6), logmel(align, 8000)):
        single = FeatureStream([part], HOP, align)
        expected = run(single, wave, pictures, [4410], [True, False, False])
        np.testing.assert_array_equal(rows[:, begin : begin + part.spec.width], expected[: len(rows)])
        begin += part.spec.width
    assert begin == rows.shape[1] == joint(align).spec.width


@pytest.mark.parametrize("frame", ["centre", "last"])
def test_causal_rows_have_not_seen_the_future(frame: str, pictures: Any) -> None:
    wave = np.random.default_rng(4).uniform(-0.5, 0.5, 48_000).astype(np.float32)  # at the extractor's own rate
    for moment in (0.5, 1.0, 1.75):
        outcomes = []
        for future in (0, 1):
            stream = FeatureStream([Means(1, frame), Means(6), logmel()], HOP)
            rows = []
            changed = wave.copy()
            changed[round(moment * 16_000) :] *= future
            for begin in range(0, 48_000, 800):
                rows.append(stream.push_audio(changed[begin : begin + 800], 16_000))
            for image, time in pictures:
                rows.append(stream.push_frame(image if time < moment or future else image * 0, time))
            outcomes.append(np.concatenate([*rows, stream.flush()]))
        count = round(moment / HOP)  # rows that stand at or before the moment
        np.testing.assert_array_equal(outcomes[0][:count], outcomes[1][:count])
        assert not np.array_equal(outcomes[0][count + 1], outcomes[1][count + 1])


def test_resampled_sound_looks_ahead_by_milliseconds_at_most() -> None:
    """The resampling filter is symmetric: samples within a few milliseconds after a row's time can touch it."""
    wave = np.random.default_rng(5).uniform(-0.5, 0.5, 3 * 44_100).astype(np.float32)
    for after, seen in ((0.0, True), (0.004, False)):
        outcomes = []
        for future in (0, 1):
            changed = wave.copy()
            changed[round((1.0 + after) * 44_100) :] *= future
            stream = FeatureStream([logmel()], HOP)
            outcomes.append(np.concatenate([stream.push_audio(changed, 44_100), stream.flush()])[:4])
        difference = np.abs(outcomes[0] - outcomes[1]).max()
        assert difference < (0.5 if seen else 2e-3)


def test_a_still_picture_is_looked_at_once() -> None:
    means = Means()
    stream = FeatureStream([means], HOP)
    rows = [stream.push_frame(brightness(1.0, 8, 8), 0.0), stream.push_frame(brightness(2.0, 8, 8), 20.0)]
    joined = np.concatenate([*rows, stream.flush()])
    assert len(joined) == 160  # the last picture is taken to stay as long as the one before
    assert means.calls == 2
    assert (joined[:79] == joined[0]).all()


def test_pictures_that_no_row_needs_are_not_converted() -> None:
    """Of 25 frames a second, rows every quarter of one look at one each; both extractors share it."""
    converted: list[int] = []

    def shown(index: int) -> NDArray[np.uint8]:
        converted.append(index)
        return np.full((8, 8, 3), index, np.uint8)

    stream = FeatureStream([Means(), Means()], HOP)
    rows = [stream.push_frame(VideoFrame(index / 25, 0.04, partial(shown, index))) for index in range(50)]
    assert np.concatenate([*rows, stream.flush()])[:, 0].tolist() == converted == [3, 9, 15, 21, 28, 34, 40, 46]


def test_a_buffer_that_is_used_again_does_no_harm() -> None:
    buffer = np.zeros((8, 8, 3), np.uint8)
    stream, rows = FeatureStream([Means()], HOP), []
    for index in range(50):
        buffer[:] = index
        rows.append(stream.push_frame(buffer, index / 25, 0.04))
    assert np.concatenate([*rows, stream.flush()])[:, 0].tolist() == [3, 9, 15, 21, 28, 34, 40, 46]


def test_a_stream_whose_pictures_change_size_goes_on() -> None:
    stream, rows = FeatureStream([Means(6)], HOP), []
    for index in range(50):
        rows.append(stream.push_frame(brightness(0.5, 8 + index % 3, 9), index / 25, 0.04))
    assert np.concatenate([*rows, stream.flush()]).shape == (8, 18)


def test_misuse_is_refused() -> None:
    stream = FeatureStream([Means(), logmel()], HOP)
    with pytest.raises(UsageError, match="without a time"):
        stream.push_frame(np.zeros((2, 2, 3), np.uint8))
    stream.push_audio(np.zeros(100, np.float32), 8000)
    with pytest.raises(UsageError, match="cannot change from 8000 to 16000 Hz"):
        stream.push_audio(np.zeros(100, np.float32), 16_000)
    stream.flush()
    with pytest.raises(UsageError, match="has ended"):
        stream.push_audio(np.zeros(100, np.float32), 8000)


@pytest.mark.parametrize("align", ALIGNMENTS)
def test_one_decode_serves_all(align: Align, tmp_path: Path) -> None:
    """Rows of a real file, joined, are those of each extractor alone; the picture's grey tells its time."""
    times = [index / 25 for index in range(55)]
    track = AudioTrackOptions(samples=np.repeat(tone(2.2, 44_100)[None], 2, axis=0))
    pictures = VideoTrackOptions(times=times, picture=brightness, codec="ffv1", pixels="yuv444p")
    path = write_media(tmp_path / "a.mkv", pictures, track)
    stream = FeatureStream([Means(), logmel(align)], HOP, align)
    rows = np.concatenate(list(feature_rows(decode(path, video=True), stream)))
    assert rows.shape == (8, 3 + 24)
    sound = FeatureStream([logmel(align)], HOP, align)
    np.testing.assert_allclose(rows[:, 3:], np.concatenate(list(feature_rows(decode(path), sound)))[:8], atol=1e-5)
    middle = {"causal": -HOP / 2, "centre": 0, "start": HOP / 2}[align]
    for index, row in enumerate(rows):
        shown = max(time for time in times if time <= stream.spec.row_time(index) + middle + 1e-3)
        grey = brightness(shown, 64, 48).mean()
        assert row[0] == pytest.approx(grey, abs=1.5)


def test_a_piece_of_a_file_has_its_own_clock(tmp_path: Path) -> None:
    times = [index / 25 for index in range(225)]
    pictures = VideoTrackOptions(times=times, picture=brightness, codec="ffv1", pixels="yuv444p")
    path = write_media(tmp_path / "a.mkv", pictures)
    whole = np.concatenate(list(feature_rows(decode(path, audio=False, video=True), FeatureStream([Means()], HOP))))
    stream = FeatureStream([Means()], HOP, origin=6.0)
    piece = decode(path, audio=False, video=True, start=6.0, duration=1.5)
    np.testing.assert_array_equal(np.concatenate(list(feature_rows(piece, stream))), whole[24:30])


def test_a_damaged_file_gives_its_rows_first(tmp_path: Path) -> None:
    path = write_media(tmp_path / "a.mkv", VideoTrackOptions(picture=brightness))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 6 // 10])
    rows = []
    with pytest.raises(DamagedMediaError, match="ends in the middle"):
        for some in feature_rows(decode(path, audio=False, video=True), FeatureStream([Means()], HOP)):
            rows.append(some)
    assert 2 <= len(np.concatenate(rows)) <= 7


@pytest.mark.parametrize("name", VIDEO_EXTRACTORS)
def test_networks_give_the_same_rows_for_any_pieces(name: str) -> None:
    """Bit for bit: through the stream one frame at a time, and pushed by hand in groups."""
    extractor = build_video_extractor(name, random_weights=True)
    frames = np.stack([brightness(index / 25, 160, 120) for index in range(25)])
    stream = FeatureStream([extractor], HOP)
    parts = [stream.push_frame(frame, index / 25, 0.04) for index, frame in enumerate(frames)]
    rows = np.concatenate([*parts, stream.flush()])
    if extractor.frames_per_row == 1:
        chosen = [[3], [9], [15], [21]]
    else:
        chosen = [list(range(last - 5, last + 1)) for last in (6, 12, 18, 24)]
    groups = [frames[numbers] for numbers in chosen]
    if getattr(extractor, "remembers", False):  # its rows go on from those before: groups of any size from the start
        again = extractor.fresh()  # type: ignore[union-attr]
        pieces = [again.push(np.concatenate(groups[:1])), again.push(np.concatenate(groups[1:]))]
        np.testing.assert_array_equal(rows, np.concatenate(pieces))
    else:
        np.testing.assert_array_equal(rows, extractor.push(np.concatenate(groups)))
        np.testing.assert_array_equal(rows[1:3], extractor.push(np.concatenate(groups[1:3])))
    assert np.abs(rows[0] - rows[1]).max() > 1e-3


@pytest.mark.parametrize("align", ALIGNMENTS)
@pytest.mark.parametrize("rate", [16_000, 11_025])
def test_sound_up_to_when_a_row_is_due_completes_it_and_no_sample_less_does(align: Align, rate: int) -> None:
    stream = FeatureStream([logmel(align, rate)], HOP, align)
    given, seconds = 0, 0.0
    for row in range(5):
        seconds = stream.sound_due_after(seconds)
        samples = round(seconds * rate)
        assert not len(stream.push_audio(np.zeros(samples - 1 - given, np.float32), rate))
        assert len(stream.push_audio(np.zeros(1, np.float32), rate)) == 1, row
        given = samples


def test_sound_is_due_when_the_last_extractor_has_its_own() -> None:
    stream = FeatureStream([logmel("start"), build_audio_extractor("logmel", HOP, {"window": 0.5}, align="start")], HOP)
    assert stream.sound_due_after(-1.0) == pytest.approx(0.5)
    assert stream.sound_due_after(0.5) == pytest.approx(0.75)
    assert stream.sound_due_after(100.1) == pytest.approx(100.25)


@pytest.mark.parametrize("name", ["logmel", "musicnn", "speech", "soundnet"])
@pytest.mark.parametrize("known", [0.0, 0.9, 2.3])
def test_rows_after_some_that_are_left_out_are_those_of_the_whole(name: str, known: float) -> None:
    """Whether the skip begins in sound that was pushed or in sound that is still to come."""
    hop, skipped = 0.08, 30
    sound = np.random.default_rng(0).normal(0, 0.1, 16_000 * 4).astype(np.float32)

    def stream() -> FeatureStream:
        return FeatureStream([build_audio_extractor(name, hop)], hop)

    whole = stream().push_audio(sound, 16_000)
    late = stream()
    pushed = round(known * 16_000)
    before = late.push_audio(sound[:pushed], 16_000)
    assert late.skip_to(skipped) and late.rows_given == skipped
    parts = [late.push_audio(piece, 16_000) for piece in np.array_split(sound[pushed:], 7)]
    np.testing.assert_array_equal(before, whole[: len(before)])
    np.testing.assert_allclose(np.concatenate(parts), whole[skipped:], rtol=1e-4, atol=1e-4)
    assert not stream().skip_to(-1)


def test_pictures_are_not_left_out() -> None:
    assert not FeatureStream([logmel(), Means()], HOP).skip_to(3)
