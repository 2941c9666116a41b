"""`--mix-streams`: clips of any folder as streams, labelled to the sample, with other sound between them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from pipelines.datasets.mixing.stream_mixer import (
    Recording,
    crossed,
    disguised,
    in_a_room,
    mix_file,
    mix_stream,
    shuffled,
    sounding_part,
)
from pipelines.datasets.opening import open_dataset
from pipelines.errors import InputError, UsageError
from tests.datasets.dataset_builders import write_sound

WORDS = ("no", "yes")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number, word in enumerate(WORDS):
        for take in range(5):
            write_sound(tmp_path / word / f"{take}.wav", seconds=0.4 + 0.02 * take, seed=10 * number + take)
    return tmp_path


def test_clips_become_events_of_streams(root: Path) -> None:
    dataset = open_dataset("folder", root, mix_streams=True, passes=2, seconds=10, pitch=0, rooms=0)
    assert dataset.kind == "frames" and dataset.class_names == ("background", *WORDS) and dataset.background == 0
    for split, clips in (("train", 8), ("validation", 2)):
        segments = [segment for item in dataset.split(split) for segment in item.segments or ()]
        assert sorted(segment.label for segment in segments) == sorted(
            [1, 2] * (clips // 2 * (2 if split == "train" else 1))
        )
    item = dataset.split("validation")[0]
    assert item.media is not None and item.segments is not None
    samples, rate = soundfile.read(item.media)
    assert rate == 16000
    loud = np.concatenate([samples[round(s.start * rate) : round(s.end * rate)] for s in item.segments])
    assert np.sqrt(np.mean(loud**2)) > 2 * np.sqrt(np.mean(samples[: round(item.segments[0].start * rate / 2)] ** 2))


def test_few_recordings_are_used_often(root: Path) -> None:
    dataset = open_dataset("folder", root, mix_streams=True)
    seconds = sum(item.duration or 0 for item in dataset.split("train"))
    assert 1000 < seconds < 2500
    assert sum(item.duration or 0 for item in dataset.split("validation")) < 10


def test_other_sound_has_no_label(root: Path) -> None:
    plain = open_dataset("folder", root, mix_streams=True, passes=3, seconds=20)
    for take in range(5):
        write_sound(root / "Background" / f"{take}.wav", seconds=5.0, seed=100 + take)
    mixed = open_dataset("folder", root, mix_streams=True, passes=3, seconds=20)
    assert mixed.class_names == plain.class_names

    lengths = [sum(item.duration or 0 for item in dataset.split("train")) for dataset in (plain, mixed)]
    assert lengths[1] > lengths[0] + 5
    events = [segment for item in mixed.split("train") for segment in item.segments or ()]
    assert len(events) == 24
    # Two thirds of the training streams hold other sound alone; what is validated on holds none of them.
    assert sum(not item.segments for item in mixed.split("train")) * 3 == len(mixed.split("train")) * 2
    assert all(item.segments for item in mixed.split("validation"))


def test_a_recording_that_was_made_again_is_heard(root: Path) -> None:
    """Also where the new one is as long as the old one, to the byte."""

    def mixed() -> list[Path]:
        dataset = open_dataset("folder", root, mix_streams=True, passes=1, seconds=10)
        return [item.media for item in dataset.split("train") if item.media is not None]

    before = mixed()
    assert mixed() == before
    sizes = {path: path.stat().st_size for path in root.rglob("*.wav")}
    for path, size in sizes.items():
        write_sound(path, seconds=0.4 + 0.02 * int(path.stem), seed=99)
        assert path.stat().st_size == size
        os.utime(path, (time.time() + 5, time.time() + 5))  # whatever the clock of the disk can tell apart
    after = mixed()
    assert mixed() == after and not set(after) & set(before)
    assert not np.array_equal(soundfile.read(after[0])[0], soundfile.read(before[0])[0])


@given(
    before=st.integers(0, 3000),
    length=st.integers(400, 3000),
    behind=st.integers(0, 3000),
    softer=st.floats(35, 120),
    rate=st.sampled_from([8000, 16000]),
)
def test_silence_at_the_ends_of_a_recording_belongs_to_no_word(
    before: int, length: int, behind: int, softer: float, rate: int
) -> None:
    generator = np.random.default_rng(before + length + behind)
    samples = generator.standard_normal(before + length + behind) * 10 ** (-softer / 20)
    samples[before : before + length] = generator.standard_normal(length)
    recording = Recording(1, samples.astype(np.float32), rate)

    begin, end = sounding_part(recording.samples, rate)
    assert abs(begin - before) <= 0.02 * rate and abs(end - (before + length)) <= 0.02 * rate
    stream, events = mix_stream([recording, recording], generator)
    assert [round((stop - start) * rate) for start, stop, _ in events] == [end - begin] * 2
    assert all(0 <= start < stop <= len(stream) / rate for start, stop, _ in events)


def test_a_recording_of_nothing_or_of_one_sample_is_itself() -> None:
    for samples in (np.zeros(100), np.zeros(4000), np.ones(1)):
        assert sounding_part(samples.astype(np.float32), 8000) == (0, len(samples))


def test_a_file_of_digital_silence_stays_silent() -> None:
    samples, events = mix_file([Recording(1, np.zeros(800, np.float32), 8000)], np.random.default_rng(0))
    assert len(samples) == 800 and not samples.any() and events[0][2] == 1


def test_a_shuffled_word_is_none_and_a_room_keeps_the_loudness() -> None:
    generator = np.random.default_rng(0)
    samples = generator.standard_normal(8000).astype(np.float32)
    word = Recording(1, samples, 16000, "ann")
    kinds = set()
    for _ in range(20):
        other = shuffled(word, generator)
        assert other.label is None
        length = len(other.samples)
        kinds.add(
            "half" if length == 4000 else "backwards" if np.array_equal(other.samples, samples[::-1]) else "pieces"
        )
        assert length == 4000 or (length == 8000 and not np.allclose(other.samples, samples, atol=0.1))
    assert kinds == {"half", "backwards", "pieces"}
    heard = in_a_room(samples, 16000, generator)
    assert heard.shape == samples.shape
    assert np.sqrt(np.mean(heard**2)) == pytest.approx(np.sqrt(np.mean(samples**2)), rel=1e-3)
    high = np.abs(np.fft.rfft(heard))[3500:].mean() / np.abs(np.fft.rfft(heard))[250:1000].mean()
    assert high < 0.15  # a microphone ends below 4 kHz


def test_a_crossed_word_begins_like_one_and_ends_like_another() -> None:
    first = Recording(1, np.linspace(0.5, 1.0, 1000, dtype=np.float32), 8000, "ann")
    second = Recording(2, -np.linspace(0.5, 1.0, 600, dtype=np.float32), 8000, "ben")
    neither = crossed(first, second)
    assert neither.label is None and neither.voice == "ann"
    assert len(neither.samples) == 500 + 300
    # The ends of both halves are faded, the rest is as it was.
    assert np.array_equal(neither.samples[40:460], first.samples[40:460])
    assert np.array_equal(neither.samples[540:760], second.samples[340:560])
    assert neither.samples[0] == neither.samples[500] == 0


def test_a_disguised_voice_is_slower_or_faster_and_another_each_time() -> None:
    generator = np.random.default_rng(0)
    talk = Recording(None, generator.standard_normal(16000).astype(np.float32), 16000, "ann")
    lengths = [len(disguised(talk, generator).samples) for _ in range(40)]
    assert min(lengths) >= 16000 * np.exp(-0.35) - 1 and max(lengths) <= 16000 * np.exp(0.35) + 1
    assert min(lengths) < 13000 and max(lengths) > 20000
    spectra = [np.abs(np.fft.rfft(disguised(talk, generator).samples, 16000)) for _ in range(2)]
    assert np.abs(20 * np.log10(spectra[0][500:1500].mean() / spectra[1][500:1500].mean())) > 0.1


def test_what_cannot_be_mixed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(UsageError, match="--passes is for streams that are mixed from clips: give --mix-streams too"):
        open_dataset("folder", root, passes=2)
    with pytest.raises(UsageError, match="--rooms is a share of the training streams, from 0 to 1, not 2"):
        open_dataset("folder", root, mix_streams=True, rooms=2.0)
    only = tmp_path_factory.mktemp("only")
    write_sound(only / "noise" / "0.wav")
    with pytest.raises(InputError, match="has nothing to spot"):
        open_dataset("folder", only, mix_streams=True)
    (root / "labels.csv").write_text("file,start,end,label\n")
    with pytest.raises(UsageError, match=r"--mix-streams is for folders of clips"):
        open_dataset("folder", root, mix_streams=True)
