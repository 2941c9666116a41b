"""Short clips as a stream plays them: every clip once, with pauses that belong to the clip before."""

from __future__ import annotations

import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.datasets.item import Item
from pipelines.datasets.mixing.sound_files import read_sound
from pipelines.errors import ConfigurationError
from pipelines.features.request import FeatureRequest
from pipelines.features.stream_factory import StreamFactory
from pipelines.training.recipes.recipe_file import build_recipe
from pipelines.training.run import train
from pipelines.training.samples.clips_in_a_row import CLIPS, LONGER_CLIPS, WORDS, clips_in_a_row
from pipelines.training.samples.opening import open_data
from tests.features.made_recordings import write_sound, write_video

HOP, SECONDS = 0.1, 0.5
FLAGS = {"data.dataset": "folder", "data.in_a_row": True, "features.names": "logmel", "features.workers": 1}


def made_items(root: Path, count: int) -> list[Item]:
    return [
        Item(f"{n}", "train", media=write_sound(root / f"{n}.wav", SECONDS, seed=n), label=n % 2) for n in range(count)
    ]


def test_every_clip_is_heard_once(tmp_path: Path) -> None:
    items = [*made_items(tmp_path, 7), Item("features alone", "train", label=1)]
    streams = StreamFactory(FeatureRequest("logmel", hop=HOP), "cpu")
    made = clips_in_a_row(items, streams, classes=2)
    assert len(made) == 3  # of three, three and one
    rows = np.concatenate([recording.target_rows(np.arange(len(recording))) for recording in made])
    valid = np.concatenate([recording.valid_rows(np.arange(len(recording))) for recording in made])
    assert (rows[valid].sum(axis=1) == 1).all()
    # Four clips of one class and three of the other, each with a pause of two clips at most.
    clip = SECONDS / HOP
    for label, count in ((0, 4), (1, 3)):
        assert count * clip - count <= rows[:, label].sum() <= count * (1 + WORDS.lengths[1]) * clip + count
    again = clips_in_a_row(items, streams, classes=2)
    for one, other in zip(made, again, strict=True):
        np.testing.assert_array_equal(one.rows[:], other.rows[:])


def test_clips_are_not_held_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[weakref.ref[Any]] = []
    most = 0

    def reading(path: Path, rate: int) -> Any:
        nonlocal most
        sound = read_sound(path, rate)
        read.append(weakref.ref(sound))
        most = max(most, sum(other() is not None for other in read))
        return sound

    monkeypatch.setattr("pipelines.training.samples.clips_in_a_row.read_sound", reading)
    streams = StreamFactory(FeatureRequest("logmel", hop=HOP), "cpu")
    assert len(clips_in_a_row(made_items(tmp_path, 12), streams, 2)) == 4
    assert most <= CLIPS


def test_rows_after_a_clip_are_its_own_and_none_is_lost(tmp_path: Path) -> None:
    (made,) = clips_in_a_row(made_items(tmp_path, CLIPS), StreamFactory(FeatureRequest("logmel", hop=HOP), "cpu"), 2)
    assert made.valid is not None and made.targets is not None
    assert made.valid[:-1].all()  # up to the end of the sound, pauses included
    changes = int((np.diff(made.targets[made.valid].argmax(axis=1)) != 0).sum())
    assert changes <= CLIPS - 1


@pytest.mark.parametrize(("lengths", "late"), [((1.0, 1.0, 0.4), 0.75), ((2.0, 2.0, 0.8), 0.4)])
def test_a_label_comes_when_enough_of_its_clip_has_been_heard(
    lengths: tuple[float, ...], late: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of clips that are much shorter than the others: their label does not wait for the next clip."""
    without_pauses = replace(WORDS if lengths[0] < 1.2 else LONGER_CLIPS, pauses=0.0)
    for name in ("WORDS", "LONGER_CLIPS"):
        monkeypatch.setattr(f"pipelines.training.samples.clips_in_a_row.{name}", without_pauses)
    items = [
        Item(f"{n}", "train", media=write_sound(tmp_path / f"{n}.wav", seconds, seed=n), label=n)
        for n, seconds in enumerate(lengths)
    ]
    for seed in range(4):  # several orders
        monkeypatch.setattr("pipelines.training.samples.clips_in_a_row.SEED", seed)
        (made,) = clips_in_a_row(items, StreamFactory(FeatureRequest("logmel", hop=HOP), "cpu"), CLIPS)
        assert made.targets is not None and made.valid is not None
        labels = made.targets[made.valid].argmax(axis=1)
        order = list(dict.fromkeys(labels.tolist()))
        assert len(order) == CLIPS
        begins = np.cumsum([0.0, *(lengths[label] for label in order)])
        wanted = [begins[place] + late * lengths[order[place]] for place in (1, 2)]
        np.testing.assert_allclose((np.flatnonzero(np.diff(labels)) + 1) * HOP, wanted, atol=HOP)
        assert made.valid.sum() == pytest.approx(begins[-1] / HOP, abs=1)  # and no row beyond the sound


def test_a_file_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    items = made_items(tmp_path, 4)
    (tmp_path / "broken.wav").write_bytes(b"RIFF")
    broken = replace(items[0], media=tmp_path / "broken.wav")
    streams = StreamFactory(FeatureRequest("logmel", hop=HOP), "cpu")
    assert len(clips_in_a_row([broken, *items[1:]], streams, 2)) == 1


def test_they_are_kept_and_played_anew_when_a_file_has_changed(tmp_path: Path) -> None:
    items = made_items(tmp_path, 4)
    streams = StreamFactory(FeatureRequest("logmel", hop=HOP), "cpu")
    told: list[str] = []

    def play() -> list[np.ndarray]:
        made = clips_in_a_row(items, streams, 2, tmp_path / "cache", lambda done, count, name: told.append(name))
        plain = clips_in_a_row(items, streams, 2)
        for one, other in zip(made, plain, strict=True):
            np.testing.assert_array_equal(one.rows[:], other.rows[:])
            np.testing.assert_array_equal(one.targets, other.targets)
        return [recording.rows[:] for recording in made]

    before = play()
    assert told and len(list((tmp_path / "cache").iterdir())) == 1
    told.clear()
    for one, other in zip(play(), before, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not told
    write_sound(tmp_path / "0.wav", 2 * SECONDS, seed=9)
    assert sum(map(len, play())) > sum(map(len, before)) and told
    assert clips_in_a_row([Item("features alone", "train", label=1)], streams, 2, tmp_path / "cache") == ()


def test_they_are_trained_on_beside_the_clips(tmp_path: Path) -> None:
    for number in range(6):
        for label in ("yes", "no"):
            write_sound(tmp_path / "clips" / label / f"{number}.wav", SECONDS, seed=number)
    places = {"data.root": str(tmp_path / "clips"), "features.cache": str(tmp_path / "cache")}
    small = {"training.epochs": 1, "training.loss_on": "every", "training.batch_size": 4, "model.window": 5}
    recipe = build_recipe(None, {**FLAGS, **places, **small})
    data = open_data(recipe)
    assert len(data.in_a_row) == -(-len(data.train) // CLIPS)
    result = train(recipe, tmp_path / "run", device="cpu")
    assert result.train_recordings == len(data.train)
    kept = (tmp_path / "run" / "recordings.csv").read_text(encoding="utf-8").splitlines()
    assert kept[0] == "split,name,label" and len(kept) == 1 + 12  # which clips were kept for validation
    assert [line for line in kept if line.startswith("validation,")] == [
        f"validation,{recording.name},{data.dataset.class_names[recording.label or 0]}" for recording in data.validation
    ]
    assert result.steps == -(-(len(data.train) + len(data.in_a_row)) // 4)
    last = build_recipe(None, {**FLAGS, **places, **small, "training.loss_on": "last"})
    with pytest.raises(ConfigurationError, match=r"data\.in_a_row puts clips in a row"):
        train(last, tmp_path / "other", device="cpu")


def test_pictures_cannot_be_heard(tmp_path: Path) -> None:
    for label in ("up", "down"):
        for number in range(2):
            write_video(tmp_path / "clips" / label / f"{number}.mp4", 0.5, audio=False, seed=number)
    places = {"data.root": str(tmp_path / "clips"), "features.cache": str(tmp_path / "cache")}
    recipe = build_recipe(None, {**FLAGS, **places, "features.names": "efficientnet_lite0"})
    with pytest.raises(ConfigurationError, match="is for clips of sound"):
        open_data(recipe)
