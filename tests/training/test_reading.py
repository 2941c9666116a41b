"""The linear reading of a model: what is fitted, how its strength is chosen, and that training keeps it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pipelines.checkpoints.checkpoint import load_checkpoint
from pipelines.datasets.item import Item
from pipelines.errors import ConfigurationError, InputError
from pipelines.model import ContinualTransformer
from pipelines.training import run
from pipelines.training.artifacts import RunFolder
from pipelines.training.fitting.initial_model import model_config
from pipelines.training.fitting.reading import (
    SCALES,
    SHRINKAGES,
    SMALLNESS,
    Discriminant,
    _chosen,
    _folds,
    fit_reading,
    softmax_regression,
)
from pipelines.training.run import make_problem, train_on
from pipelines.training.samples.opening import TrainingData
from pipelines.training.samples.statistics import feature_statistics
from tests.training.training_problems import (
    CLASSES,
    WIDTH,
    clip_data,
    stream_data,
    tiny_config,
    tiny_recipe,
    with_model,
)


def test_the_discriminant_is_that_of_the_textbook() -> None:
    """Weight and bias by inverting the shrunk covariance, with more features than rows and with fewer."""
    generator = np.random.default_rng(0)
    for rows, width in ((30, 5), (12, 40)):
        labels = np.arange(rows) % 3
        values = generator.normal(size=(rows, width)) @ generator.normal(size=(width, width)) + 2.0 * labels[:, None]
        weight, bias = Discriminant(values, labels).read(0.3)
        means = np.stack([values[labels == label].mean(axis=0) for label in range(3)])
        deviations = values - means[labels]
        covariance = deviations.T @ deviations / (rows - 3)
        shrunk = 0.7 * covariance + 0.3 * np.trace(covariance) / width * np.eye(width)
        plain = np.linalg.solve(shrunk, means.T).T  # of logits x · w_c - m_c · w_c / 2
        logits = values @ plain.T - 0.5 * np.einsum("cw,cw->c", plain, means)
        ours = values @ weight.T + bias
        np.testing.assert_allclose(ours - ours[:, :1], logits - logits[:, :1], rtol=1e-6, atol=1e-6)


def test_the_regression_is_that_of_scikit_learn() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    generator = np.random.default_rng(0)
    labels = np.arange(60) % 3
    rows = generator.normal(size=(60, 8)) + 0.7 * np.eye(3, 8)[labels]
    weight, bias = softmax_regression(rows, labels, 3)
    theirs = linear_model.LogisticRegression(C=1 / SMALLNESS, tol=1e-8, max_iter=1000).fit(rows, labels)
    np.testing.assert_allclose(weight - weight.mean(axis=0), theirs.coef_ - theirs.coef_.mean(axis=0), atol=1e-3)
    np.testing.assert_allclose(bias - bias.mean(), theirs.intercept_ - theirs.intercept_.mean(), atol=1e-3)


def test_the_reading_is_the_mean_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    data = clip_data(12)
    module = "pipelines.training.fitting.reading"

    def weights() -> torch.Tensor:
        reading = fitted(data, True).reading
        assert reading is not None
        return torch.cat([reading.linear.weight, reading.linear.bias[:, None]], dim=1)

    both = weights()
    monkeypatch.setattr(
        f"{module}.softmax_regression", lambda rows, labels, classes: (np.zeros((classes, WIDTH)), np.zeros(classes))
    )
    discriminant = 2 * weights()
    monkeypatch.undo()
    monkeypatch.setattr(
        f"{module}.Discriminant.read", lambda self, shrinkage: (np.zeros((CLASSES, WIDTH)), np.zeros(CLASSES))
    )
    regression = 2 * weights()
    assert discriminant.abs().max() > 0 and regression.abs().max() > 0
    torch.testing.assert_close(both, (discriminant + regression) / 2)


def test_of_many_rows_the_regression_takes_some_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    labels = np.arange(400) % 2
    rows = generator.normal(size=(400, 3)) + 4.0 * np.eye(2, 3)[labels]
    rows[::2] = 0.0  # every second one says nothing: of those alone nothing could be learned
    labels[::2] = 0
    monkeypatch.setattr("pipelines.training.fitting.reading.MOST_ROWS", 200)
    weight, bias = softmax_regression(rows, labels, 2)
    few = softmax_regression(rows[:100], labels[:100], 2)[0]
    assert np.abs(weight).max() > 0.1 and not np.allclose(weight, few)
    told = (rows[1::2] @ weight.T + bias).argmax(axis=1)
    assert (told == labels[1::2]).mean() > 0.9


def test_few_clips_that_are_all_named_rightly_do_not_make_it_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Left-out clips that are told apart easily would have it as sure as can be; the next one may be another."""
    generator = np.random.default_rng(0)
    labels = np.arange(24) % 2
    clips = [generator.normal(size=(1, 4)) + 5.0 * np.eye(2, 4)[label] for label in labels]
    few = _chosen(clips, labels, range(24))[1]
    monkeypatch.setattr("pipelines.training.fitting.reading.UNSURE", 10**9)  # as if there were many
    assert few < 0.5 * SCALES[-1] and _chosen(clips, labels, range(24))[1] == SCALES[-1]


def fitted(data: TrainingData, standardized: bool) -> ContinualTransformer:
    model = ContinualTransformer(tiny_config(reading=0.5, positional="none")).eval()
    statistics = feature_statistics(data.train) if standardized else None
    fit_reading(model, data.train, data.groups, statistics)
    return model


def test_it_names_clips_that_it_has_not_seen_with_standardised_features_and_without() -> None:
    data = clip_data(40)
    model, raw = fitted(data, True), fitted(data, False)
    assert model.reading is not None and raw.reading is not None
    statistics = feature_statistics(data.train)
    means = torch.from_numpy(np.stack([recording.rows[:].mean(axis=0) for recording in data.validation]))
    standardized = torch.from_numpy(statistics.standardize(means.numpy()))
    with torch.no_grad():
        logits = raw.reading.linear(means)
        torch.testing.assert_close(logits, model.reading.linear(standardized), rtol=1e-4, atol=1e-4)
    assert logits.argmax(dim=1).tolist() == [recording.label for recording in data.validation]


@pytest.mark.parametrize("count", [2, CLASSES, 3 * CLASSES])
def test_clips_of_a_class_that_do_not_vary_are_read(count: int) -> None:
    """One row for each class, or the same one again and again: nothing says how clips of a class vary."""
    data = clip_data(CLASSES)
    same = tuple(
        replace(data.train[index % CLASSES], name=f"train-{index}", rows=data.train[index % CLASSES].rows[:1])
        for index in range(count)
    )
    model = fitted(replace(data, train=same), False)
    assert model.reading is not None
    with torch.no_grad():
        logits = model.reading.linear(torch.from_numpy(np.concatenate([np.asarray(clip.rows[:]) for clip in same])))
    assert logits.argmax(dim=1).tolist() == [recording.label for recording in same]
    assert logits.isfinite().all() and logits.abs().max() < 1000


def test_a_damaged_clip_is_named() -> None:
    data = clip_data(8)
    rows = np.array(data.train[5].rows[:])
    rows[3, 2] = np.nan
    damaged = (*data.train[:5], replace(data.train[5], rows=rows), *data.train[6:])
    with pytest.raises(InputError, match="train-5: NaN or infinity in its features, first in row 3"):
        fitted(replace(data, train=damaged), False)


def test_what_belongs_together_is_left_out_together() -> None:
    labels = np.arange(40) % CLASSES
    groups = [f"speaker {index // 8}" for index in range(40)]
    folds = _folds(labels, groups)
    assert all(len({folds[index] for index in range(40) if groups[index] == group}) == 1 for group in set(groups))
    assert len(set(folds)) == 5
    single = _folds(labels, range(40))
    assert all(len({single[index] for index in range(40) if labels[index] == label}) == 5 for label in range(CLASSES))


def test_noise_is_shrunk_and_not_believed() -> None:
    """Where the features say nothing of the class, the reading says next to nothing."""
    generator = np.random.default_rng(0)
    labels = np.arange(60) % 3
    noise = [generator.normal(size=(1, 30)) for _ in labels]
    told = [row + 3.0 * np.eye(3, 30)[label] for row, label in zip(noise, labels, strict=True)]
    shrinkage, scale = _chosen(noise, labels, range(60))
    assert (shrinkage, scale) != (SHRINKAGES[0], SCALES[-1]) and scale <= 0.02
    assert _chosen(told, labels, range(60))[1] > scale
    assert _chosen(told[:3], labels[:3], range(3)) == (0.6, 0.05)  # nothing can be left out


def test_copies_and_groups_of_a_dataset() -> None:
    data = clip_data(4)
    items = [Item(f"train-{number}", "train", label=0) for number in range(3)]
    copy = replace(items[0], name="train-3", copy_of="train-0")
    data = replace(data, dataset=replace(data.dataset, items=(*items, copy)))
    assert data.groups == ("train-0", "train-1", "train-2", "train-0")
    spoken = tuple(replace(item, group=f"s{index // 2}") for index, item in enumerate((*items, copy)))
    assert replace(data, dataset=replace(data.dataset, items=spoken)).groups == ("s0", "s0", "s1", "s1")


def test_training_keeps_the_reading_and_a_checkpoint_takes_raw_features(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = clip_data()
    recipe = with_model(tiny_recipe(standardize=True, ema=0.9), reading=0.5, positional="none")
    result = train_on(data, recipe, RunFolder(tmp_path))
    assert result.scores is not None and result.scores.accuracy == 1.0
    model = load_checkpoint(tmp_path / "last.safetensors").model
    assert isinstance(model, ContinualTransformer) and model.reading is not None
    raw = fitted(data, False).reading
    assert raw is not None
    torch.testing.assert_close(model.reading.linear.weight, raw.linear.weight, rtol=1e-4, atol=1e-5)
    before = (tmp_path / "last.safetensors").read_bytes()
    longer = replace(recipe, training=replace(recipe.training, epochs=4))
    monkeypatch.setattr(run, "fit_reading", lambda *_: pytest.fail("what is fitted is in the run's state already"))
    train_on(data, longer, RunFolder(tmp_path), resume=True)
    assert (tmp_path / "last.safetensors").read_bytes() != before
    again = load_checkpoint(tmp_path / "last.safetensors").model
    assert isinstance(again, ContinualTransformer) and again.reading is not None
    torch.testing.assert_close(again.reading.linear.weight, model.reading.linear.weight, rtol=1e-5, atol=1e-6)


def test_frames_and_labels_side_by_side_are_refused() -> None:
    recipe = with_model(tiny_recipe(), reading=0.5)
    with pytest.raises(ConfigurationError, match=r"model\.reading names clips"):
        make_problem(stream_data(), recipe, model_config(recipe, WIDTH, CLASSES), None)
