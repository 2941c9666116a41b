"""Changed copies of video: the same scene through another camera, in step with its sound."""

from __future__ import annotations

import json
from pathlib import Path

import av
import numpy as np
import pytest

from pipelines.datasets.item import Item
from pipelines.datasets.mixing import changed_copies as copying
from pipelines.datasets.mixing.changed_copies import LONGEST, changed_copies
from pipelines.datasets.mixing.changed_video import QUALITIES, SIDE, SPEED, Camera, copy_video
from pipelines.features.media import AudioBlock, VideoFrame, decode, probe
from tests.features.made_recordings import write_sound, write_video

VIDEO = frozenset({"video"})


def scene(height: int = 120, width: int = 160) -> np.ndarray:
    """Dark on the left, light on the right, red above and blue below."""
    picture = np.zeros((height, width, 3), np.uint8)
    picture[:, width // 2 :] = 200
    picture[: height // 2, :, 0] = 220
    picture[height // 2 :, :, 2] = 120
    return picture


def pictures(path: Path) -> list[VideoFrame]:
    return [frame for frame in decode(path, audio=False, video=True) if isinstance(frame, VideoFrame)]


def test_a_camera_changes_a_little_and_never_mirrors() -> None:
    shown = scene()
    seen = [Camera(np.random.default_rng(seed)).picture(shown) for seed in range(40)]
    assert all(copy.shape == shown.shape and copy.dtype == np.uint8 for copy in seen)
    assert len({copy.tobytes() for copy in seen}) == 40
    for copy in seen:
        assert copy[:, 130:].mean() > copy[:, :30].mean() + 20  # what is on the left stays there
        assert copy[:30, :, 0].mean() > copy[90:, :, 0].mean() + 20  # and what is above
        assert 0.4 < copy.mean() / shown.mean() < 1.9
    again = Camera(np.random.default_rng(7)).picture(shown)
    np.testing.assert_array_equal(again, seen[7])


def test_copies_of_large_pictures_are_small_and_even() -> None:
    camera = Camera(np.random.default_rng(0))
    for height, width in ((1080, 1921), (2000, 333), (3, 5), (1, 1)):
        copy = camera.picture(np.zeros((height, width, 3), np.uint8))
        assert min(copy.shape[:2]) <= SIDE and not any(length % 2 for length in copy.shape[:2])
        assert abs(np.log(copy.shape[0] / copy.shape[1] * width / height)) < 0.7


@pytest.mark.parametrize("seed", range(6))
def test_a_copy_has_the_pictures_of_its_clip_at_another_speed(tmp_path: Path, seed: int) -> None:
    source = write_video(tmp_path / "clip.mp4", 2.0, audio=False)
    copy_video(source, tmp_path / "copy.mp4", np.random.default_rng(seed))
    before, after = pictures(source), pictures(tmp_path / "copy.mp4")
    assert len(after) == len(before)
    factor = after[-1].end / before[-1].end
    assert 1 - 1.1 * SPEED < factor < 1 + 1.1 * SPEED and abs(factor - 1) > 1e-3
    for old, new in zip(before, after, strict=True):
        assert new.time == pytest.approx(factor * old.time, abs=2e-3)
    info = probe(tmp_path / "copy.mp4")
    assert info.audio is None and info.video is not None and info.video.codec in ("h264", "mpeg4")


def test_both_encoders_are_taken_and_a_copy_is_the_same_every_time(tmp_path: Path) -> None:
    source = write_video(tmp_path / "clip.mp4", 0.5, audio=False)
    codecs, files = set(), []
    for seed in range(8):
        copy_video(source, tmp_path / f"{seed}.mp4", np.random.default_rng(seed))
        copy_video(source, tmp_path / "again.mp4", np.random.default_rng(seed))
        files.append((tmp_path / "again.mp4").read_bytes())
        assert files[-1] == (tmp_path / f"{seed}.mp4").read_bytes()
        info = probe(tmp_path / f"{seed}.mp4")
        assert info.video is not None
        codecs.add(info.video.codec)
    assert len(codecs) == len(QUALITIES) and len(set(files)) == len(files)


def test_sound_stays_in_step_with_the_pictures(tmp_path: Path) -> None:
    source = tmp_path / "flash.mp4"
    with av.open(str(source), "w") as container:  # after 1.5 s: a flash and a click
        stream, track = container.add_stream("mpeg4", rate=20), container.add_stream("aac", rate=16000, layout="mono")
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(60):
            image = np.full((48, 64, 3), 230 if number >= 30 else 20, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, "rgb24")))
        container.mux(stream.encode(None))
        samples = np.zeros((1, 48000), np.float32)
        samples[0, 24000:] = 0.5 * np.sin(np.arange(24000) / 3)
        frame = av.AudioFrame.from_ndarray(samples, "fltp", "mono")
        frame.sample_rate = 16000
        container.mux([*track.encode(frame), *track.encode(None)])
    copy_video(source, tmp_path / "copy.mp4", np.random.default_rng(3), sound=True)
    before, after = flash_and_click(source), flash_and_click(tmp_path / "copy.mp4")
    factor = after[0] / before[0]
    assert abs(factor - 1) > 0.02  # this one is slower
    assert after[1] / before[1] == pytest.approx(factor, abs=0.005)


def flash_and_click(path: Path) -> tuple[float, float]:
    """When it gets light, and when it gets loud, in seconds."""
    seen, heard, rate = [], [], 0
    for item in decode(path, audio=True, video=True):
        if isinstance(item, AudioBlock):
            heard.append(item.samples)
            rate = item.rate
        else:
            seen.append((item.time, item.image.mean()))
    sound = np.abs(np.concatenate(heard))
    return next(time for time, level in seen if level > 120), int(np.argmax(sound > 0.5 * sound.max())) / rate


def test_copies_of_video_are_cached_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTRANS_CACHE", str(tmp_path / "cache"))
    items = [
        Item(f"clip {number}", "train", media=write_video(tmp_path / f"{number}.mp4", 0.5, audio=False, seed=number))
        for number in range(3)
    ]
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no video")
    others = [
        Item("broken", "train", media=broken),
        Item("sound alone", "train", media=write_sound(tmp_path / "sound.wav")),
        Item("long", "train", media=items[0].media, duration=LONGEST + 1),
    ]
    told: list[tuple[int, int, str]] = []
    copies = changed_copies([*items, *others], 1, tmp_path, tracks=VIDEO, on_item=lambda *values: told.append(values))
    assert [copy.copy_of for copy in copies] == [item.name for item in items]  # what cannot be copied has none
    assert [done for done, _, _ in told] == [0, 1, 2, 3, 4, 5] and {total for _, total, _ in told} == {5}
    assert told[0][2] == "copy of clip 0"
    monkeypatch.setattr(copying, "copy_video", lambda *_: pytest.fail("they are there"))
    assert changed_copies([*items, *others], 1, tmp_path, tracks=VIDEO) == copies
    folder = Path(str(copies[0].media)).parent
    assert json.loads((folder / "index.json").read_text())[3:] == [None, None]
    assert {path.suffix for path in folder.iterdir()} == {".mp4", ".json"} and len([*folder.iterdir()]) == 4


def test_copies_of_both_have_both_and_of_pictures_alone_no_sound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COTRANS_CACHE", str(tmp_path / "cache"))
    item = Item("clip", "train", media=write_video(tmp_path / "clip.mp4", 1.0))
    for tracks in ({"video"}, {"audio", "video"}, {"audio"}):
        (copy,) = changed_copies([item], 1, tmp_path, tracks=frozenset(tracks))
        assert copy.media is not None
        info = probe(copy.media)
        assert (info.audio is not None, info.video is not None) == ("audio" in tracks, "video" in tracks)
