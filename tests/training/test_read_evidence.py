"""The evidence that a reading has: it tells known from foreign input, and changes no probability."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pipelines.checkpoints.checkpoint import Checkpoint, load_checkpoint
from pipelines.metrics.rejection import separation
from pipelines.model import ContinualTransformer
from pipelines.training.artifacts import RunFolder
from pipelines.training.none_of_these.foreign import ForeignSound
from pipelines.training.none_of_these.read_evidence import ENOUGH, _chosen, with_read_evidence
from pipelines.training.none_of_these.rejection import answers
from pipelines.training.run import train_on
from pipelines.training.samples.opening import TrainingData
from pipelines.training.samples.recordings import Recording
from tests.training.training_problems import CLASSES, WIDTH, clip_data, tiny_config, tiny_recipe, with_model

FORGOTTEN = 4  # the first feature of those that the encoder does not see


def recordings(count: int, seed: int, *levels: float, spread: tuple[float, float] = (1.0, 1.0)) -> list[Recording]:
    """Clips that differ from others in the features that the encoder does not see."""
    generator = np.random.default_rng(seed)
    clips = []
    for place in range(count):
        rows = generator.normal(0, 1, (12, WIDTH))
        rows[:, FORGOTTEN:] = np.array(levels) + np.array(spread) * rows[:, FORGOTTEN:]
        clips.append(Recording(str(place), rows.astype(np.float32), CLASSES, label=place % CLASSES))
    return clips


def checkpoint(**changes: object) -> Checkpoint:
    torch.manual_seed(0)
    config = tiny_config(**{"reading": 0.5, "reading_evidence": True, "positional": "none", **changes})
    model = ContinualTransformer(config).eval()
    assert model.input_projection is not None
    with torch.no_grad():
        model.input_projection.weight[:, FORGOTTEN:] = 0.0
        if model.reading is not None:
            model.reading.linear.weight.normal_()
            model.reading.linear.weight[CLASSES:] = 0.0
    return Checkpoint(model, config, ("a", "b", "c", "d"), None, {})


def logits(told: Checkpoint, clips: list[Recording]) -> torch.Tensor:
    """(clips, rows, classes)."""
    rows = torch.from_numpy(np.stack([clip.rows[:] for clip in clips]))
    with torch.inference_mode():
        return told.model.steps(rows, told.model.initial_state(len(clips)))[0].double()


def fitted(
    before: Checkpoint,
    validation: list[Recording],
    known: list[Recording],
    foreign: list[Recording],
    in_a_row: tuple[Recording, ...] = (),
) -> Checkpoint:
    return with_read_evidence(before, validation, known, foreign, in_a_row, answers)


def energy(told: Checkpoint, clips: list[Recording]) -> np.ndarray:
    """(clips,): of the last rows."""
    return logits(told, clips)[:, -1].logsumexp(-1).numpy()


def test_it_knows_foreign_input_that_the_encoder_cannot_tell() -> None:
    before = checkpoint()
    validation, known, foreign = recordings(20, 1, 1, 0), recordings(20, 2, 1, 0), recordings(20, 3, -1, 0)
    after = fitted(before, validation, known, foreign)
    unseen = recordings(20, 4, 1, 0), recordings(20, 5, -1, 0)
    assert separation(energy(before, unseen[0]), energy(before, unseen[1])) < 0.75
    assert separation(energy(after, unseen[0]), energy(after, unseen[1])) > 0.95
    both = [*unseen[0], *unseen[1]]
    torch.testing.assert_close(logits(after, both).softmax(-1), logits(before, both).softmax(-1), atol=1e-5, rtol=1e-4)
    # It has as much to say as the encoder's own: on held-out clips both vary alike, halfway and at the end.
    ends = [len(validation[0]) // 2, -1]
    own, all_of_it = (logits(told, validation)[:, ends].logsumexp(-1).numpy() for told in (before, after))
    assert (all_of_it - own).std() == pytest.approx(own.std(), rel=1e-3)


def test_clips_in_a_row_are_known_too() -> None:
    """Where clips meet they are like foreign input in one way, and in another they are not."""
    validation, known = recordings(20, 1, 2, 0), recordings(20, 2, 2, 0)
    met, foreign = recordings(20, 3, -1, 2), recordings(20, 4, -1, 0)
    alone = fitted(checkpoint(), validation, known, foreign)
    both = fitted(checkpoint(), validation, known, foreign, tuple(met))
    unseen, strange = recordings(20, 5, -1, 2), recordings(20, 6, -1, 0)
    assert separation(energy(both, unseen), energy(both, strange)) > 0.95
    assert separation(energy(both, unseen), energy(both, strange)) > separation(
        energy(alone, unseen), energy(alone, strange)
    )


def test_a_feature_that_hardly_varies_in_known_clips_is_not_all_that_counts() -> None:
    steady = (1.0, 1e-4)
    validation, known = (recordings(20, seed, 1, 5, spread=steady) for seed in (1, 2))
    foreign = [*recordings(10, 3, -1, 5), *recordings(10, 4, -1, 4000, spread=(1.0, 1000.0))]
    after = fitted(checkpoint(), validation, known, foreign)
    unseen, strange = recordings(20, 5, 1, 5, spread=steady), recordings(20, 6, -1, 5)
    assert separation(energy(after, unseen), energy(after, strange)) > 0.95


def test_constant_features_and_single_rows() -> None:
    """What never varies tells nothing, and a clip of one row varies in what does."""
    single = [
        Recording(str(place), np.array([[1, 1, 1, 1, level, 5]], np.float32), CLASSES, label=0)
        for place, level in enumerate((2.0, 2.1, 1.9, 2.05))
    ]
    strange = [replace(clip, rows=clip.rows[:] * np.array([1, 1, 1, 1, -1, 1], np.float32)) for clip in single]
    after = fitted(checkpoint(), single[:1], single[1:], strange)
    reading = after.model.reading.linear
    assert reading.weight[-1, -1] == 0 and reading.weight[-1, FORGOTTEN] > 0
    assert (energy(after, single) > energy(after, strange)).all()


def test_few_held_out_clips_or_none_do_not_decide_how_much_it_has_to_say() -> None:
    known, foreign = recordings(40, 2, 1, 0), recordings(20, 3, -1, 0)

    def largest(validation: list[Recording]) -> float:
        after = fitted(checkpoint(), validation, known, foreign)
        return float(after.model.reading.linear.weight[-1].abs().max())

    usual = largest(recordings(ENOUGH, 1, 1, 0))
    for few in ([], *(recordings(count, seed, 1, 0) for count in (1, 2) for seed in range(5))):
        assert largest(few) == pytest.approx(usual, rel=0.5)


def test_of_many_rows_those_are_looked_at_that_are_anywhere_in_a_clip() -> None:
    clips = [Recording(str(place), np.zeros((20, 2), np.float32), 2, label=0) for place in range(50)]
    every = 13
    chosen = list(_chosen(clips, every))
    assert {int(end) for ends in chosen for end in ends} == set(range(3, 21))  # from the third row to the last
    heard = np.concatenate([20 * place + ends for place, ends in enumerate(chosen)])
    assert set(np.diff(heard).tolist()) <= {every, 2 * every}  # twice where a row had heard too little
    empty = [Recording("empty", np.zeros((0, 2), np.float32), 2, label=0), *clips[:1]]
    assert [len(ends) for ends in _chosen(empty, 1)] == [0, 18]


def test_models_that_read_no_evidence_stay_as_they_are() -> None:
    clips, foreign = recordings(4, 1, 1, 0), recordings(4, 2, -1, 0)
    for changes in ({"reading_evidence": False}, {"reading": 0.0, "reading_evidence": False}):
        before = checkpoint(**changes)
        assert fitted(before, clips, clips, foreign) is before
    before = checkpoint()
    assert fitted(before, clips, clips, []) is before


def test_training_fits_it_and_a_run_that_goes_on_does_so_again(tmp_path: Path) -> None:
    data = clip_data()
    foreign = tuple(recordings(8, 1, 4, 4))
    data = TrainingData(data.dataset, data.train, data.validation, None, ForeignSound(foreign, foreign, foreign[:2]))
    recipe = with_model(tiny_recipe(standardize=True), reading=0.5, reading_evidence=True, positional="none")

    def trained(which: str) -> Checkpoint:
        told = load_checkpoint(tmp_path / f"{which}.safetensors")
        assert isinstance(told.model, ContinualTransformer) and told.model.reading is not None
        assert told.rejection is not None and told.model.reading.linear.weight[-1].abs().max() > 0
        assert separation(energy(told, list(data.validation)), energy(told, list(foreign))) == 1.0
        return told

    train_on(data, recipe, RunFolder(tmp_path))
    first = trained("last")
    assert trained("best").rejection is not None
    longer = with_model(tiny_recipe(standardize=True, epochs=4), reading=0.5, reading_evidence=True, positional="none")
    train_on(data, longer, RunFolder(tmp_path), resume=True)
    assert trained("last").provenance["epoch"] == first.provenance["epoch"] + 1
