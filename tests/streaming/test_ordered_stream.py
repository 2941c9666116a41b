"""Models whose classes follow each other: the same labels in every way of running them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from pipelines.checkpoints.checkpoint import load_checkpoint, read_header, save_checkpoint
from pipelines.checkpoints.conversion import ConversionOptions, convert
from pipelines.checkpoints.description import describe
from pipelines.datasets.dataset import Dataset
from pipelines.datasets.item import Item
from pipelines.errors import CheckpointError, ConfigurationError, UsageError
from pipelines.evaluation.model_evaluation import evaluate_model
from pipelines.exporting.exporter import export_model
from pipelines.metrics.class_order import ClassOrder, OrderFilter
from pipelines.metrics.probabilities import probabilities
from pipelines.metrics.rejection import Rejection
from pipelines.model.per_frame import PerFrameModel
from pipelines.model.per_frame_config import PerFrameConfig
from pipelines.streaming import PlayOptions, PredictionOptions, Stream, StreamModel, find_sources, open_model
from pipelines.streaming.output.choice import OutputOptions
from pipelines.streaming.predicting.snapshots import load_snapshot, save_snapshot
from tests.streaming.made_streams import CLASSES, WIDTH, played, scores_of, write_model, write_rows
from tests.streaming.test_several_models import events_of, of_model, run_to_text

PHASES = tuple("abcdefgh")
HOP = 0.1
LAG = 2
ORDER = ClassOrder((1.0, *[0.1] * 6, 5.0), 0.4, alike=True)
ROW_BY_ROW = PredictionOptions(order=False)


def write_ordered(path: Path, order: ClassOrder | None = ORDER) -> Path:
    """A linear model that speaks of the row two steps ago."""
    torch.manual_seed(0)
    model = PerFrameModel(PerFrameConfig(input_width=WIDTH, classes=len(PHASES), lag=LAG))
    with torch.no_grad():
        model.classifier.weight.mul_(4)
    save_checkpoint(path, model.eval(), PHASES, order=order)
    return path


@pytest.fixture
def model(tmp_path: Path) -> StreamModel:
    return open_model(write_ordered(tmp_path / "ordered.safetensors"))


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    write_rows(tmp_path / "rows.npy", 60)
    return tmp_path / "rows.npy"


def test_a_stream_is_the_filter_on_its_scores(model: StreamModel, rows: Path) -> None:
    predictions = played([rows], model, hop=HOP)
    single = played([rows], model, ROW_BY_ROW, hop=HOP)
    np.testing.assert_array_equal(scores_of(predictions), scores_of(single))  # raw scores are raw
    expected = OrderFilter(ORDER, HOP).decode(probabilities(scores_of(predictions), "softmax"))
    np.testing.assert_allclose([prediction.probabilities for prediction in predictions], expected, rtol=1e-9)
    labels = [PHASES.index(str(prediction.label)) for prediction in predictions]
    assert labels == expected.argmax(axis=1).tolist() and set(np.diff(labels) % len(PHASES)) == {0, 1}
    assert not set(np.diff([PHASES.index(str(prediction.label)) for prediction in single]) % len(PHASES)) <= {0, 1}


def test_a_snapshot_knows_the_place_in_the_order(model: StreamModel, rows: Path, tmp_path: Path) -> None:
    whole = played([rows], model, hop=HOP)
    sources, snapshot = find_sources([str(rows)]), tmp_path / "state"
    with Stream(sources, model, PlayOptions(fast=True, hop=HOP, snapshot=snapshot, every=1e-9)) as stream:
        before = [prediction for _, prediction in zip(range(25), stream, strict=False)]
    after = played([rows], model, hop=HOP, resume=snapshot)
    joined = before[: after[0].index] + after
    assert 0 < after[0].index <= 25 and len(joined) == len(whole)
    assert [prediction.label for prediction in joined] == [prediction.label for prediction in whole]
    np.testing.assert_allclose(
        [prediction.probabilities for prediction in joined],
        [prediction.probabilities for prediction in whole],
        rtol=1e-9,
    )
    with pytest.raises(UsageError, match="was made with order True, not False"):
        played([rows], model, ROW_BY_ROW, hop=HOP, resume=snapshot)
    kept = load_snapshot(snapshot, model.model)
    (source,) = kept.sources
    changed = replace(kept, sources=(replace(source, order=[7.0, *source.order[1:]]),))
    save_snapshot(snapshot, model.model, changed, model.name)
    with pytest.raises(CheckpointError, match="order of classes that is none"):
        played([rows], model, hop=HOP, resume=snapshot)


def test_beside_another_model_and_after_export_it_is_the_same(model: StreamModel, rows: Path, tmp_path: Path) -> None:
    alone = played([rows], model, hop=HOP)
    other = open_model(write_model(tmp_path / "other.safetensors"))
    _, events = events_of([rows], [model, other], hop=HOP)
    together = of_model(events, model.name, str(rows))
    assert [prediction.label for prediction in together] == [prediction.label for prediction in alone]
    exported = open_model(export_model(tmp_path / "ordered.safetensors", tmp_path / "ordered.onnx").path)
    assert exported.order == ORDER
    steps = played([rows], exported, hop=HOP)
    assert [prediction.label for prediction in steps] == [prediction.label for prediction in alone][
        : len(steps)
    ] and len(steps) >= 60


def test_an_evaluation_names_what_a_stream_names(model: StreamModel, rows: Path, tmp_path: Path) -> None:
    truth = np.searchsorted([20, 24, 28, 32, 36, 40, 44], np.arange(60), side="right")
    np.save(tmp_path / "targets.npy", np.eye(len(PHASES), dtype=np.float32)[truth])
    item = Item("rows", "test", features=(rows,), targets=tmp_path / "targets.npy")
    dataset = Dataset("golf", "frames", tmp_path, PHASES, (item,), hop=HOP, ordered=True)
    checkpoint = load_checkpoint(tmp_path / "ordered.safetensors")
    result = evaluate_model(checkpoint.model, PHASES, dataset, "test", order=checkpoint.order)
    spoken = [PHASES.index(str(prediction.label)) for prediction in played([rows], model, hop=HOP)][LAG:]
    assert result.named.scores.argmax(axis=1).tolist() == spoken
    plain = evaluate_model(checkpoint.model, PHASES, dataset, "test")
    np.testing.assert_array_equal(plain.named.scores, result.predictions.scores)
    events, without = result.evaluation.events, plain.evaluation.events
    assert events is not None and without is not None
    assert events.found == without.found and result.evaluation.value == plain.evaluation.value  # by the raw scores
    assert events.frame_accuracy == np.mean(spoken == truth) and events.row_accuracy == without.frame_accuracy
    assert "recordings in order" in result.evaluation.headline()


def test_it_can_be_left_out_where_there_is_one(model: StreamModel, rows: Path, tmp_path: Path) -> None:
    other = open_model(write_model(tmp_path / "other.safetensors"))
    with pytest.raises(
        UsageError, match=r"--no-order: the classes of .*other\.safetensors have no order: leave it out"
    ):
        run_to_text([rows], [other], OutputOptions("jsonl"), ROW_BY_ROW)
    text = run_to_text([rows], [other, model], OutputOptions("jsonl"), ROW_BY_ROW)
    labels = [line["label"] for line in map(json.loads, text.splitlines()) if line["model"] == model.name]
    assert labels == [prediction.label for prediction in played([rows], model, ROW_BY_ROW)]
    assert open_model(tmp_path / "ordered.safetensors", activation="sigmoid").order is None


def test_checkpoints_carry_an_order_that_fits(tmp_path: Path) -> None:
    path = write_ordered(tmp_path / "a.safetensors")
    assert read_header(path).order == ORDER and describe(path).details["order"] == ORDER.to_dict()
    loaded = load_checkpoint(path)
    with pytest.raises(ConfigurationError, match="the order is of 8 classes, the model has 5"):
        save_checkpoint(path, load_checkpoint(write_model(tmp_path / "b.safetensors")).model, order=ORDER)
    with pytest.raises(ConfigurationError, match="one at a time"):
        save_checkpoint(path, loaded.model, PHASES, score_kind="sigmoid", order=ORDER)
    tensors = load_file(path)
    with safe_open(path, "np") as file:
        metadata = file.metadata()
    for order in ('{"dwells": [1, 2], "trust": 0.5, "alike": true}', '{"dwells": 3}', "[]"):
        save_file(tensors, path, {**metadata, "order": order})
        with pytest.raises(CheckpointError, match="describes itself wrongly"):
            read_header(path)
    del metadata["order"]  # files from before there was any
    save_file(tensors, path, metadata)
    assert load_checkpoint(path).order is None


def test_a_copy_by_convert_keeps_the_rules(tmp_path: Path) -> None:
    path = write_model(tmp_path / "a.safetensors")
    order, rejection = ClassOrder((1.0,) * len(CLASSES), 0.5), Rejection("energy", 1.0)
    save_checkpoint(
        path, load_checkpoint(path).model, CLASSES, rejection=rejection, smoothing=0.5, order=order, least=2.0
    )
    convert(path, ConversionOptions(output=tmp_path / "b.safetensors"))
    copied = load_checkpoint(tmp_path / "b.safetensors")
    assert (copied.order, copied.rejection, copied.smoothing, copied.least) == (order, rejection, 0.5, 2.0)
