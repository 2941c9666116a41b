"""What a model may have seen: told from the groups that its training kept out."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.evaluation.data.training_overlap import seen_in_training
from tests.evaluation.evaluation_problems import write_model

CLASSES = ("background", "yes", "no")


@pytest.mark.parametrize(
    ("part", "options", "warned"),
    [
        ("validation", {"fold": "george"}, False),  # kept out, however the streams are mixed now
        ("test", {"fold": "theo", "test_fold": "george"}, False),
        ("validation", {"fold": "theo"}, True),
        ("validation", {}, True),
        ("train", {"fold": "george"}, True),
    ],
)
def test_a_group_that_was_kept_out_was_not_seen(
    part: str, options: dict[str, str], warned: bool, tmp_path: Path
) -> None:
    record = {"data": {"dataset": "digits", "options": {"fold": "george", "passes": 3}}}
    path = write_model(tmp_path / "m.safetensors", CLASSES, record=record)
    assert (seen_in_training(path, "digits", tmp_path, part, options) is not None) == warned


def test_a_model_that_was_trained_on_two_splits_has_seen_both(tmp_path: Path) -> None:
    record = {"data": {"dataset": "gtzan", "train_on": "train+validation", "options": {"split": "fault-filtered"}}}
    path = write_model(tmp_path / "m.safetensors", CLASSES, record=record)
    options = {"split": "fault-filtered"}
    assert "which has the recordings that it was trained on" in str(
        seen_in_training(path, "gtzan", tmp_path, "validation", options)
    )
    assert seen_in_training(path, "gtzan", tmp_path, "test", options) is None
