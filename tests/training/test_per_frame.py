"""Classifiers of single rows, and the runs that are measured by them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from pipelines.errors import InputError
from pipelines.training.artifacts import RunFolder
from pipelines.training.events import BaselineDone, Event
from pipelines.training.fitting.baseline import fit_row_classifiers, score_row_classifiers
from pipelines.training.fitting.validation import Validator
from pipelines.training.run import train_on
from pipelines.training.samples.recordings import Recording
from pipelines.training.seeds import read_result
from tests.training.training_problems import CLASSES, WIDTH, clip_data, stream, stream_data, tiny_recipe


def test_the_same_rows_give_the_same_classifiers() -> None:
    recordings = stream_data().train
    rows = stream("other", 30, 7).rows[0:30]
    for first, again in zip(*(fit_row_classifiers(recordings, "cross-entropy") for _ in range(2)), strict=True):
        assert first.kind == again.kind and first.fitted_rows == 157
        np.testing.assert_array_equal(first.logits(rows), again.logits(rows))


def test_the_linear_one_names_the_classes_that_scikit_learn_names() -> None:
    recordings = [stream(f"train-{seed}", 400, seed) for seed in range(4)]
    linear, network = fit_row_classifiers(recordings, "cross-entropy")
    rows = np.concatenate([recording.rows[0:400] for recording in recordings])
    labels = np.concatenate(
        [np.argmax(recording.targets, axis=1) for recording in recordings if recording.targets is not None]
    )
    theirs = LogisticRegression(max_iter=500).fit(rows, labels)
    other = stream("other", 500, 9).rows[0:500]
    assert (linear.logits(other).argmax(axis=1) == theirs.predict(other)).mean() > 0.95
    assert linear.macs == WIDTH * CLASSES and linear.parameters == (WIDTH + 1) * CLASSES
    assert network.macs == (WIDTH + CLASSES) * 256


def test_rows_that_nobody_can_label_are_left_out() -> None:
    recording = stream("a", 60, 0)
    valid = np.ones(60, dtype=np.bool_)
    valid[:20] = False
    part = replace(recording, valid=valid)
    assert fit_row_classifiers([part], "cross-entropy")[0].fitted_rows == 40
    with pytest.raises(InputError, match="nothing to fit"):
        fit_row_classifiers([replace(recording, valid=np.zeros(60, dtype=np.bool_))], "cross-entropy")
    rows = np.array(recording.rows[0:60])
    rows[30] = np.nan
    with pytest.raises(InputError, match="NaN or infinity"):
        fit_row_classifiers([replace(recording, rows=rows)], "cross-entropy")


@pytest.mark.parametrize("clips", [False, True])
def test_they_are_scored_on_every_row_as_a_model_is(clips: bool) -> None:
    data = clip_data() if clips else stream_data()
    classifiers = fit_row_classifiers(data.train, "cross-entropy")
    validator = Validator(data.validation, (1, 2, 3), "cross-entropy", "window", stride=7, lag=0 if clips else 3)
    scores = score_row_classifiers(classifiers, validator)
    if not clips:
        assert scores.metric == "map"
        assert min(scores.linear, scores.network) > 0.7  # the rows show their class
        return
    assert scores.metric == "accuracy_mean"
    linear = classifiers[0]
    named = [int(_mean_of_softmax(linear.logits(r.rows[0 : len(r)])).argmax()) for r in data.validation]
    truth = [recording.label for recording in data.validation]
    assert scores.linear == np.mean([one == other for one, other in zip(named, truth, strict=True)])


def test_a_run_tells_its_baseline_and_that_it_is_below(tmp_path: Path) -> None:
    events: list[Event] = []
    recipe = tiny_recipe(epochs=1, steps_per_epoch=1, baseline=True)
    result = train_on(stream_data(), recipe, RunFolder(tmp_path / "run"), observer=events.append)
    told = [event.scores for event in events if isinstance(event, BaselineDone)]
    assert told == [result.baseline]
    assert result.below_baseline  # after a single step
    assert read_result(RunFolder(tmp_path / "run")) == result
    without = train_on(stream_data(), tiny_recipe(epochs=1), RunFolder(tmp_path / "without"))
    assert without.baseline is None and not without.below_baseline


def _mean_of_softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray((powers / powers.sum(axis=1, keepdims=True)).mean(axis=0))


def test_a_long_recording_gives_evenly_spaced_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.training.fitting.baseline.FLOATS", 100 * WIDTH)
    recording = Recording("a", *_long())
    assert fit_row_classifiers([recording], "cross-entropy")[0].fitted_rows == 94  # every eighth of 750


def _long() -> tuple[np.ndarray, int, None, np.ndarray, np.ndarray]:
    whole = stream("a", 750, 0)
    assert whole.targets is not None and whole.valid is not None
    return np.array(whole.rows[0:750]), CLASSES, None, whole.targets, whole.valid
