"""Decoding real files: times, channels, rates, sizes, orientation, tracks that differ."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr

from pipelines.errors import InputError, MissingDependencyError, UsageError
from pipelines.features.media import AudioBlock, DamagedMediaError, VideoFrame, decode, probe
from pipelines.features.media.downmix import mix_weights, to_mono
from tests.features.made_media import (
    AudioTrackOptions,
    VideoTrackOptions,
    brightness,
    tone,
    write_media,
    write_song_with_cover,
)

PCM: dict[str, Any] = {"codec": "pcm_s16le", "format": "s16"}


def sound(source: Any, **options: Any) -> np.ndarray:
    """All samples; checks that blocks join."""
    blocks = [item for item in decode(source, **options) if isinstance(item, AudioBlock)]
    start = options.get("start", 0.0)
    count = 0
    for block in blocks:
        assert block.time == pytest.approx(start + count / block.rate, abs=1e-9)
        count += len(block.samples)
    return np.concatenate([block.samples for block in blocks])


def frames(source: Any, **options: Any) -> list[VideoFrame]:
    items = decode(source, **{"audio": False, "video": True, **options})
    pictures = [item for item in items if isinstance(item, VideoFrame)]
    assert all(a.time < b.time for a, b in pairwise(pictures))
    return pictures


@pytest.mark.parametrize(
    ("name", "video", "audio"),
    [
        ("a.mp4", VideoTrackOptions(), AudioTrackOptions()),
        ("a.mp4", VideoTrackOptions(codec="mpeg4", clock=1000), AudioTrackOptions(rate=8000, layout="mono")),
        ("a.mkv", VideoTrackOptions(codec="ffv1"), AudioTrackOptions(codec="flac", rate=96_000, format="s16")),
        ("a.webm", VideoTrackOptions(codec="libvpx"), AudioTrackOptions(codec="libopus", rate=48_000)),
        ("a.avi", VideoTrackOptions(codec="mpeg4", clock=25), AudioTrackOptions(codec="mp3", rate=22_050)),
        ("a.ts", VideoTrackOptions(), AudioTrackOptions(layout="5.1")),
    ],
    ids=["h264+aac", "mpeg4+aac8k", "ffv1+flac96k", "vp8+opus", "mpeg4+mp3", "ts5.1"],
)
def test_both_tracks_of_common_containers(
    name: str, video: VideoTrackOptions, audio: AudioTrackOptions, tmp_path: Path
) -> None:
    path = write_media(tmp_path / name, video, audio)
    items = list(decode(path, video=True, audio_rate=16_000))
    blocks = [item for item in items if isinstance(item, AudioBlock)]
    shown = [item for item in items if isinstance(item, VideoFrame)]
    samples = np.concatenate([block.samples for block in blocks])
    assert len(samples) / 16_000 == pytest.approx(2.0, abs=0.1)
    assert shown[-1].end == pytest.approx(blocks[-1].end, abs=2e-3)  # both end together
    spectrum = np.abs(np.fft.rfft(samples[8000:24_000]))
    assert np.argmax(spectrum) == 440
    if name != "a.avi":  # AVI knows frame numbers only; the writer leaves some out
        assert [a.time - shown[0].time for a in shown[:50]] == pytest.approx([i / 25 for i in range(50)], abs=1e-3)
    info = probe(path)
    assert info.audio is not None
    assert info.video is not None
    assert (info.audio.rate, info.video.width, info.video.height) == (audio.rate, 64, 48)
    assert info.duration == pytest.approx(2.0, abs=0.1)
    assert info.size == path.stat().st_size


@pytest.mark.parametrize("rate", [8000, 11_025, 22_050, 44_100, 48_000, 96_000, 192_000])
@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.mkv"])
def test_rates_are_resampled_like_the_whole(rate: int, name: str, tmp_path: Path) -> None:
    noise = np.random.default_rng(rate).uniform(-0.5, 0.5, round(0.7 * rate)).astype(np.float32)
    if name == "a.mkv":
        write_media(tmp_path / name, None, AudioTrackOptions(rate=rate, layout="mono", samples=noise[None], **PCM))
    else:
        soundfile.write(tmp_path / name, noise, rate, subtype="PCM_16")
    expected = soxr.resample(np.rint(noise * 32_767) / 32_768, rate, 16_000, quality="HQ")
    np.testing.assert_allclose(sound(tmp_path / name, audio_rate=16_000), expected, atol=2e-4)
    assert len(sound(tmp_path / name)) == len(noise)


def test_channels_are_mixed_by_their_place(tmp_path: Path) -> None:
    """5.1: FL FR FC LFE SL SR. Centre −3 dB, surround −3 dB, no LFE, weights scaled to sum to one."""
    values = np.array([0.1, 0.2, 0.3, 0.9, -0.1, -0.4])
    weights = np.array([1, 1, 2**0.5, 0, 0.5**0.5, 0.5**0.5])
    samples = np.repeat(values[:, None], 4000, axis=1).astype(np.float32)
    track = AudioTrackOptions(rate=16_000, layout="5.1", samples=samples, **PCM)
    for name in ("a.wav", "a.mkv"):
        path = write_media(tmp_path / name, None, track)
        np.testing.assert_allclose(sound(path), weights @ values / weights.sum(), atol=1e-4)
    stereo = AudioTrackOptions(rate=16_000, samples=samples[:2], **PCM)
    for name in ("b.wav", "b.mkv"):
        np.testing.assert_allclose(sound(write_media(tmp_path / name, None, stereo)), 0.15, atol=1e-4)


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"])
def test_sample_formats_agree_through_both_libraries(subtype: str, tmp_path: Path) -> None:
    wave = tone(0.2, 16_000)
    soundfile.write(tmp_path / "a.wav", wave, 16_000, subtype=subtype)
    tolerance = 0.01 if subtype == "PCM_U8" else 1e-4
    np.testing.assert_allclose(sound(tmp_path / "a.wav"), wave, atol=tolerance)
    # Given as an open file, it goes through ffmpeg.
    with (tmp_path / "a.wav").open("rb") as file:
        np.testing.assert_allclose(sound(file), sound(tmp_path / "a.wav"), atol=1e-6)


def test_more_than_eight_channels_are_mixed_too() -> None:
    """PyAV would read past the end of its list of planes; see `media/downmix.py`."""
    import av

    samples = np.random.default_rng(0).uniform(-0.5, 0.5, (16, 1024)).astype(np.float32)
    frame = av.AudioFrame(format="fltp", layout="hexadecagonal", samples=1024)
    frame.sample_rate = 16_000
    for channel in range(16):
        frame.planes[channel].update(samples[channel].tobytes())
    weights = mix_weights([channel.name for channel in frame.layout.channels])
    np.testing.assert_allclose(to_mono(frame), weights @ samples, atol=1e-5)


def test_variable_frame_rate_keeps_its_times(tmp_path: Path) -> None:
    times = [0, 0.04, 0.1, 0.5, 0.51, 1.2, 1.9]
    for name in ("a.mkv", "a.mp4"):
        path = write_media(tmp_path / name, VideoTrackOptions(times=times))
        assert [frame.time for frame in frames(path)] == pytest.approx(times, abs=1e-3)


def test_odd_sizes_and_colours(tmp_path: Path) -> None:
    for size in ((33, 47), (1, 1), (17, 640)):
        track = VideoTrackOptions(codec="ffv1", pixels="yuv444p", size=size, times=[0, 0.04])
        image = frames(write_media(tmp_path / "a.mkv", track))[0].image
        assert image.shape == (size[1], size[0], 3)
        np.testing.assert_allclose(image[-1, -1].astype(int), (255, 255, 255), atol=3)
        if min(size) > 1:
            np.testing.assert_allclose(image[0, 0].astype(int), (255, 0, 0), atol=3)


# The corners of the picture in reading order after turning; stored: red green / blue white.
R, G, B, W = "red", "green", "blue", "white"
ONE = 1 << 16
TURNS = {
    "counterclockwise": ({"rotation": 90}, [G, W, R, B], 270),
    "upside down": ({"rotation": 180}, [W, B, G, R], 180),
    "clockwise": ({"rotation": -90}, [B, R, W, G], 90),
    "mirrored": ({"matrix": [-ONE, 0, 0, 0, ONE, 0, 0, 0, 1 << 30]}, [G, R, W, B], None),
    "transposed": ({"matrix": [0, ONE, 0, ONE, 0, 0, 0, 0, 1 << 30]}, [R, B, G, W], None),
}


def colour(pixel: np.ndarray) -> str:
    table = {R: (255, 0, 0), G: (0, 255, 0), B: (0, 0, 255), W: (255, 255, 255)}
    return min(table, key=lambda name: np.abs(pixel.astype(int) - table[name]).sum())


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("name", ["a.mp4", "a.mkv"])
def test_rotated_phone_video_is_upright(turn: str, name: str, tmp_path: Path) -> None:
    options, corners, degrees = TURNS[turn]
    path = write_media(tmp_path / name, VideoTrackOptions(**options))  # type: ignore[arg-type]
    image = frames(path)[7].image
    if name == "a.mkv" and degrees is None:
        pytest.skip("Matroska stores a rotation, not mirroring")
    assert image.shape == ((64, 48, 3) if turn in ("counterclockwise", "clockwise", "transposed") else (48, 64, 3))
    assert [colour(image[y, x]) for y in (4, -5) for x in (4, -5)] == corners
    info = probe(path).video
    assert info is not None
    assert degrees is None or info.rotation == degrees
    assert (info.height, info.width) == image.shape[:2]


def test_looking_at_pictures_with_colour_profiles_does_not_crash(tmp_path: Path) -> None:
    """PyAV frees the side data of such pictures twice once it has been looked at; see `media/picture.py`."""
    image = pytest.importorskip("PIL.Image")
    cms = pytest.importorskip("PIL.ImageCms")
    profile = cms.ImageCmsProfile(cms.createProfile("sRGB")).tobytes()
    image.fromarray(np.full((20, 30, 3), 77, np.uint8)).save(tmp_path / "a.png", icc_profile=profile)
    for _ in range(20):
        assert probe(tmp_path / "a.png").video is not None
        assert (frames(tmp_path / "a.png")[0].image == 77).all()


def test_a_track_that_starts_late_is_filled(tmp_path: Path) -> None:
    track = AudioTrackOptions(rate=16_000, layout="mono", samples=tone(1.0, 16_000)[None], start=0.5, **PCM)
    path = write_media(tmp_path / "a.mkv", VideoTrackOptions(), track)
    samples = sound(path, video=True)
    assert not samples[:8000].any()
    np.testing.assert_allclose(samples[8000:24_000], tone(1.0, 16_000), atol=1e-4)
    assert len(samples) >= 32_000  # the video lasts 2 s
    assert not samples[24_000:].any()


def test_a_gap_in_the_sound_becomes_silence(tmp_path: Path) -> None:
    rate, piece = 16_000, 1024
    wave = np.random.default_rng(0).uniform(-0.5, 0.5, 32 * piece).astype(np.float32)
    from tests.features import made_media

    original = made_media._sound

    def with_gap(options: AudioTrackOptions, frame_size: int) -> list[Any]:
        cut = original(options, frame_size)
        return cut[:8] + cut[20:]  # 12 frames of 1024 samples are lost

    made_media._sound = with_gap
    try:
        track = AudioTrackOptions(rate=rate, layout="mono", samples=wave[None], **PCM)
        path = write_media(tmp_path / "a.mkv", None, track)
    finally:
        made_media._sound = original
    expected = wave.copy()
    expected[8 * piece : 20 * piece] = 0
    np.testing.assert_allclose(sound(path), expected, atol=1e-4)


def test_a_cover_picture_is_not_a_video(tmp_path: Path) -> None:
    path = write_song_with_cover(tmp_path / "song.mp3")
    assert probe(path).video is None
    assert len(sound(path)) > 40_000
    with pytest.raises(InputError, match="has no video track"):
        decode(path, audio=False, video=True)


@pytest.mark.parametrize("name", ["a.mkv", "a.mp4"])
def test_a_piece_equals_the_same_piece_of_the_whole(name: str, tmp_path: Path) -> None:
    wave = np.random.default_rng(1).uniform(-0.5, 0.5, 16_000 * 9).astype(np.float32)
    pcm = AudioTrackOptions(rate=16_000, layout="mono", samples=wave[None], **PCM)
    track = pcm if name == "a.mkv" else AudioTrackOptions(rate=16_000, layout="mono", samples=wave[None])
    times = [index / 25 for index in range(225)]
    path = write_media(tmp_path / name, VideoTrackOptions(times=times, picture=brightness), track)
    whole_sound, whole_frames = sound(path, video=True), frames(path)
    for start, duration in ((0.0, 0.5), (1.3, 2.0), (6.5, 1.25), (6.0, None)):
        piece = sound(path, video=True, start=start, duration=duration)
        begin = round(start * 16_000)
        end = len(whole_sound) if duration is None else begin + round(duration * 16_000)
        np.testing.assert_allclose(piece, whole_sound[begin:end], atol=2e-5)
        shown = frames(path, start=start, duration=duration)
        expected = [f for f in whole_frames if start - 1e-6 <= f.time < start + (duration or 99) - 1e-6]
        assert shown[0].time == pytest.approx(start, abs=1e-6)
        for one, other in zip(shown[-10:], expected[-10:], strict=True):
            assert one.time == pytest.approx(other.time, abs=1e-6)
            np.testing.assert_array_equal(one.image, other.image)


def test_wrong_requests_are_refused(tmp_path: Path) -> None:
    audio = write_media(tmp_path / "a.mp4", None, AudioTrackOptions())
    video = write_media(tmp_path / "v.mp4", VideoTrackOptions())
    for path, wanted, kind in ((audio, {"video": True, "audio": False}, "video"), (video, {}, "audio")):
        with pytest.raises(InputError, match=f"has no {kind} track"):
            decode(path, **wanted)
    with pytest.raises(UsageError, match="nothing to decode"):
        decode(audio, audio=False)
    with pytest.raises(UsageError, match="cannot decode from -1"):
        decode(audio, start=-1)
    with pytest.raises(InputError, match="no audio could be decoded from 60 s on"):
        list(decode(audio, start=60))
    with pytest.raises(InputError, match="no input format 'sorcery'"):
        decode(audio, format="sorcery")


def test_raw_samples_from_an_open_file() -> None:
    values = np.arange(-8000, 8000, dtype=np.int16)
    samples = sound(io.BytesIO(values.tobytes()), format="s16le", options={"sample_rate": "8000", "ch_layout": "mono"})
    np.testing.assert_allclose(samples, values / 32_768, atol=1e-6)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    thread.join()
    running.server_close()


def test_files_on_a_server_equal_local_ones(server: str, tmp_path: Path) -> None:
    path = write_media(tmp_path / "a.mkv", VideoTrackOptions(), AudioTrackOptions())
    np.testing.assert_array_equal(sound(f"{server}/a.mkv", video=True), sound(path, video=True))
    with pytest.raises(InputError, match=r"missing\.mkv: cannot be opened") as caught:
        decode(f"{server}/missing.mkv")
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="cannot be opened"):
        decode("http://127.0.0.1:1/a.mkv")


def test_devices_that_are_not_there() -> None:
    with pytest.raises(MissingDependencyError, match=r"cannot open the device '/dev/video97' \(v4l2\)"):
        decode("/dev/video97", audio=False, video=True, format="v4l2")
    with pytest.raises(MissingDependencyError, match="is it connected"):
        decode("hw:97", format="alsa")


def test_a_picture_that_stays_is_given_again(tmp_path: Path) -> None:
    """Slides: hours without a new picture must not become one huge step."""
    path = write_media(tmp_path / "a.mp4", VideoTrackOptions(times=[0, 35, 38], picture=brightness))
    shown = frames(path)
    assert [frame.time for frame in shown] == pytest.approx([0, 10, 20, 30, 35, 38], abs=1e-3)
    assert shown[1].image is shown[0].image
    # The same with sound that goes on after the last picture.
    track = AudioTrackOptions(rate=8000, layout="mono", samples=tone(60, 8000)[None], **PCM)
    path = write_media(tmp_path / "b.mkv", VideoTrackOptions(times=[0, 35, 38], picture=brightness), track)
    shown = frames(path, audio=True)
    assert shown[-1].end == pytest.approx(60, abs=1e-3)
    assert max(b.time - a.time for a, b in pairwise(shown)) <= 10.001
    assert len({id(frame.image) for frame in shown}) == 3


def test_tracks_that_are_stored_far_apart_are_still_used(tmp_path: Path) -> None:
    """The encoder holds its pictures back to the end: 100 s of sound come first. Beyond 120 s it is reported."""
    for seconds, fine in ((100, True), (300, False)):
        track = AudioTrackOptions(rate=8000, layout="mono", samples=tone(seconds, 8000)[None], **PCM)
        times = [float(time) for time in range(0, seconds, 20)]
        path = write_media(tmp_path / "a.mkv", VideoTrackOptions(times=times, picture=brightness), track)
        shown = []
        try:
            shown += [item for item in decode(path, video=True) if isinstance(item, VideoFrame)]
        except DamagedMediaError as error:
            assert not fine
            assert "stored too far apart" in str(error)
        else:
            assert fine
            assert {time for time in times if any(abs(f.time - time) < 1e-3 for f in shown)} == set(times)
