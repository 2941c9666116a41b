"""From a model and a dataset to a row of the table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.item import Item
from pipelines.errors import ConfigurationError, InputError, UsageError
from pipelines.evaluation.model_evaluation import check_class_names, evaluate_model, measure_cost
from pipelines.evaluation.scores.detection import DetectionOptions
from pipelines.evaluation.scores.protocols import THUMOS14_CLASSES
from pipelines.model import ContinualTransformer, ModelConfig
from pipelines.running.runner import MODES


def build(classes: int, **changes: Any) -> ContinualTransformer:
    torch.manual_seed(1)
    sizes: dict[str, Any] = {"input_width": 5, "width": 8, "heads": 2, "feed_forward": 12, "blocks": 1, "window": 6}
    return ContinualTransformer(ModelConfig(**{**sizes, "classes": classes, **changes})).eval()


def clips(folder: Path, count: int = 9) -> Dataset:
    generator = np.random.default_rng(0)
    items = []
    for index in range(count):
        path = folder / f"clip{index}.npy"
        np.save(path, generator.standard_normal((10, 5), dtype=np.float32))
        items.append(Item(f"clip{index}", "validation", features=(path,), label=index % 3))
    return Dataset("folder", "clips", folder, ("a", "b", "c"), tuple(items), hop=0.25)


def thumos(folder: Path) -> Dataset:
    generator = np.random.default_rng(0)
    items = []
    for index in range(3):
        features, targets = folder / f"video{index}.npy", folder / f"video{index}_target.npy"
        np.save(features, generator.standard_normal((90 + index, 5), dtype=np.float32))
        np.save(targets, np.eye(22, dtype=np.float32)[np.repeat(generator.permutation(22), 4)])
        items.append(Item(f"video{index}", "test", features=(features,), targets=targets))
    return Dataset("thumos14", "frames", folder, THUMOS14_CLASSES, tuple(items), hop=0.25, background=0, ignored=(21,))


@pytest.mark.parametrize("blocks", [1, 2])
def test_clips_in_all_modes(tmp_path: Path, blocks: int) -> None:
    dataset, model = clips(tmp_path), build(3, blocks=blocks)
    seen = []
    result = evaluate_model(
        model, "abc", dataset, "validation", modes=MODES, on_progress=lambda mode, done, total: seen.append(mode)
    )
    assert list(dict.fromkeys(seen)) == list(MODES)
    assert len(set(result.scores.values())) == 1 and set(result.scores) == set(MODES)
    assert result.agreement is not None and result.agreement.relative < 2e-5
    right = 0
    for item in dataset.items:
        tokens = torch.from_numpy(np.load(item.features[0]))[None]
        right += int(model(tokens[:, 4:], start=4).argmax() == item.label)
    assert result.evaluation.value == pytest.approx(right / 9)
    assert result.evaluation.clips is not None and result.evaluation.clips["vote"].clips == 9
    assert result.speeds["stream"].real_time_factor is not None


def test_frames_by_protocol(tmp_path: Path) -> None:
    dataset, model = thumos(tmp_path), build(22)
    every = evaluate_model(model, THUMOS14_CLASSES, dataset, "test")
    score = every.evaluation.detection
    assert score is not None and (score.protocol, score.frames, score.ambiguous) == ("lstr", 3 * 84, 12)
    # By hand: softmax without the ambiguous class, ranked over all clear frames.
    logits, labels = [], []
    for item in dataset.items:
        with torch.inference_mode():
            out, _ = model.steps(torch.from_numpy(np.load(item.features[0]))[None], model.initial_state(1))
        labels.append(np.load(item.targets)[:88] if item.targets else np.zeros(0))
        logits.append(out[0, :88])
    shares = torch.cat(logits)[:, :21].softmax(dim=1).numpy()
    truth = np.concatenate(labels).argmax(axis=1)
    expected = [average_precision_score(truth[truth != 21] == name, shares[truth != 21, name]) for name in range(1, 21)]
    np.testing.assert_allclose(score.ap, expected, atol=1e-6)
    trimmed = evaluate_model(model, THUMOS14_CLASSES, dataset, "test", protocol="oadtr").evaluation.detection
    assert trimmed is not None and trimmed.trimmed == 3 * (5 + 9)


def test_a_decoder_is_scored_per_horizon(tmp_path: Path) -> None:
    sizes = {"decoder_blocks": 1, "decoder_queries": 3, "decoder_heads": 2, "decoder_feed_forward": 8}
    model = build(22, positional="static", norm="pre", class_token_block=1, **sizes)
    result = evaluate_model(model, THUMOS14_CLASSES, thumos(tmp_path), "test", modes=("chunk", "stream"))
    detection = result.evaluation.detection
    assert detection is not None and [item.ahead for item in detection.anticipation] == [1, 2, 3]


def test_other_frame_datasets_score_all_but_background(tmp_path: Path) -> None:
    dataset = replace(thumos(tmp_path), name="digits", class_names=tuple(f"c{i}" for i in range(22)))
    result = evaluate_model(build(22), dataset.class_names, dataset, "test", options=DetectionOptions(bootstrap=5))
    assert result.evaluation.detection is not None
    assert result.evaluation.detection.classes == dataset.class_names[1:21]
    with pytest.raises(UsageError, match="leave --protocol out"):
        evaluate_model(build(22), dataset.class_names, dataset, "test", protocol="lstr")


def test_damaged_items_are_counted(tmp_path: Path) -> None:
    dataset = clips(tmp_path)
    (tmp_path / "clip4.npy").write_bytes(b"damaged")
    broken = np.load(tmp_path / "clip5.npy")
    broken[2] = np.inf
    np.save(tmp_path / "clip5.npy", broken)
    result = evaluate_model(build(3), "abc", dataset, "validation", modes=("chunk", "window"))
    assert sorted(damage.name for damage in result.damaged) == ["clip4", "clip5"]
    assert result.evaluation.clips is not None and result.evaluation.clips["last"].clips == 7


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    dataset = clips(tmp_path)
    with pytest.raises(InputError, match="the split 'test' has no items"):
        evaluate_model(build(3), "abc", dataset, "test")
    with pytest.raises(ConfigurationError, match="5 numbers per row, but the model takes 7"):
        evaluate_model(build(3, input_width=7), "abc", dataset, "validation")
    with pytest.raises(ConfigurationError, match="class 1 of the model is 'c', but 'b' in dataset folder"):
        check_class_names("acb", dataset)
    with pytest.raises(ConfigurationError, match="the model has 4 classes, but dataset folder has 3"):
        check_class_names("abcd", dataset)
    with pytest.raises(ConfigurationError, match="the model does not know"):
        check_class_names("ab", dataset)


def test_cost_is_what_runs() -> None:
    model = build(3)
    n, d, feed_forward, inputs, classes = 6, 8, 12, 5, 3
    cost = measure_cost(model)
    assert cost.step_macs == inputs * d + 4 * d * d + 2 * n * d + 2 * d * feed_forward + d * classes
    assert cost.window_macs > n * (inputs * d + 4 * d * d)
    assert cost.parameters == sum(p.numel() for p in model.parameters())
    assert cost.state_bytes == model.initial_state(1).nbytes
