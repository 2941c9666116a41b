"""Files that are broken: everything that can be decoded, then one clear line. Never a crash, never a hang."""

from __future__ import annotations

import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from pipelines.errors import InputError
from pipelines.features.media import AudioBlock, DamagedMediaError, decode, probe
from pipelines.features.media.timeline import LONGEST_GAP, Timeline
from tests.features.made_media import AudioTrackOptions, VideoTrackOptions, brightness, tone, write_media

SECONDS = 8
TIMES = [index / 25 for index in range(SECONDS * 25)]
PICTURES = VideoTrackOptions(times=TIMES, picture=brightness)
MP3 = AudioTrackOptions(codec="mp3", samples=np.repeat(tone(SECONDS, 44_100)[None], 2, axis=0))
AAC = AudioTrackOptions(samples=np.repeat(tone(SECONDS, 44_100)[None], 2, axis=0))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("whole")
    for name in ("a.wav", "a.flac", "a.aiff"):
        soundfile.write(folder / name, tone(SECONDS, 22_050), 22_050)
    write_media(folder / "fast.mp4", PICTURES, AAC, options={"movflags": "+faststart"})
    write_media(folder / "a.mp4", PICTURES, AAC)
    write_media(folder / "a.mkv", PICTURES, AAC)
    write_media(folder / "a.avi", VideoTrackOptions(codec="mpeg4", clock=25, times=TIMES, picture=brightness), MP3)
    write_media(folder / "a.ts", PICTURES, AAC)
    write_media(folder / "a.mp3", None, MP3)
    return {path.name: path for path in sorted(folder.iterdir())}


def cut(path: Path, folder: Path, part: float) -> Path:
    data = path.read_bytes()
    (folder / path.name).write_bytes(data[: int(len(data) * part)])
    return folder / path.name


def run(source: Any, video: bool) -> tuple[float, str | None]:
    """Seconds of sound or pictures, and what the damage is; an InputError goes through."""
    end = 0.0
    try:
        for item in decode(source, audio=not video, video=video):
            if not isinstance(item, AudioBlock):
                assert item.image.ndim == 3
            end = item.end
    except DamagedMediaError as error:
        assert "\n" not in str(error)
        return end, error.reason
    return end, None


@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.aiff", "fast.mp4", "a.mkv", "a.avi"])
@pytest.mark.parametrize("part", [0.3, 0.61, 0.9])
def test_a_file_that_ends_in_the_middle_gives_what_it_has(
    name: str, part: float, whole: dict[str, Path], tmp_path: Path
) -> None:
    path = cut(whole[name], tmp_path, part)
    for video in (False, True) if probe(whole[name]).video else (False,):
        end, reason = run(path, video)
        assert reason is not None
        assert "ends in the middle" in reason
        assert SECONDS * part - 2.5 < end < SECONDS
        assert run(whole[name], video)[1] is None


@pytest.mark.parametrize("name", ["a.ts", "a.mp3"])
def test_streams_without_a_length_just_end_earlier(name: str, whole: dict[str, Path], tmp_path: Path) -> None:
    """Transport streams and MP3 have no beginning and no end: a piece of one is one."""
    end, _ = run(cut(whole[name], tmp_path, 0.5), video=False)
    assert end == pytest.approx(SECONDS / 2, abs=1.0)


def test_a_recording_without_its_index_is_one_line(whole: dict[str, Path], tmp_path: Path) -> None:
    for call in (probe, decode):
        with pytest.raises(InputError, match=r"a\.mp4: not audio or video that ffmpeg can read, or cut off") as caught:
            call(cut(whole["a.mp4"], tmp_path, 0.7))  # type: ignore[operator]
        assert "\n" not in str(caught.value)


def test_a_hole_in_the_middle_is_reported_and_passed(whole: dict[str, Path], tmp_path: Path) -> None:
    data = bytearray(whole["a.mkv"].read_bytes())
    middle = len(data) // 2
    data[middle : middle + 3000] = bytes(3000)
    (tmp_path / "a.mkv").write_bytes(data)
    end, _ = run(tmp_path / "a.mkv", video=True)
    assert end == pytest.approx(SECONDS, abs=0.5)


def test_not_a_number_in_a_recording_is_reported(tmp_path: Path) -> None:
    wave = tone(1.0, 16_000)
    wave[100:110] = np.nan
    wave[200] = np.inf
    soundfile.write(tmp_path / "a.wav", wave, 16_000, subtype="FLOAT")
    heard = []
    with pytest.raises(DamagedMediaError, match="NaN or infinite: 11"):
        for item in decode(tmp_path / "a.wav"):
            heard.append(item.samples)  # type: ignore[union-attr]
    assert np.isfinite(np.concatenate(heard)).all()


def nonsense(folder: Path, whole: dict[str, Path]) -> dict[str, Path]:
    """A hundred files, each broken in its own way."""
    random = np.random.default_rng(7)
    names = list(whole)
    made: dict[str, bytes] = {}
    for index in range(12):
        suffix = (".mp4", ".mkv", ".wav", ".mp3", ".avi", ".flac")[index % 6]
        made[f"random{index}{suffix}"] = random.bytes(int(random.integers(1, 60_000)))
        made[f"zeros{index}{suffix}"] = bytes(int(random.integers(1, 60_000)))
    for index in range(30):
        data = bytearray(whole[names[index % len(names)]].read_bytes())
        for place in random.integers(0, len(data), 200):
            data[place] = random.integers(256)
        made[f"flipped{index}-{names[index % len(names)]}"] = bytes(data)
    for index in range(30):
        data = whole[names[index % len(names)]].read_bytes()
        made[f"cut{index}-{names[index % len(names)]}"] = data[: int(random.integers(1, len(data)))]
    for index, name in enumerate(names):  # another format's suffix
        made[f"suffix{index}{Path(names[index - 1]).suffix}"] = whole[name].read_bytes()
    made["text.mp4"] = b"Dear diary,\n" * 50
    made["text.txt"] = b"Dear diary,\n" * 50
    made["page.mkv"] = b"<!doctype html><html><body>404</body></html>"
    made["header.wav"] = whole["a.wav"].read_bytes()[:44]
    made["header.flac"] = whole["a.flac"].read_bytes()[:60]
    made["empty.mp4"] = b""
    made["list.m3u8"] = b"#EXTM3U\n#EXTINF:5,\nmissing.ts\n#EXT-X-ENDLIST\n"
    for name, data in made.items():
        (folder / name).write_bytes(data)
    return {name: folder / name for name in made}


def test_a_hundred_broken_files(whole: dict[str, Path], tmp_path: Path) -> None:
    begin = time.process_time()
    files = nonsense(tmp_path, whole)
    assert len(files) >= 99
    good = []
    for name, path in files.items():
        for video in (False, True):
            try:
                end, damage = run(path, video)
            except InputError as error:
                assert "\n" not in str(error)
                assert str(path) in str(error)
            else:
                assert end > 0 or damage
                if damage is None:
                    good.append(name)
    # What carries no sign of damage: whole files under another suffix, and flips that hit nothing that is checked.
    assert not [name for name in good if name.startswith(("random", "zeros", "text", "page", "header", "empty"))]
    assert time.process_time() - begin < 60


class TestTimeline:
    def test_times_start_at_the_origin(self) -> None:
        timeline = Timeline(origin=1.5, length=10)
        assert [timeline.place(1.5 + index, 1.0) for index in range(3)] == [0, 1, 2]

    def test_missing_timestamps_follow_the_last(self) -> None:
        timeline = Timeline(0.0, None)
        assert [timeline.place(stamp, 0.5) for stamp in (0.0, None, None, 2.0, None)] == [0, 0.5, 1.0, 2.0, 2.5]

    def test_absurd_jumps_do_not_make_hours(self) -> None:
        timeline = Timeline(0.0, None)
        timeline.place(0.0, 1.0)
        assert timeline.place(1e9, 1.0) == 1.0
        assert timeline.place(1e9 + 1, 1.0) == 2.0
        assert timeline.jumps == 1
        assert timeline.place(1e9 + LONGEST_GAP, 1.0) == LONGEST_GAP + 1  # a gap that is believed

    def test_a_clock_that_restarts_goes_on(self) -> None:
        timeline = Timeline(0.0, 100.0)
        for index in range(50):
            timeline.place(float(index), 1.0)
        assert timeline.place(0.0, 1.0) == 50.0
        assert timeline.place(1.0, 1.0) == 51.0

    def test_the_stated_length_allows_long_gaps(self) -> None:
        timeline = Timeline(0.0, 7200.0)
        timeline.place(0.0, 1.0)
        assert timeline.place(7000.0, 1.0) == 7000.0
        assert timeline.jumps == 0


def test_headers_that_speak_of_years_are_not_believed(whole: dict[str, Path], tmp_path: Path) -> None:
    """An AVI file whose frames last two months each, by a damaged number in the header."""
    data = bytearray(whole["a.avi"].read_bytes())
    place = data.index(b"strh") + 8 + 20  # the scale of the video stream's rate
    data[place : place + 4] = (0x7FFFFFF0).to_bytes(4, "little")
    (tmp_path / "a.avi").write_bytes(data)
    info = probe(tmp_path / "a.avi")
    assert info.duration is None or info.duration < 60
    begin = time.process_time()
    try:
        last = list(decode(tmp_path / "a.avi", video=True))[-1].end
    except DamagedMediaError as error:
        last = error.seconds
    assert last < 60
    assert time.process_time() - begin < 20


@pytest.mark.parametrize(("spoilt", "damaged"), [([-1], False), ([-9], True), ([-9, -1], True)])
def test_one_bad_packet_at_the_very_end_is_no_damage(spoilt: list[int], damaged: bool, tmp_path: Path) -> None:
    """Encoders leave such a packet behind; anywhere else something is missing."""
    import av

    write_media(tmp_path / "a.mp4", None, AAC)
    with av.open(str(tmp_path / "a.mp4")) as source, av.open(str(tmp_path / "b.mp4"), "w") as target:
        stream = target.add_stream_from_template(source.streams.audio[0])
        packets = [packet for packet in source.demux(audio=0) if packet.size]
        bad = {index % len(packets) for index in spoilt}
        for index, packet in enumerate(packets):
            written = av.Packet(b"\xff" * packet.size) if index in bad else packet
            written.pts, written.dts, written.time_base = packet.pts, packet.dts, packet.time_base
            written.stream = stream
            target.mux(written)
    end, damage = run(tmp_path / "b.mp4", video=False)
    assert end == pytest.approx(SECONDS, abs=0.1)
    assert (damage is not None) == damaged


def test_an_ogg_file_without_its_last_page(tmp_path: Path) -> None:
    """Cut between two pages, every page that is there is whole: only the last one says that it is the last."""
    path = tmp_path / "a.ogg"
    soundfile.write(path, tone(SECONDS, 22_050), 22_050)
    assert run(path, video=False)[1] is None
    data = path.read_bytes()
    path.write_bytes(data[: data.rindex(b"OggS")])
    end, damage = run(path, video=False)
    assert 0 < end < SECONDS and damage is not None and "the file ends in the middle" in damage


@pytest.mark.parametrize("begin", [0, 100])
@pytest.mark.parametrize(("stated", "damaged"), [(3, False), (5, True)])
def test_a_track_that_is_shorter_than_its_header_says(begin: int, stated: int, damaged: bool, tmp_path: Path) -> None:
    """A last picture may stay for a while, wherever the clock of the recording began."""
    import av

    path = tmp_path / "a.mkv"
    with av.open(str(path), "w") as target:
        stream = target.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
        for number in range(20):
            frame = av.VideoFrame.from_ndarray(np.full((32, 32, 3), 10 * number, np.uint8), format="rgb24")
            frame.pts, frame.time_base = 10 * begin + number, Fraction(1, 10)
            target.mux(stream.encode(frame))
        target.mux(stream.encode(None))
    data = path.read_bytes()
    there, said = (b"00:%02d:%02d.000000000" % divmod(begin + end, 60) for end in (2, stated))
    assert data.count(there) == 1
    path.write_bytes(data.replace(there, said))
    end, damage = run(path, video=True)
    assert end == pytest.approx(2.0)
    assert (damage is not None and "shorter than its header says" in damage) == damaged
