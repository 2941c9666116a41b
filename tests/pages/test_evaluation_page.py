"""`cotrans evaluate --report`: from a cell of the confusion matrix to the recordings behind it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cotrans_cli.main import run
from pipelines.datasets.opening import open_dataset
from pipelines.evaluation.scores.detection import DetectionScore
from pipelines.evaluation.scores.predictions import make_predictions
from pipelines.evaluation.tables.behind_cells import Behind, clip_cells, frame_cells
from pipelines.features.request import FeatureRequest
from pipelines.features.stream_factory import StreamFactory
from tests.datasets.dataset_builders import write_thumos_lstr
from tests.evaluation.evaluation_problems import LABELS, write_gtzan, write_model
from tests.features.made_recordings import write_sound
from tests.pages.conftest import OpenPage


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models on clips with their sound and their features."""
    from pipelines.datasets.published.gtzan import GENRES

    folder = tmp_path_factory.mktemp("evaluation")
    root, features = write_gtzan(folder / "GTZAN", clips=4)
    models = [str(write_model(folder / f"<b>{name}.safetensors", GENRES, seed)) for seed, name in enumerate("ab")]
    page = folder / "report.html"
    data = ["--dataset", "gtzan", "--root", str(root), "--feature-dir", str(features), "--hop", "0.1"]
    options = ["--on", "all", "--no-baseline", "--bootstrap", "0", "--quiet", "--json", "--report", str(page)]
    assert run(["evaluate", *data, *models, *options]) == 0
    return page


def page_data(path: Path) -> dict[str, Any]:
    match = re.search(r'id="data">(.*?)</script>', path.read_text(encoding="utf-8"), re.S)
    assert match is not None
    return json.loads(match[1])


def test_cells_lead_to_their_clips(report: Path, open_page: OpenPage, artifacts: Path) -> None:
    page = open_page(report)
    model = page_data(report)["models"][0]
    counts = np.array(model["confusion"]["counts"])
    assert counts.sum() == 40
    own, named = next((int(row), int(column)) for row, column in np.argwhere(counts > 0) if row != column)
    names = model["confusion"]["classes"]
    page.get_by_role("button", name=f"{names[own]} taken for {names[named]}: {counts[own, named]} clips").click()
    places = page.locator(".places button")
    assert places.count() == counts[own, named]
    assert places.first.inner_text().startswith(names[own])
    places.first.click()
    page.locator(".stage[data-shown]").wait_for()
    assert page.locator(".stage audio").count() == 1
    assert page.locator(".stage .timeline").count() == 1
    page.screenshot(path=artifacts / "evaluation-light.png", full_page=True)


def test_every_model_has_its_own(report: Path, open_page: OpenPage, artifacts: Path) -> None:
    page = open_page(report, scheme="dark")
    assert page.locator("#model option").count() == 2
    page.locator("#model").select_option("1")
    assert page.locator(".classes tbody tr").count() == 10
    page.locator("section[aria-label='Worst recordings'] button").first.click()
    page.locator(".stage[data-shown]").wait_for()
    assert page.locator("svg[role=img] .chart-dot").count() == 4  # step and window of each
    page.screenshot(path=artifacts / "evaluation-dark.png", full_page=True)


def test_a_phone_shows_it(report: Path, open_page: OpenPage, artifacts: Path) -> None:
    page = open_page(report, width=390, height=844)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.screenshot(path=artifacts / "evaluation-phone.png", full_page=True)


def test_frames_lead_to_stretches(tmp_path: Path, open_page: OpenPage, artifacts: Path) -> None:
    root, path = tmp_path / "thumos", tmp_path / "frames.html"
    write_thumos_lstr(root, {"rgb": 4, "flow": 2})
    names = tuple(open_dataset("thumos14", root).class_names)
    model = write_model(tmp_path / "m.safetensors", names, input_width=6)
    data = ["--dataset", "thumos14", "--root", str(root), "--hop", "0.5", "--bootstrap", "0", "--quiet", "--json"]
    assert run(["evaluate", *data, "-c", str(model), "--report", str(path)]) == 0
    page = open_page(path)
    (model_data,) = page_data(path)["models"]
    assert "Ambiguous" not in model_data["confusion"]["classes"] and len(model_data["perClass"]["rows"]) == 20
    page.locator(".matrix .wrong button").first.click()
    page.locator(".places button").first.click()
    page.locator(".stage[data-shown]").wait_for()
    (own, *_) = [key for key in model_data["confusion"]["behind"] if len(set(key.split(","))) == 2]
    first = model_data["confusion"]["behind"][own][0]
    if str(first[0]) in model_data["recordings"] and model_data["recordings"][str(first[0])]["timeline"]:
        cursor = page.locator(".stage .timeline-box").get_attribute("aria-valuenow")
        assert float(cursor) == pytest.approx(first[1] * 0.5, abs=0.01)
    page.screenshot(path=artifacts / "evaluation-frames.png", full_page=True)


def test_models_keep_their_hops_and_notes_stand_on_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, label in enumerate(LABELS):
        write_sound(tmp_path / "clips" / "test" / label / "a.wav", seconds=1.0, seed=number)
    models = []
    for hop in (0.1, 0.2):
        spec = StreamFactory(FeatureRequest("logmel", hop=hop, options={"n_mels": 4}), "cpu").prototype().spec
        models.append(str(write_model(tmp_path / f"{hop}.safetensors", features=spec, input_width=spec.width)))
    page = tmp_path / "r.html"
    data = ["--dataset", "folder", "--root", str(tmp_path / "clips"), "--cache", str(tmp_path / "cache")]
    options = ["--on", "all", "--no-baseline", "--bootstrap", "0", "--json", "--report", str(page)]
    assert run(["evaluate", *data, *models, *options]) == 0
    assert json.loads(capsys.readouterr().out)["hop"] == 0.1  # of the first model, as all that stands at the top
    shown = page_data(page)
    assert [model["hop"] for model in shown["models"]] == [0.1, 0.2]
    for model in shown["models"]:
        timelines = [recording["timeline"]["rows"] for recording in model["recordings"].values()]
        assert len(timelines) == 3 and {timeline["hop"] for timeline in timelines} == {model["hop"]}
    assert "only 3 recordings to score: the figures say little about others" in shown["notes"]


def test_clips_behind_a_cell() -> None:
    scores = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]])
    predictions = make_predictions(scores, np.array([0, 0, 0, 1]), np.array(["a", "a", "b", "c"]), ("x", "y"))
    cells = clip_cells(predictions, ("x", "y"))
    assert cells.counts.tolist() == [[1, 1], [0, 1]]
    assert cells.behind == {(0, 0): [Behind(1, 0, 1)], (0, 1): [Behind(0, 0, 2)], (1, 1): [Behind(2, 0, 1)]}


def test_stretches_behind_a_cell() -> None:
    """Runs end where the truth, the answer or the recording changes; frames with two classes are left out."""
    answers = np.array([0, 1, 1, 0, 0, 1, 1])
    scores = np.eye(2)[answers]
    label = np.array([[1, 0], [1, 0], [1, 0], [0, 1], [1, 1], [0, 1], [0, 1]], bool)
    predictions = make_predictions(scores, label, np.array([0, 0, 0, 0, 0, 0, 1]), ("background", "x"))
    score = DetectionScore("p", "mAP", ("x",), np.ones(1), np.ones(1), np.ones(1, int), 7, 0, 0, 2)
    cells = frame_cells(predictions, score)
    assert cells is not None and cells.classes == ("background", "x")
    assert cells.counts.tolist() == [[1, 2], [1, 2]]
    assert cells.behind[(0, 1)] == [Behind(0, 1, 2)]
    assert cells.behind[(1, 1)] == [Behind(0, 5, 1), Behind(1, 0, 1)]


def test_names_that_are_no_page(tmp_path: Path) -> None:
    assert run(["evaluate", "--dataset", "gtzan", "--report", str(tmp_path / "report.pdf")]) == 2
