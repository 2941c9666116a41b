"""Prediction files: round trip, order, and what is refused."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.errors import InputError
from pipelines.evaluation.scores.predictions import Predictions, make_predictions, read_predictions, write_predictions


def arrays(frames: int = 6, classes: int = 3) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    return {
        "scores": generator.random((frames, classes), dtype=np.float32),
        "label": np.arange(frames) % classes,
        "video": np.repeat(["b", "a"], [frames // 2, frames - frames // 2]),
    }


def test_round_trip(tmp_path: Path) -> None:
    given = arrays()
    before = make_predictions(
        **given, classes=["x", "y", "z"], anticipation=np.random.default_rng(1).random((6, 2, 3), dtype=np.float32)
    )
    path = tmp_path / "sub" / "predictions.npz"
    write_predictions(path, before)
    after = read_predictions(path)
    for name in ("scores", "label", "video", "anticipation"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    assert (after.videos, after.classes) == (("b", "a"), ("x", "y", "z"))
    assert [file.name for file in path.parent.iterdir()] == ["predictions.npz"]


def test_golden_file_reads(golden_dir: Path) -> None:
    predictions = read_predictions(golden_dir / "thumos_metrics.npz")
    assert (predictions.frames, predictions.width, len(predictions.videos)) == (13736, 22, 21)
    assert predictions.starts().tolist()[:3] == [0, 136, 378]


def test_frames_of_a_video_are_put_together_in_order() -> None:
    scores = np.arange(5, dtype=np.float32)[:, None]
    predictions = make_predictions(scores, np.zeros(5, int), np.array([7, 3, 7, 3, 7]))
    assert predictions.videos == ("7", "3")
    assert predictions.scores[:, 0].tolist() == [0, 2, 4, 1, 3]
    assert predictions.starts().tolist() == [0, 3]


def test_multi_hot_and_numbers_mean_the_same() -> None:
    given = arrays()
    numbers = make_predictions(**given)
    hot = make_predictions(given["scores"], np.eye(3)[given["label"]], given["video"])
    np.testing.assert_array_equal(numbers.positives([0, 2]), hot.positives([0, 2]))
    assert not hot.has_label(17).any()


def test_select_keeps_arrays_in_step() -> None:
    predictions = make_predictions(**arrays(), anticipation=np.zeros((6, 1, 3)))
    chosen: Predictions = predictions.select(np.array([True, False] * 3))
    assert chosen.scores.shape == (3, 3) and chosen.label.tolist() == [0, 2, 1]
    assert chosen.anticipation is not None and chosen.anticipation.shape == (3, 1, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": np.full((6, 3), np.nan)}, "NaN in every frame"),
        ({"scores": np.zeros((0, 3)), "label": np.zeros(0, int), "video": np.zeros(0, int)}, "is empty"),
        ({"scores": np.zeros((6, 0))}, "is empty"),
        ({"scores": np.zeros(6)}, r"must be \(frames, classes\)"),
        ({"scores": np.full((6, 3), "high")}, "must hold numbers"),
        ({"label": np.zeros(5, int)}, r"'label' has shape \(5,\)"),
        ({"label": np.array([0, 1, 2, -1, 0, 0])}, "holds -1"),
        ({"label": np.array([0, 0.5, 1, 1, 1, 1])}, "class numbers"),
        ({"label": np.full((6, 3), 2)}, "zeros and ones"),
        ({"video": np.zeros(4, int)}, r"'video' has shape \(4,\), but there are 6 frames"),
        ({"video": np.zeros(6)}, "numbers or names"),
        ({"anticipation": np.zeros((6, 2, 4))}, "'anticipation' is"),
        ({"anticipation": np.zeros((6, 4))}, r"\(frames, horizons, classes\)"),
        ({"classes": ["a", "b"]}, "2 class names for 3 columns"),
    ],
)
def test_wrong_arrays_say_what_is_wrong(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "bad.npz"
    np.savez(path, **{**arrays(), **change})
    with pytest.raises(InputError, match=message) as caught:
        read_predictions(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_files_that_are_not_predictions(tmp_path: Path) -> None:
    def refused(path: Path, message: str) -> None:
        with pytest.raises(InputError, match=message) as caught:
            read_predictions(path)
        assert "\n" not in str(caught.value)

    refused(tmp_path / "absent.npz", "there is no file")
    text = tmp_path / "text.npz"
    text.write_text("not an archive")
    refused(text, "not an .npz file of plain arrays")
    empty = tmp_path / "empty.npz"
    empty.write_bytes(b"")
    refused(empty, "cannot read predictions")
    np.save(tmp_path / "one.npy", np.zeros(3))
    refused(tmp_path / "one.npy", "single array")
    np.savez(tmp_path / "few.npz", scores=np.zeros((2, 2)), other=np.zeros(2))
    refused(tmp_path / "few.npz", r"no 'label' and no 'video' \(it holds scores, other\)")
    whole = tmp_path / "whole.npz"
    np.savez(whole, **arrays(200))
    for length in (len(whole.read_bytes()) // 2, len(whole.read_bytes()) - 10):
        cut = tmp_path / "cut.npz"
        cut.write_bytes(whole.read_bytes()[:length])
        refused(cut, "cannot read predictions")


def test_pickles_are_not_run(tmp_path: Path) -> None:
    class Harmful:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "was-run",))

    path = tmp_path / "harmful.npz"
    np.savez(path, **{**arrays(), "video": np.array([Harmful()] * 6, dtype=object)})
    with pytest.raises(InputError, match="pickled objects are not loaded"):
        read_predictions(path)
    bare = tmp_path / "bare.npz"
    bare.write_bytes(pickle.dumps(Harmful()))
    with pytest.raises(InputError, match="pickled objects are not loaded"):
        read_predictions(bare)
    assert not (tmp_path / "was-run").exists()
