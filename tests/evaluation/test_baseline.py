"""The majority vote over single rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from pipelines.datasets.opening import open_dataset
from pipelines.errors import InputError, UsageError
from pipelines.evaluation.scores.baseline import PENALTY, fit_rows, majority_vote_baseline
from tests.evaluation.evaluation_problems import LABELS, WIDTH, write_clips


def test_the_regression_is_that_of_scikit_learn() -> None:
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 4, 400)
    rows = (generator.normal(size=(400, 6)) * 3 + np.eye(4, 6)[labels] * 4 + 100).astype(np.float32)
    rows[:, 5] = 7.0  # a constant
    ours = fit_rows(rows, labels, 4)
    scaled = (rows - rows.mean(axis=0)) / np.where(rows.std(axis=0) > 0, rows.std(axis=0), 1)
    # Theirs minimises the sum of losses / C + half the squared weights; ours the mean + PENALTY · squared weights.
    theirs = LogisticRegression(C=1 / (2 * PENALTY * len(rows)), max_iter=1000, tol=1e-8).fit(scaled, labels)
    np.testing.assert_allclose(ours.probabilities(rows), theirs.predict_proba(scaled), atol=2e-3)


def test_clips_get_the_class_that_most_rows_name(tmp_path: Path) -> None:
    dataset = open_dataset("folder", write_clips(tmp_path, train=6, test=5))
    first, again = (majority_vote_baseline(dataset, "test", bootstrap=20) for _ in range(2))
    assert (first.predictions.scores == again.predictions.scores).all()
    votes = first.predictions.scores.reshape(15, 10, 3).argmax(axis=2)
    named = [np.bincount(clip, minlength=3) for clip in votes]
    truth = np.repeat([0, 1, 2], 5)
    clear = [index for index, counts in enumerate(named) if (counts == counts.max()).sum() == 1]
    right = sum(named[index].argmax() == truth[index] for index in clear)
    assert right <= first.score.accuracy * 15 <= right + 15 - len(clear)
    assert first.score.accuracy > first.row_accuracy > 1 / 3  # voting helps
    assert first.score.interval is not None
    assert (first.fitted_rows, first.macs, first.parameters) == (180, WIDTH * 3, (WIDTH + 1) * 3)


def test_damage_is_told(tmp_path: Path) -> None:
    root = write_clips(tmp_path)
    (root / "test/cat/cat0.npy").write_bytes(b"damaged")
    np.save(root / "test/dog/dog0.npy", np.full((4, WIDTH), np.inf, dtype=np.float32))
    dataset = open_dataset("folder", root)
    baseline = majority_vote_baseline(dataset, "test")
    assert [damage.name for damage in baseline.damaged] == ["test/cat/cat0", "test/dog/dog0"]
    assert baseline.score.clips == 7
    for path in (root / "train").rglob("*.npy"):
        path.write_bytes(b"damaged")
    with pytest.raises(InputError, match="no training clip has features that can be read"):
        majority_vote_baseline(dataset, "test")


def test_frames_have_no_vote(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((20, WIDTH), dtype=np.float32))
    (tmp_path / "labels.csv").write_text(f"file,start,end,label\na.npy,0,1,{LABELS[0]}\n")
    dataset = open_dataset("folder", tmp_path, hop=0.2)
    with pytest.raises(UsageError, match="a baseline for clips"):
        majority_vote_baseline(dataset, "train")
