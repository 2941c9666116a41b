"""What a model may have seen: told from the groups that its training kept out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cotrans_cli.main import run
from pipelines.checkpoints.builtin import builtin_names, builtin_recordings, models_folder
from pipelines.datasets.dataset import Dataset
from pipelines.datasets.item import Item
from pipelines.datasets.published.digit_streams import open as open_dataset
from pipelines.datasets.source import DataSource, FeatureOptions
from pipelines.evaluation.data.data_request import DataRequest
from pipelines.evaluation.data.scored_data import ScoredData
from pipelines.evaluation.data.training_overlap import recordings_seen, seen_in_training
from tests.datasets.dataset_builders import write_sound, write_thumos_lstr
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


def test_the_recordings_of_built_in_models_are_known_by_name(tmp_path: Path) -> None:
    counts = {"golf-swing": 570, "music-genre": 640, "objects": 0, "sound-events": 320, "spoken-digits": 2500}
    assert {name: len(builtin_recordings(_built_in(name))) for name in builtin_names()} == counts
    shutil.copy(models_folder() / "golf-swing.recordings.txt", tmp_path)
    assert not builtin_recordings(tmp_path / "golf-swing.safetensors")  # somebody's own model of that name


def test_a_model_of_everybody_says_that_it_has_heard_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The built-in spoken-digits kept nobody out, so its own division would leave nothing to score."""
    monkeypatch.delenv("COTRANS_DATA", raising=False)
    assert run(["evaluate", "--dataset", "digits", "--mode", "chunk", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    said = "spoken-digits was trained on all 10 recordings that it is scored on: the score says little about new ones"
    assert result["items"] > 0 and said in result["notes"]


@pytest.mark.parametrize(
    ("model", "dataset", "names", "said"),
    [
        ("sound-events", "folder", ("dog/1-30226-A-0", "dog/5-203128-A-0"), "1 of the 2 recordings"),
        ("sound-events", "folder", ("dog/5-203128-A-0", "dog/mine"), None),  # fold 5, which it never heard
        ("sound-events", "folder", ("dog/1-30226-A-0",), "the recording"),
        ("music-genre", "folder", ("blues/blues.00000", "rock/rock.00001"), "all 2 recordings"),
        ("golf-swing", "golf", ("0254", "9999"), "1 of the 2 recordings"),
        ("golf-swing", "folder", ("setup/0254",), None),  # a number may be of anything
        ("spoken-digits", "folder", ("seven/7_anna_0", "seven/7_george_0"), "1 of the 2 recordings"),
        ("objects", "folder", ("hen/1",), None),
    ],
)
def test_a_built_in_model_is_compared_by_recordings(
    model: str, dataset: str, names: tuple[str, ...], said: str | None, tmp_path: Path
) -> None:
    items = tuple(Item(name, "test", label=0) for name in names)
    remark = recordings_seen(_built_in(model), Dataset(dataset, "clips", tmp_path, ("a",), items), "test")
    wanted = f"{model} was trained on {said} that it is scored on: the score says little about new ones"
    assert remark == (wanted if said else None)


def test_a_new_speaker_is_none_of_those_that_it_knows(tmp_path: Path) -> None:
    for digit in range(10):
        write_sound(tmp_path / f"{digit}_anna_0.wav", 0.5, seed=digit)
        write_sound(tmp_path / f"{digit}_george_0.wav", 0.5, seed=digit)
    new, known = (open_dataset(tmp_path, fold=speaker) for speaker in ("anna", "george"))
    assert recordings_seen(_built_in("spoken-digits"), new, "validation") is None
    assert "all 10 recordings" in str(recordings_seen(_built_in("spoken-digits"), known, "validation"))
    assert "10 of the 20 recordings" in str(recordings_seen(_built_in("spoken-digits"), known, "all"))


def _built_in(name: str) -> Path:
    return models_folder() / f"{name}.safetensors"


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
