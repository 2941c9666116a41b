"""Protocols: which frames and classes count, and what is said about it."""

from __future__ import annotations

import io
import pickle
import zipfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from pipelines.errors import ConfigurationError, InputError, UsageError
from pipelines.evaluation.scores.detection import DetectionOptions, score_detection
from pipelines.evaluation.scores.predictions import Predictions, make_predictions, read_predictions
from pipelines.evaluation.scores.protocols import (
    COOADTR_CLASSES,
    TVSERIES_CLASSES,
    folder_protocol,
    protocol_for,
)

LSTR = protocol_for("thumos14")
OADTR = protocol_for("thumos14", "oadtr")


@pytest.fixture(scope="module")
def golden(golden_dir: Path) -> Predictions:
    return read_predictions(golden_dir / "thumos_metrics.npz")


def thumos(frames: int = 400, classes: int = 22, seed: int = 0, videos: int = 4) -> Predictions:
    generator = np.random.default_rng(seed)
    label = np.repeat(generator.integers(0, 22, frames // 8), 8)
    label[:21] = np.arange(21)
    return make_predictions(
        generator.random((frames, classes), dtype=np.float32), label, np.repeat(np.arange(videos), frames // videos)
    )


def test_default_protocol_gives_the_official_numbers(golden: Predictions, golden_dir: Path) -> None:
    expected = np.load(golden_dir / "thumos_metrics.npz")
    score = score_detection(golden, LSTR)
    np.testing.assert_allclose(score.ap, expected["ap"], rtol=0, atol=1e-9)
    np.testing.assert_allclose(score.cap, expected["cap"], rtol=0, atol=1e-9)
    assert score.mAP == pytest.approx(float(expected["mAP"]), abs=1e-9)
    assert score.mcAP == pytest.approx(float(expected["mcAP"]), abs=1e-9)
    assert (score.frames, score.ambiguous, score.trimmed, score.notes) == (13471, 265, 0, ())
    assert score.value == score.mAP and len(score.classes) == 20


def test_oadtr_keeps_the_frames_of_the_official_loader(golden: Predictions) -> None:
    """The loader's loop: windows [start, start + n) for every end before T − future; the newest frame is scored."""
    window, future = 64, 8
    expected = []
    for start, stop in zip(golden.starts(), [*golden.starts()[1:], golden.frames], strict=True):
        ends = range(window, stop - start - future)
        expected += [start + end - 1 for end in ends if golden.label[start + end - 1] != 21]
    score = score_detection(golden, OADTR)
    chosen = golden.select(np.isin(np.arange(golden.frames), expected))
    assert score.frames == len(expected)
    np.testing.assert_array_equal(score.ap, score_detection(chosen, LSTR).ap)


def test_oadtr_counts_the_frames_that_the_authors_logs_print(shared_dir: Path) -> None:
    with zipfile.ZipFile(shared_dir / "thumos14" / "anno_thumos.zip") as archive:
        annotations = _PlainUnpickler(io.BytesIO(archive.read("thumos_test_anno.pickle"))).load()
    label = np.concatenate([entry["anno"] for entry in annotations.values()])
    video = np.repeat(np.arange(len(annotations)), [len(entry["anno"]) for entry in annotations.values()])
    predictions = make_predictions(label.astype(np.float32), label, video)
    score = score_detection(predictions, OADTR)
    assert (predictions.frames, score.frames) == (225_222, 206_375)
    assert score.mAP == 1.0


def test_ambiguous_frames_need_no_score_column() -> None:
    full = thumos()
    narrow = replace(full, scores=full.scores[:, :21])
    hot = replace(full, label=np.eye(22, dtype=bool)[full.label])
    expected = score_detection(full, LSTR)
    assert expected.ambiguous > 0
    for variant in (narrow, hot, replace(hot, scores=full.scores[:, :21])):
        score = score_detection(variant, LSTR)
        np.testing.assert_array_equal(score.ap, expected.ap)
        assert score.ambiguous == expected.ambiguous


def test_columns_are_found_by_name() -> None:
    predictions = thumos()
    order = np.random.default_rng(1).permutation(22)
    shuffled = replace(
        predictions,
        scores=predictions.scores[:, order],
        label=np.argsort(order)[predictions.label],
        classes=tuple(LSTR.layouts[0][index].upper() for index in order),
    )
    np.testing.assert_array_equal(score_detection(shuffled, LSTR).ap, score_detection(predictions, LSTR).ap)


def test_a_class_without_positives_is_left_out_and_said() -> None:
    predictions = thumos()
    predictions = predictions.select(~np.isin(predictions.label, [3, 7]))
    score = score_detection(predictions, LSTR)
    assert np.isnan(score.ap[[2, 6]]).all()
    assert score.mAP == pytest.approx(np.nanmean(score.ap))
    assert score.notes == (
        "no positive frame of Billiards, CricketShot: left out of the mean, which is over 18 classes",
    )


def test_smoothing_is_the_running_maximum(golden: Predictions) -> None:
    def slow(scores: np.ndarray) -> np.ndarray:
        rows = range(len(scores))
        return np.stack([scores[max(row - 2, 0) : row + 3].max(axis=0) for row in rows])

    starts = [*golden.starts(), golden.frames]
    pieces = [slow(golden.scores[a:b]) for a, b in pairwise(starts)]
    within = replace(golden, scores=np.concatenate(pieces))
    across = replace(golden, scores=slow(golden.scores))
    off = score_detection(golden, LSTR)
    by_video = score_detection(golden, LSTR, DetectionOptions(smoothing="video"))
    pooled = score_detection(golden, LSTR, DetectionOptions(smoothing="pooled"))
    np.testing.assert_array_equal(by_video.ap, score_detection(within, LSTR).ap)
    np.testing.assert_array_equal(pooled.ap, score_detection(across, LSTR).ap)
    assert len({off.mAP, by_video.mAP, pooled.mAP}) == 3


def test_cliff_diving_counts_as_diving_only_when_asked(golden: Predictions) -> None:
    cliff, diving = 5, 8
    plain = score_detection(golden, LSTR)
    merged = score_detection(golden, LSTR, DetectionOptions(cliff_diving_is_diving=True))
    scores = golden.scores[golden.label != 21]
    expected = average_precision_score(
        golden.label[golden.label != 21] == diving, np.maximum(scores[:, cliff], scores[:, diving])
    )
    assert merged.ap[diving - 1] == pytest.approx(expected, abs=1e-12)
    np.testing.assert_array_equal(np.delete(merged.ap, diving - 1), np.delete(plain.ap, diving - 1))
    with pytest.raises(ConfigurationError, match="thumos14"):
        score_detection(tvseries(), protocol_for("tvseries"), DetectionOptions(cliff_diving_is_diving=True))


def tvseries(frames: int = 600, seed: int = 2) -> Predictions:
    """Probabilities and frames that may have two labels."""
    generator = np.random.default_rng(seed)
    scores = generator.dirichlet(np.ones(31), frames)
    label = np.zeros((frames, 31), dtype=bool)
    label[np.arange(frames), np.repeat(generator.permutation(31), frames // 31 + 1)[:frames]] = True
    label[::5, 4] = True
    return make_predictions(scores, label, np.repeat([0, 1], frames // 2))


def test_tvseries_is_the_calibrated_mean_over_thirty_classes() -> None:
    score = score_detection(tvseries(), protocol_for("tvseries"))
    assert score.value == score.mcAP and len(score.classes) == 30
    assert score.classes == TVSERIES_CLASSES[1:]
    assert score.stage_cap is not None and score.stage_cap.shape == (10, 30)


def test_cooadtr_scores_the_authors_twenty_classes_among_themselves() -> None:
    predictions = tvseries()
    protocol = protocol_for("tvseries", "cooadtr")
    options = DetectionOptions(window=3, future=1)
    assert (COOADTR_CLASSES[0], COOADTR_CLASSES[-1], len(COOADTR_CLASSES)) == ("Clap", "Read", 20)
    score = score_detection(predictions, protocol, options)
    # The authors' own layout: 21 columns, alphabetical, background and "Answer phone" in the first.
    columns = [TVSERIES_CLASSES.index(name) for name in COOADTR_CLASSES]
    rest = predictions.scores[:, [0, TVSERIES_CLASSES.index("Answer phone")]].sum(axis=1, keepdims=True)
    own = np.concatenate([rest, predictions.scores[:, columns]], axis=1)
    authors = replace(
        predictions,
        scores=own / own.sum(axis=1, keepdims=True),
        label=np.concatenate([predictions.label[:, :1], predictions.label[:, columns]], axis=1),
    )
    np.testing.assert_allclose(score_detection(authors, protocol, options).cap, score.cap, atol=1e-12)
    assert score.frames == predictions.frames - 2 * (2 + 2)


def test_logits_are_not_taken_for_probabilities() -> None:
    predictions = tvseries()
    logits = replace(predictions, scores=np.log(predictions.scores))
    score = score_detection(logits, protocol_for("tvseries", "cooadtr"), DetectionOptions(window=1, future=0))
    assert "not probabilities" in score.notes[0]


def test_anticipation_per_horizon() -> None:
    predictions = thumos(frames=480, videos=3)
    generator = np.random.default_rng(5)
    ahead = generator.random((480, 2, 22), dtype=np.float32)
    predictions = replace(predictions, anticipation=ahead)
    lstr = score_detection(predictions, LSTR).anticipation
    oadtr = score_detection(predictions, OADTR, DetectionOptions(window=5, future=4)).anticipation
    assert [item.ahead for item in lstr] == [1, 2]
    rows = [row for row in range(478) if row // 160 == (row + 2) // 160]
    seen = [row for row in rows if predictions.label[row + 2] != 21]
    official = [row for row in rows if predictions.label[row] != 21 and row % 160 >= 4 and row % 160 < 160 - 5]
    for result, chosen in ((lstr[1], seen), (oadtr[1], official)):
        target = predictions.label[np.array(chosen) + 2]
        present = [name for name in range(1, 21) if (target == name).any()]
        expected = np.mean([average_precision_score(target == name, ahead[chosen, 1, name]) for name in present])
        assert result.frames == len(chosen)
        assert result.mAP == pytest.approx(expected, abs=1e-12)


def test_folder_scores_everything_but_background() -> None:
    generator = np.random.default_rng(0)
    predictions = make_predictions(generator.random((90, 3)), np.arange(90) % 3, np.zeros(90, int))
    protocol = folder_protocol(["Background", "clap", "knock"])
    assert score_detection(predictions, protocol).classes == ("clap", "knock")
    with pytest.raises(ConfigurationError, match="no class to score"):
        folder_protocol(["background"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": np.zeros((400, 12))}, "12 columns, but protocol lstr needs 22 or 21"),
        ({"label": np.full(400, 22)}, "label 22 in row 0 is out of range: protocol lstr has classes 0 to 21"),
        ({"label": np.zeros((400, 30), bool)}, "'label' has 30 columns"),
        ({"label": np.full(400, 21)}, "every frame is of class Ambiguous"),
        ({"label": np.zeros(400, int)}, "no frame has a label of any scored class"),
        ({"classes": tuple(f"class {i}" for i in range(22))}, "do not match protocol lstr: unknown class 0"),
    ],
)
def test_what_does_not_fit_is_one_line(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        score_detection(replace(thumos(), **change), LSTR)
    assert "\n" not in str(caught.value)


def test_short_videos_are_said_and_nothing_left_is_an_error() -> None:
    with pytest.raises(InputError, match="no frame is left: protocol oadtr leaves the first 399"):
        score_detection(thumos(), OADTR, DetectionOptions(window=400))
    predictions = thumos(frames=400, videos=4)
    joined = replace(predictions, video=np.minimum(predictions.video, 1), videos=("0", "1"))
    score = score_detection(joined, OADTR, DetectionOptions(window=100))
    assert score.notes[0].startswith("1 of 2 videos have nothing between")


def test_unknown_protocols_and_options() -> None:
    with pytest.raises(UsageError, match="choose from lstr, oadtr"):
        protocol_for("thumos14", "cooadtr")
    with pytest.raises(UsageError, match="no protocols of its own"):
        protocol_for("gtzan", "lstr")
    with pytest.raises(ConfigurationError, match="window 0"):
        DetectionOptions(window=0)


class _PlainUnpickler(pickle.Unpickler):
    """Arrays and plain containers only."""

    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] == "numpy" and name in ("_reconstruct", "ndarray", "dtype", "scalar", "_frombuffer"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name}")
