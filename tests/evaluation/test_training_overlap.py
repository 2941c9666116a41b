"""What a model may have seen: told from the groups that its training kept out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cotrans_cli.main import run
from pipelines.checkpoints.builtin import models_folder
from pipelines.datasets.source import DataSource, FeatureOptions
from pipelines.evaluation.data.data_request import DataRequest
from pipelines.evaluation.data.scored_data import ScoredData
from pipelines.evaluation.data.training_overlap import seen_in_training
from tests.datasets.dataset_builders import write_thumos_lstr
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


def test_a_model_of_everybody_is_scored_on_the_first_speaker_with_a_remark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The built-in spoken-digits kept nobody out, so its own division would leave nothing to score."""
    monkeypatch.delenv("COTRANS_DATA", raising=False)
    assert run(["evaluate", "--dataset", "digits", "--mode", "chunk", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    said = "was trained on everybody that it was given (--fold none): where these recordings were among them"
    assert result["items"] > 0 and any(said in note for note in result["notes"])


@pytest.mark.parametrize(
    ("trained_on", "dataset", "given", "hop"),
    [
        ({"hop": 0.64}, "thumos14", None, 0.64),
        ({"hop": 0.64}, "thumos14", 0.5, 0.5),  # what the user says
        ({"hop": 0.64, "names": "logmel"}, "thumos14", None, 0.25),  # of an extractor, not of these files
        ({"hop": 0.64}, "tvseries", None, 0.25),  # of other data
        ({}, "thumos14", None, 0.25),
    ],
)
def test_rows_last_as_long_as_training_said(
    trained_on: dict[str, Any], dataset: str, given: float | None, hop: float, tmp_path: Path
) -> None:
    """Delays and alarms per hour are counted with it, and files of features do not say it."""
    write_thumos_lstr(tmp_path / "thumos14", {"rgb": 4})
    record = {"data": {"dataset": dataset}, "features": trained_on}
    path = write_model(tmp_path / "m.safetensors", CLASSES, record=record)
    source = DataSource("thumos14", tmp_path / "thumos14", features=FeatureOptions(file_hop=given))
    assert ScoredData(DataRequest(source), path).dataset.hop == hop


def test_a_built_in_model_is_called_by_its_name(tmp_path: Path) -> None:
    path = models_folder() / "spoken-digits.safetensors"
    said = seen_in_training(path, "digits", tmp_path, "validation", {})
    assert said is not None and said.startswith("spoken-digits was trained on everybody")
