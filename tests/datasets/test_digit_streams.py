"""Streams of spoken digits: seeded, labelled to the sample, speakers kept apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from pipelines.datasets import frame_targets, open_dataset
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
    with pytest.raises(InputError, match="nobody is left to train on"):
        open_dataset("digits", empty)
    with pytest.raises(UsageError, match="--passes of at least 1"):
        open_dataset("digits", root, passes=0)
