"""Streams of spoken digits: seeded, labelled to the sample, speakers kept apart."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile

from pipelines.datasets.mixing.stream_mixer import Recording
from pipelines.datasets.opening import open_dataset
from pipelines.datasets.published import digit_streams
from pipelines.datasets.rows.frame_targets import frame_targets
from pipelines.errors import InputError, UsageError
from tests.datasets.dataset_builders import write_sound

SPEAKERS = ("ann", "bob", "eve")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number, speaker in enumerate(SPEAKERS):
        for digit in range(10):
            for take in range(2):
                seed = 100 * number + 10 * digit + take
                write_sound(tmp_path / f"{digit}_{speaker}_{take}.wav", seconds=0.3 + 0.01 * seed % 0.2, seed=seed)
    return tmp_path


def test_every_recording_is_used_once_and_labelled_where_it_is(root: Path) -> None:
    dataset = open_dataset("digits", root, seconds=10)
    assert dataset.class_names == ("background", *"0123456789") and dataset.background == 0
    for split, recordings in (("train", 40), ("validation", 20)):
        segments = [segment for item in dataset.split(split) for segment in item.segments or ()]
        assert sorted(segment.label for segment in segments) == sorted(list(range(1, 11)) * (recordings // 10))
    for item in dataset.items:
        assert item.media is not None and item.segments is not None
        samples, rate = soundfile.read(item.media)
        assert item.duration == pytest.approx(len(samples) / rate)
        assert 0.1 < np.abs(samples).max() < 0.99
        times = [time for segment in item.segments for time in (segment.start, segment.end)]
        assert times == sorted(times) and times[0] > 0 and times[-1] < len(samples) / rate
        for segment in item.segments:
            heard = samples[round(segment.start * rate) : round(segment.end * rate)]
            spoken = [soundfile.read(path)[0] for path in root.glob(f"{segment.label - 1}_*.wav")]
            likeness = [np.corrcoef(heard, take)[0, 1] for take in spoken if len(take) == len(heard)]
            assert max(likeness) > 0.9
        labels = frame_targets(dataset, item, int(len(samples) / rate / 0.1), 0.1).targets.argmax(axis=1)
        assert set(labels) == {0} | {segment.label for segment in item.segments}


def test_speakers_are_kept_apart(root: Path) -> None:
    streams = {}
    for speaker in SPEAKERS:
        dataset = open_dataset("digits", root, fold=speaker, seconds=10)
        assert {item.group for item in dataset.split("validation")} == {speaker}
        assert all(item.name.startswith(f"{speaker}-") for item in dataset.split("validation"))
        streams[speaker] = len(dataset.split("train"))
    tested = open_dataset("digits", root, fold="ann", test_fold="eve", seconds=10)
    assert {item.group for item in tested.split("test")} == {"eve"}
    assert sum(len(item.segments or ()) for item in tested.split("train")) == 20
    with pytest.raises(UsageError, match=r"no recordings of 'joe' in .*: there are ann, bob, eve"):
        open_dataset("digits", root, fold="joe")
    with pytest.raises(UsageError, match="cannot be for validation and for test"):
        open_dataset("digits", root, fold="ann", test_fold="ann")


def test_the_same_seed_gives_the_same_streams(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    def mixed(cache: str, **options: int) -> list[bytes]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COTRANS_CACHE", str(tmp_path_factory.getbasetemp() / cache))
            dataset = open_dataset("digits", root, seconds=10, **options)
            return [item.media.read_bytes() for item in dataset.items if item.media is not None]

    first = mixed("one")
    assert mixed("two") == first
    assert mixed("three", split_seed=1) != first
    doubled = open_dataset("digits", root, seconds=10, passes=2)
    assert sum(len(item.segments or ()) for item in doubled.split("train")) == 80
    assert sum(len(item.segments or ()) for item in doubled.split("validation")) == 20


def voice_of(heard: np.ndarray, root: Path) -> str:
    """Whose recording this is."""
    takes = {path: soundfile.read(path)[0] for path in root.glob("*.wav")}
    alike = {path: np.corrcoef(heard, take)[0, 1] for path, take in takes.items() if len(take) == len(heard)}
    return max(alike, key=lambda path: alike[path]).stem.split("_")[1]


def test_a_stream_of_one_voice(root: Path) -> None:
    dataset = open_dataset("digits", root, seconds=5, one_voice=True)
    heard = []
    for item in dataset.split("train"):
        assert item.media is not None and item.segments is not None
        samples, rate = soundfile.read(item.media)
        parts = [samples[round(part.start * rate) : round(part.end * rate)] for part in item.segments]
        heard.append({voice_of(part, root) for part in parts})
    assert all(len(voices) == 1 for voices in heard) and set.union(*heard) == {"bob", "eve"}


def test_changed_voices_are_for_training_only(root: Path) -> None:
    plain = open_dataset("digits", root, seconds=10)
    changed = open_dataset("digits", root, seconds=10, pitch=0.2, passes=2)
    assert [item.media for item in changed.split("validation")] == [item.media for item in plain.split("validation")]

    def length(split: str) -> float:
        dataset = plain if split == "plain" else changed
        return sum(part.end - part.start for item in dataset.split("train") for part in item.segments or ())

    assert abs(length("changed") / 2 / length("plain") - 1) > 1e-3
    with pytest.raises(UsageError, match=r"--pitch is the largest change of voices, from 0 to 0.4, not 0.6"):
        open_dataset("digits", root, pitch=0.6)


def test_words_as_in_files_begin_at_once_and_have_no_noise_between_them(root: Path) -> None:
    plain = open_dataset("digits", root, seconds=10)
    dataset = open_dataset("digits", root, seconds=10, as_files=0.5)
    streams, before = dataset.split("train"), plain.split("train")
    for item, same in zip(streams[: len(before)], before, strict=True):
        assert item.media is not None and same.media is not None
        assert item.media.read_bytes() == same.media.read_bytes()
    files = streams[len(before) :]
    assert [len(item.segments or ()) for item in files] == [3] * 6 + [2]  # half of 40 recordings
    for item in files:
        assert item.media is not None and item.segments is not None
        samples, rate = soundfile.read(item.media)
        assert item.segments[0].start < 0.03 and item.segments[-1].end > len(samples) / rate - 0.03
        for earlier, later in pairwise(item.segments):
            pause = samples[round((earlier.end + 0.03) * rate) : round((later.start - 0.03) * rate)]
            assert len(pause) > 0 and not pause.any()
    assert len(dataset.split("validation")) == len(plain.split("validation"))
    with pytest.raises(UsageError, match="--as-files is a share of the training recordings, from 0 to 1, not 2"):
        open_dataset("digits", root, as_files=2.0)


def test_a_higher_voice_is_faster_and_higher() -> None:
    times = np.arange(4000) / 8000
    tone = Recording(1, np.sin(2 * np.pi * 500 * times).astype(np.float32), 8000, "ann")
    for factor in (0.8, 1.25):
        changed = tone.at_pitch(factor)
        assert (changed.label, changed.voice, len(changed.samples)) == (1, "ann", round(4000 / factor))
        spectrum = np.abs(np.fft.rfft(changed.samples * np.hanning(len(changed.samples))))
        assert spectrum.argmax() / changed.seconds == pytest.approx(500 * factor, abs=5)


def test_what_cannot_be_used(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    (root / "3_ann_9.wav").write_bytes(b"broken")
    write_sound(root / "hello.wav")
    problems = open_dataset("digits", root, seconds=10).problems
    assert any("3_ann_9.wav" in problem for problem in problems)
    assert any("not named DIGIT_SPEAKER_TAKE, left out: hello.wav" in problem for problem in problems)
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(InputError, match=r"no recordings in .*DIGIT_SPEAKER_TAKE"):
        open_dataset("digits", empty)
    write_sound(empty / "0_ann_0.wav")
    alone = open_dataset("digits", empty)  # somebody new, to score a model on
    assert [item.group for item in alone.split("validation")] == ["ann"]
    with pytest.raises(InputError, match=r"'train' has no items.*nobody is left to train on"):
        alone.split("train")
    with pytest.raises(UsageError, match="--passes must be at least 1, not 0"):
        open_dataset("digits", root, passes=0)
    with pytest.raises(UsageError, match="--seconds must be at least 5, not 4"):
        open_dataset("digits", root, seconds=4)


def test_without_a_folder_the_sample_is_opened_and_says_what_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("COTRANS_DATA", raising=False)
    monkeypatch.setenv("COTRANS_CACHE", str(tmp_path))
    dataset = open_dataset("digits", fold="george")
    assert {item.group for item in dataset.split("validation")} == {"george"}
    said = "\n".join(dataset.problems)
    assert "the 50 recordings that ship with cotrans" in said and "cotrans data get digits" in said
    assert sum(path.stat().st_size for path in digit_streams.SAMPLE.iterdir()) < 1_000_000


def test_nobody_is_kept_out_when_everybody_is_to_be_trained_on(root: Path) -> None:
    dataset = open_dataset("digits", root, fold="none", seconds=10)
    assert dataset.splits == ("train",)
    segments = [segment for item in dataset.items for segment in item.segments or ()]
    assert len(segments) == 60
    tested = open_dataset("digits", root, fold="none", test_fold="eve", seconds=10)
    assert {item.group for item in tested.split("test")} == {"eve"} and "validation" not in tested.splits
