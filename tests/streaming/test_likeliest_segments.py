"""Segments of models with a least length: the likeliest sequence of labels, hidden ones, gaps, ends and snapshots."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pipelines.metrics.class_order import ClassOrder
from pipelines.metrics.rejection import Rejection
from pipelines.streaming.options import PredictionOptions
from pipelines.streaming.output.likeliest_segments import LikeliestSegments
from pipelines.streaming.output.segmenting import segmenter
from pipelines.streaming.output.segments import Segment, SegmentMerger, SegmentTally
from pipelines.streaming.predicting.label_rule import LabelRule
from pipelines.streaming.predicting.prediction import Prediction

NAMES = ("a", "b", "c")
HOP = 0.5
RULE = Rejection("energy", 0.0)


def frame(row: int, label: str, shift: float = 0.0, restart: bool = False) -> Prediction:
    """A row that is nearest to a label; a capital letter: with too little evidence for any."""
    logits = np.zeros(3, np.float32)
    logits[NAMES.index(label.lower())] = 4.0
    logits += -9.0 if label.isupper() else 2.0
    powers = np.exp(logits.astype(np.float64))
    probabilities = powers / powers.sum()
    begin = row * HOP + shift
    named = None if label.isupper() else label
    top = ((label.lower(), float(probabilities.max())),)
    score = float(probabilities.max())
    values = (named, score, top, False, 0.0, logits, probabilities, restart)
    return Prediction("x", 0, row, begin + HOP, begin, begin + HOP, *values)


def told(
    labels: str,
    least: float = 1.5,
    rule: LabelRule | None = None,
    cut: int | None = None,
    gap: int | None = None,
    over: float = 0.0,
) -> list[tuple[str, float, float, int]]:
    """cut: the row before which a snapshot is taken; gap: that before which a minute is missing."""
    segments = LikeliestSegments("x", RULE, rule or LabelRule(), least, over=over)
    found: list[Segment] = []
    for row, label in enumerate(labels):
        if row == cut:
            state = json.loads(json.dumps(segments.state(), allow_nan=False))
            segments = LikeliestSegments("x", RULE, rule or LabelRule(), least, over=over)
            segments.restore(state)
        late = gap is not None and row >= gap
        found += segments.push(frame(row, label, 60.0 if late else 0.0), NAMES)
    found += segments.finish(None)
    return [(each.label, each.start, each.end, each.frames) for each in found]


def test_no_segment_is_short_and_what_is_short_belongs_to_its_neighbours() -> None:
    assert told("aaabbb") == [("a", 0.0, 1.5, 3), ("b", 1.5, 3.0, 3)]
    assert told("aaabaaa") == [("a", 0.0, 3.5, 7)]
    assert told("aaaacbbbb") in ([("a", 0.0, 2.5, 5), ("b", 2.5, 4.5, 4)], [("a", 0.0, 2.0, 4), ("b", 2.0, 4.5, 5)])
    assert told("aaaabcaaaa") == [("a", 0.0, 5.0, 10)]
    assert told("aaaabcbcaaaa")[0][0] == "a" and not {"b", "c"} & {label for label, *_ in told("aaaabcbcaaaa")}
    assert told("aaaabb", 2.0) == [("a", 0.0, 2.0, 4), ("b", 2.0, 3.0, 2)]  # what the end cuts off
    assert told("aaaab", 2.0) == [("a", 0.0, 2.5, 5)]
    assert told("a", 1.5) == [] and told("", 1.5) == []


def test_none_of_these_is_a_label_too() -> None:
    assert told("aaaaAaaaa") == [("a", 0.0, 4.5, 9)]
    assert told("aaaaAAAAaaaa") == [("a", 0.0, 2.0, 4), ("a", 4.0, 6.0, 4)]
    assert told("AAaaaaAA") == [("a", 1.0, 3.0, 4)]
    assert told("AAAAAA") == []


def test_hidden_labels_and_gaps() -> None:
    assert told("aaaabbbb", rule=LabelRule(hidden=frozenset("a"))) == [("b", 2.0, 4.0, 4)]
    assert told("aaaabbbb", rule=LabelRule(only=frozenset("a"))) == [("a", 0.0, 2.0, 4)]
    assert told("aaaaaaaa", gap=4) == [("a", 0.0, 2.0, 4), ("a", 62.0, 64.0, 4)]


@pytest.mark.parametrize("cut", range(1, 24, 2))
def test_a_snapshot_changes_nothing(cut: int) -> None:
    labels = "aaaabbbAbbbCCCCcccaabaaabbb"
    assert told(labels, cut=cut, over=1.5) == told(labels, over=1.5)


def test_scores_are_means_and_the_tally_says_why_there_is_nothing() -> None:
    tally = SegmentTally()
    segments = LikeliestSegments("x", RULE, LabelRule(), 1.5, tally=tally)
    for row, label in enumerate("aaaa"):
        segments.push(frame(row, label), NAMES)
    (segment,) = segments.finish(1.75)
    assert segment.end == 1.75 and segment.score == pytest.approx(frame(0, "a").score)
    assert tally.told == 1
    tally = SegmentTally()
    segments = LikeliestSegments("x", RULE, LabelRule(), 9.0, tally=tally)
    segments.push(frame(0, "a"), NAMES)
    assert segments.finish() == [] and "no segment lasts 9 s" in tally.silence


def test_which_way_rows_become_segments() -> None:
    def kind(prediction: PredictionOptions, **changes: Any) -> type:
        model: Any = SimpleNamespace(score_kind="softmax", least=1.0, order=None, rejection=None, smoothing=0.0)
        vars(model).update(changes)
        return type(segmenter("x", model, prediction, prediction.rule(NAMES)))

    assert kind(PredictionOptions()) is LikeliestSegments
    assert kind(PredictionOptions(), least=0.0) is SegmentMerger
    assert kind(PredictionOptions(least=2.0), least=0.0) is LikeliestSegments
    assert kind(PredictionOptions(least=0.0)) is SegmentMerger
    assert kind(PredictionOptions(threshold=0.5)) is kind(PredictionOptions(thresholds={"a": 0.5})) is SegmentMerger
    assert kind(PredictionOptions(), score_kind="sigmoid") is SegmentMerger
    assert kind(PredictionOptions(), order=ClassOrder((1.0, 1.0, 1.0), 0.5)) is SegmentMerger


def test_without_a_rule_every_row_has_a_name() -> None:
    segments = LikeliestSegments("x", None, LabelRule(), 1.0)
    found = [each for row, label in enumerate("AAAAbbbb") for each in segments.push(frame(row, label), NAMES)]
    assert [each.label for each in [*found, *segments.finish()]] == ["a", "b"]


def test_the_margin_is_in_the_logarithm_of_odds() -> None:
    assert Rejection("energy", 1.0).margin(3.5, 0) == pytest.approx(2.5)
    assert Rejection("energy", 1.0, early=(5.0,)).margin(3.5, 0, 1) == pytest.approx(-1.5)
    assert Rejection("probability", 0.5).margin(0.8, 0) == pytest.approx(np.log(4.0))
    assert np.isfinite(Rejection("probability", 0.5).margin(1.0, 0))


def test_evidence_is_the_mean_of_some_rows() -> None:
    def count(over: float) -> int:
        segments = LikeliestSegments("x", RULE, LabelRule(), 1.0, over=over)
        found = [each for row, label in enumerate("AAAAaaAAAA") for each in segments.push(frame(row, label), NAMES)]
        return len([*found, *segments.finish()])

    assert count(0.0) == 1 and count(2.0) == 0


def test_rows_count_as_they_are_unless_the_user_smooths_them() -> None:
    def labels(smoothed: bool) -> list[str]:
        segments = LikeliestSegments("x", RULE, LabelRule(), 1.0, smoothed=smoothed)
        found: list[Segment] = []
        for row in range(6):
            shown = replace(frame(row, "a"), probabilities=np.array([0.01, 0.98, 0.01]))
            found += segments.push(shown, NAMES)
        return [each.label for each in [*found, *segments.finish()]]

    assert labels(False) == ["a"] and labels(True) == ["b"]
