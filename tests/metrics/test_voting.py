"""The class that most rows of a clip name."""

from __future__ import annotations

import numpy as np

from pipelines.metrics.voting import majority_vote


def test_each_clip_gets_the_class_that_most_of_its_rows_name() -> None:
    scores = np.array([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7], [0.8, 0.2]])
    mean = np.array([[0.6, 0.4], [0.8, 0.2]])  # of clip 0, the vote says otherwise
    assert majority_vote(scores, np.array([0, 0, 0, 1]), mean).tolist() == [1, 0]


def test_ties_go_to_the_higher_mean() -> None:
    scores = np.array([[0.6, 0.4], [0.1, 0.9]])
    assert majority_vote(scores, np.array([0, 0]), scores.mean(axis=0, keepdims=True)).tolist() == [1]
