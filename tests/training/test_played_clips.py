"""Clips in a row for the rule "none of these": what is heard where two clips meet is known, too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from pipelines.checkpoints.checkpoint import Checkpoint
from pipelines.datasets.item import Item
from pipelines.datasets.source import FeatureOptions
from pipelines.features.request import FeatureRequest
from pipelines.features.stream_factory import StreamFactory
from pipelines.model.per_frame import PerFrameModel
from pipelines.model.per_frame_config import PerFrameConfig
from pipelines.training.none_of_these.none_shift import with_none_shift
from pipelines.training.recipes.recipe_file import build_recipe
from pipelines.training.samples import played_clips as module
from pipelines.training.samples.opening import open_data
from pipelines.training.samples.played_clips import RATE, played_clips
from pipelines.training.samples.recordings import Recording
from tests.features.made_recordings import write_sound, write_video

HOP, SECONDS, CLASSES = 0.1, 0.5, 3


def options_of(root: Path, names: str = "logmel") -> FeatureOptions:
    return FeatureOptions(request=FeatureRequest(names, hop=HOP), cache=str(root / "cache"))


def heard(items: list[Item], options: FeatureOptions) -> tuple[Recording, ...]:
    assert options.request is not None
    return played_clips(items, options, StreamFactory(options.request, "cpu").prototype().spec, CLASSES)


def made_items(root: Path, count: int, seconds: float = SECONDS) -> list[Item]:
    return [
        Item(f"{n}", "train", media=write_sound(root / f"{n}.wav", seconds, rate=RATE, seed=n), label=n % CLASSES)
        for n in range(count)
    ]


def test_clips_are_heard_without_a_pause_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    items, options = made_items(tmp_path, 4), options_of(tmp_path)
    assert options.request is not None
    (played,) = heard(items, options)
    assert len(played) == round(4 * SECONDS / HOP)
    order = [item.name for item in module._chosen(items)]
    sound = np.concatenate([soundfile.read(tmp_path / f"{name}.wav", dtype="float32")[0] for name in order])
    stream = StreamFactory(options.request, "cpu").prototype()
    expected = np.concatenate([stream.push_audio(sound, RATE), stream.flush()])
    np.testing.assert_allclose(played.rows[:], expected, atol=1e-4)
    (kept,) = (tmp_path / "cache").rglob("played-*.npy")
    original, made = StreamFactory.prototype, []
    spec = stream.spec
    monkeypatch.setattr(StreamFactory, "prototype", lambda self: made.append(self) or original(self))
    for damage in (None, b"", kept.read_bytes()[:-50]):
        if damage is not None:
            kept.write_bytes(damage)
        (again,) = played_clips(items, options, spec, CLASSES)
        np.testing.assert_array_equal(again.rows[:], played.rows[:])
        assert bool(made) == (damage is not None)  # what is damaged is made again
        made.clear()
    write_sound(tmp_path / "0.wav", SECONDS, rate=RATE, seed=99)
    (changed,) = played_clips(items, options, spec, CLASSES)
    assert made and np.abs(changed.rows[:] - played.rows[:]).max() > 0.1


def test_large_folders_and_long_clips_take_no_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CLIPS", 6)
    monkeypatch.setattr(module, "LONGEST", 1.0)
    items = made_items(tmp_path, 12)
    long = Item("long", "train", media=write_sound(tmp_path / "long.wav", 20.0, rate=RATE), label=CLASSES)
    chosen = module._chosen([long, *items])
    labels = [item.label for item in chosen]
    assert len(chosen) == 6 and sorted(labels[:4]) == [0, 1, 2, 3] and len(set(labels[4:])) == 2
    (played,) = heard([long, *items], options_of(tmp_path))
    assert len(played) == round((1.0 + 5 * SECONDS) / HOP)


def test_what_cannot_be_played_is_left_out(tmp_path: Path) -> None:
    items, options = made_items(tmp_path, 3), options_of(tmp_path)
    (tmp_path / "broken.wav").write_bytes(b"RIFF")
    broken = replace(items[0], media=tmp_path / "broken.wav")
    (played,) = heard([broken, *items[1:]], options)
    assert len(played) == round(2 * SECONDS / HOP)
    assert heard([broken, items[1]], options) == ()  # one alone is no row
    assert heard([Item("features alone", "train", label=1)], options) == ()


def test_pictures_are_seen_in_a_row(tmp_path: Path) -> None:
    items = [
        Item(f"{n}", "train", media=write_video(tmp_path / f"{n}.mp4", SECONDS, audio=False, seed=n), label=n)
        for n in range(2)
    ]
    (played,) = heard(items, options_of(tmp_path, "efficientnet_lite0"))
    assert len(played) == round(2 * SECONDS / HOP)
    options = FeatureRequest("efficientnet_lite0", hop=HOP)
    (alone,) = heard([items[0], items[0]], FeatureOptions(request=options, cache=str(tmp_path / "other")))
    rows = played.rows[:]
    first = 0 if module._chosen(items)[0].name == "0" else len(rows) // 2
    np.testing.assert_allclose(rows[first + 1 : first + 4], alone.rows[1:4], atol=1e-3)


def test_they_are_played_where_a_model_learns_of_foreign_sound_afterwards(tmp_path: Path) -> None:
    for number in range(3):
        for label in ("yes", "no"):
            write_sound(tmp_path / "clips" / label / f"{number}.wav", SECONDS, seed=number)
    flags = {
        "data.dataset": "folder",
        "data.root": str(tmp_path / "clips"),
        "features.names": "logmel",
        "features.cache": str(tmp_path / "cache"),
        "features.workers": 1,
    }
    data = open_data(build_recipe(None, flags))
    (played,) = data.played
    assert len(played) >= len(data.train) * SECONDS / 0.25 - 1  # a row every quarter of a second
    for others in ({"data.foreign": "made"}, {"training.loss": "binary"}):
        assert open_data(build_recipe(None, {**flags, **others})).played == ()
    assert open_data(build_recipe(None, {**flags, "data.foreign": "made", "training.none": "shift"})).played


def test_the_evidence_of_clips_in_a_row_is_not_lowered() -> None:
    torch.manual_seed(0)
    model = PerFrameModel(PerFrameConfig(input_width=4, classes=3)).eval()
    generator = np.random.default_rng(0)

    def recordings(*centre: float) -> list[Recording]:
        rows = [generator.normal(centre, 0.5, (12, 4)).astype(np.float32) for _ in range(20)]
        return [Recording(str(place), part, 3, label=0) for place, part in enumerate(rows)]

    # Where clips meet, they are as far from single clips as foreign sound is, in another direction.
    known, met, foreign = recordings(2, 0, 0, 0), recordings(-1, 2, 0, 0), recordings(-1, 0, 2, 0)
    before = Checkpoint(model, model.config, ("a", "b", "c"), None, {})

    def energies(after: Checkpoint | None, chosen: list[Recording]) -> np.ndarray:
        assert after is not None
        rows = torch.from_numpy(np.concatenate([recording.rows[:] for recording in chosen]))
        with torch.inference_mode():
            return after.model.steps(rows[None], after.model.initial_state(1))[0][0].logsumexp(-1).double().numpy()

    single, both = with_none_shift(before, known, foreign), with_none_shift(before, known, foreign, met[:10])
    assert (energies(single, met[10:]) > 0).mean() < 0.5  # more speaks for none than for any class
    assert (energies(both, met[10:]) > 0).mean() > 0.95 and (energies(both, known) > 0).mean() > 0.95
    assert (energies(both, foreign) < 0).mean() > 0.95
    # Ten times as many single clips weigh no more.
    many = with_none_shift(before, known * 10, foreign, met[:10])
    np.testing.assert_allclose(energies(many, met), energies(both, met), atol=0.05)
