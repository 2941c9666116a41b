"""Labels that are none: the model's own rule, thresholds, --only, --hide, --least."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pipelines.checkpoints.checkpoint import load_checkpoint, read_header, save_checkpoint
from pipelines.errors import CheckpointError, UsageError
from pipelines.metrics.rejection import Rejection
from pipelines.model import ContinualTransformer, ModelConfig
from pipelines.streaming.options import PredictionOptions
from pipelines.streaming.output.segments import SegmentMerger
from pipelines.streaming.predicting.label_rule import LabelRule, parse_thresholds
from pipelines.streaming.predicting.prediction import Heard, Interpreter, Prediction, answers_together

NAMES = ("background", "dog", "rain")


def label_of(logits: list[float], rule: LabelRule | None = None, rejection: Rejection | None = None) -> str | None:
    interpreter = Interpreter(NAMES, "softmax", 3, rule, 1, rejection)
    (answer,) = interpreter.answers(np.array([logits], np.float32))
    return answer.label


def test_little_evidence_is_no_label_and_a_threshold_overrides() -> None:
    own = Rejection("energy", 2.0)
    assert label_of([0, 5, 0], rejection=own) == "dog"
    assert label_of([-9, -4, -9], rejection=own) is None  # sure that it is the dog of the three, and that it is none
    assert label_of([-9, -4, -9]) == "dog"
    assert label_of([-9, -4, -9], LabelRule(threshold=0.5), own) == "dog"
    assert label_of([0, 5, 0], LabelRule(threshold=0.999), own) is None
    assert label_of([0, 5, 0], LabelRule(thresholds={"dog": 0.999})) is None
    assert label_of([0, 0, 5], LabelRule(thresholds={"dog": 0.999})) == "rain"
    assert label_of([0, 5, 0], LabelRule(only=frozenset({"rain"}))) is None
    assert label_of([5, 0, 0], LabelRule(hidden=frozenset({"background"}))) is None


def test_the_first_rows_of_a_stream_need_more_evidence() -> None:
    own = Rejection("energy", 2.0, early=(9.0, 6.0))
    interpreter = Interpreter(NAMES, "softmax", rejection=own)
    scores = np.array([[0, 7, 0]] * 4, np.float32)
    assert [answer.label for answer in interpreter.answers(scores, [1, 2, 3, 40])] == [None, *["dog"] * 3]
    assert [answer.label for answer in interpreter.answers(scores)] == ["dog"] * 4


def test_evidence_is_smoothed_and_survives_a_snapshot() -> None:
    own = Rejection("energy", 2.0)
    whole = Interpreter(NAMES, "softmax", smooth_rows=3, rejection=own)
    rows = np.random.default_rng(0).normal(0, 3, (12, 3)).astype(np.float32)
    labels = [answer.label for row in rows for answer in whole.answers(row[None])]
    assert None in labels and len(set(labels)) > 1
    first = Interpreter(NAMES, "softmax", smooth_rows=3, rejection=own)
    before = first.answers(rows[:5])
    second = Interpreter(NAMES, "softmax", smooth_rows=3, rejection=own)
    second.restore(first.state())
    assert [answer.label for answer in before + second.answers(rows[5:])] == labels


def test_evidence_of_many_rows_counts_where_the_rule_says_so() -> None:
    own = Rejection("energy", 2.0, over=4)
    rows = np.array([[0, 5, 0], [0, 5, 0], [-9, -4, -9], [0, 0, 5], *[[-9, -9, -4]] * 4], np.float32)
    whole = Interpreter(NAMES, "softmax", rejection=own)
    answers = whole.answers(rows)
    # One row without evidence is named by what was seen before; many are not. Probabilities are each row's own.
    assert [answer.label for answer in answers] == ["dog", "dog", "dog", "rain", *[None] * 4]
    np.testing.assert_allclose(answers[3].probabilities, own.probabilities(rows[3], "softmax"))
    first = Interpreter(NAMES, "softmax", rejection=own)
    before = first.answers(rows[:3])
    second = Interpreter(NAMES, "softmax", rejection=own)
    second.restore(first.state())
    assert [one.label for one in before + second.answers(rows[3:])] == [one.label for one in answers]


def test_stretches_leave_out_background_and_what_is_short() -> None:
    labels = ["background", "background", "dog", "rain", "rain", "rain", "background"]

    def stretches(options: PredictionOptions) -> list[tuple[str, float, float]]:
        rule = options.rule(NAMES, merged=True)
        merger = SegmentMerger("a", "softmax", rule, least=options.least_of(0.0))
        closed = [part for place, label in enumerate(labels) for part in merger.push(frame(place, label), NAMES)]
        return [(part.label, part.start, part.end) for part in [*closed, *merger.finish()]]

    assert stretches(PredictionOptions()) == [("dog", 1.0, 1.5), ("rain", 1.5, 3.0)]
    assert stretches(PredictionOptions(least=1.0)) == [("rain", 1.5, 3.0)]
    assert stretches(PredictionOptions(hide=("rain",))) == [("dog", 1.0, 1.5)]
    told = stretches(PredictionOptions(only=("background", "dog")))
    assert [label for label, *_ in told] == ["background", "dog", "background"]


@pytest.mark.parametrize(
    ("value", "said"),
    [(-1.0, "must be 0 or more seconds, not -1"), (2e9, "at most 1,000,000,000 seconds"), (float("nan"), "0 or more")],
)
def test_a_length_of_time_is_refused_for_what_is_wrong_with_it(value: float, said: str) -> None:
    with pytest.raises(UsageError, match=f"--smooth.*{said}"):
        PredictionOptions(smooth=value)


def joined(labels: str, least: float, cut: int | None = None) -> list[tuple[str, float, float, int]]:
    """Stretches of a frame for each letter (- for none of them); cut: the frame at which a snapshot is taken."""
    names = tuple("abc")
    merger = SegmentMerger("x", "softmax", least=least)
    closed = []
    for place, label in enumerate(labels):
        if place == cut:
            state = json.loads(json.dumps(merger.state()))
            merger = SegmentMerger("x", "softmax", least=least)
            merger.restore(state)
        told = merger.push(frame(place, None if label == "-" else label), names)
        assert all(part.end <= place * 0.5 and part.end - part.start >= least for part in told)
        closed += told
    return [(part.label, part.start, part.end, part.frames) for part in [*closed, *merger.finish()]]


def test_a_stretch_goes_on_over_what_is_too_short() -> None:
    assert joined("aaabaaa", 1.0) == [("a", 0.0, 3.5, 6)]  # the mean is over its own frames
    assert joined("aaabcbaaa", 1.0) == [("a", 0.0, 4.5, 6)]
    assert joined("aaabaaa", 0.0) == [("a", 0.0, 1.5, 3), ("b", 1.5, 2.0, 1), ("a", 2.0, 3.5, 3)]
    # Over nothing it does not go on: two words with a pause between them are two.
    assert joined("aaa-aaa", 1.0) == [("a", 0.0, 1.5, 3), ("a", 2.0, 3.5, 3)]
    assert joined("aaab-aaa", 1.0) == [("a", 0.0, 1.5, 3), ("a", 2.5, 4.0, 3)]
    assert joined("aaacbb", 1.0) == [("a", 0.0, 1.5, 3), ("b", 2.0, 3.0, 2)]
    assert joined("aaaba", 1.0) == [("a", 0.0, 2.5, 4)]
    # What the end cuts off may have gone on: half of the least length is enough.
    assert joined("aaaabb", 2.0) == [("a", 0.0, 2.0, 4), ("b", 2.0, 3.0, 2)]
    assert joined("aaaab", 2.0) == joined("aaaabb-", 2.0) == [("a", 0.0, 2.0, 4)]
    for cut in range(1, 12):
        assert joined("aaabaacbb-bb", 1.0, cut) == joined("aaabaacbb-bb", 1.0)


def doubted(
    labels: str, rule: LabelRule | None = None, least: float = 1.5, cut: int | None = None
) -> list[tuple[str, float, float, int]]:
    """As `joined`; a capital letter: a row that is none of the classes, but nearest to that one."""
    merger = SegmentMerger("x", "softmax", rule, least=least)
    closed = []
    for place, label in enumerate(labels):
        if place == cut:
            state = json.loads(json.dumps(merger.state()))
            merger = SegmentMerger("x", "softmax", rule, least=least)
            merger.restore(state)
        row = frame(place, label if label.islower() else None)
        closed += merger.push(replace(row, top=((label.lower(), 0.9),)), tuple("abc"))
    return [(part.label, part.start, part.end, part.frames) for part in [*closed, *merger.finish()]]


def test_a_stretch_goes_on_over_rows_that_were_turned_away_but_are_nearest_to_it() -> None:
    assert doubted("aaaAAaaa") == [("a", 0.0, 4.0, 6)]
    assert doubted("aaaaAbAaaaa", least=2.0) == [("a", 0.0, 5.5, 8)]
    assert doubted("aaaA") == [("a", 0.0, 1.5, 3)]  # which is not part of it at its end
    assert doubted("aaaAAbbb") == [("a", 0.0, 1.5, 3), ("b", 2.5, 4.0, 3)]
    two = [("a", 0.0, 1.5, 3), ("a", 3.0, 4.5, 3)]
    assert doubted("aaaAAAaaa") == two  # as long as a stretch of its own
    assert doubted("aaaBBBaaa") == two and doubted("aaaBBBaaa---", least=2.5) == []  # near to something else
    assert doubted("aaaAAaaa", least=0.0) == [("a", 0.0, 1.5, 3), ("a", 2.5, 4.0, 3)]
    # The user's own threshold is what it says.
    assert len(doubted("aaaAAaaa", LabelRule(threshold=0.95))) == 2
    for cut in range(1, 8):
        assert doubted("aaaAAaaa", cut=cut) == doubted("aaaAAaaa")


def test_wrong_names_and_numbers_are_one_line() -> None:
    assert parse_thresholds(["0.5", "rain=0.7", "a=b=0.1"]) == (0.5, {"rain": 0.7, "a=b": 0.1})
    for text in ("rain", "rain=2", "nan", "-0.1", "="):
        with pytest.raises(UsageError, match="--threshold must be from 0 to 1"):
            parse_thresholds([text])
    for options, words in (
        (PredictionOptions(only=("dig",)), "--only: the model has no class 'dig'; did you mean 'dog'"),
        (PredictionOptions(hide=("xyz",)), "--hide: the model has no class 'xyz': choose from background, dog, rain"),
        (PredictionOptions(thresholds={"cat": 0.5}), "--threshold: the model has no class 'cat'"),
    ):
        with pytest.raises(UsageError, match=words):
            options.rule(NAMES)
    with pytest.raises(UsageError, match="--only and --hide both name 'dog'"):
        PredictionOptions(only=("dog",), hide=("dog",))


def test_the_rule_stands_in_the_checkpoint(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = ModelConfig(input_width=4, width=8, heads=2, feed_forward=8, blocks=1, window=3, classes=3)
    model, rule = ContinualTransformer(config).eval(), Rejection("probability", 0.4, 1.25)
    save_checkpoint(tmp_path / "a.safetensors", model, NAMES, rejection=rule)
    assert load_checkpoint(tmp_path / "a.safetensors").rejection == rule
    save_checkpoint(tmp_path / "b.safetensors", model, NAMES)
    assert load_checkpoint(tmp_path / "b.safetensors").rejection is None
    save_checkpoint(tmp_path / "b.safetensors", model, NAMES, least=1.5)
    assert read_header(tmp_path / "b.safetensors").least == load_checkpoint(tmp_path / "b.safetensors").least == 1.5
    assert PredictionOptions().least_of(1.5) == 1.5 and PredictionOptions(least=0.0).least_of(1.5) == 0.0
    save_checkpoint(tmp_path / "b.safetensors", model, NAMES, least=-1.0)
    with pytest.raises(CheckpointError, match=r"cannot be -1 s long"):
        load_checkpoint(tmp_path / "b.safetensors")
    damaged = (
        (tmp_path / "a.safetensors").read_bytes().replace(b'\\"statistic\\": \\"prob', b'\\"statistic\\": \\"frob')
    )
    (tmp_path / "a.safetensors").write_bytes(damaged)
    with pytest.raises(CheckpointError, match="describes itself wrongly: rejection by 'frobability'"):
        load_checkpoint(tmp_path / "a.safetensors")


def frame(place: int, label: str | None) -> Prediction:
    begin = 0.5 * place
    empty = np.zeros(3)
    return Prediction(
        source="a",
        source_number=0,
        index=place,
        time=begin + 0.5,
        begin=begin,
        end=begin + 0.5,
        label=label,
        score=0.9,
        top=((str(label), 0.9),),
        warmup=False,
        latency_ms=0.0,
        scores=empty.astype(np.float32),
        probabilities=empty,
    )


def test_sources_that_are_read_together_are_told_what_each_is_told_alone() -> None:
    """With smoothing, a rule of the model, a gap within a source, and rows in all numbers."""
    rows = np.random.default_rng(3).normal(0, 2, (40, 3)).astype(np.float32)
    own = Rejection("energy", 1.0, early=(2.5, 1.5), over=4)

    def reader() -> Interpreter:
        return Interpreter(NAMES, "softmax", smooth_rows=3, rejection=own)

    runs = [(0, 0, 7, False), (1, 7, 8, False), (0, 8, 20, True), (2, 20, 39, False), (1, 39, 40, False)]
    readers = [reader() for _ in range(3)]
    heard = [
        Heard(readers[source], rows[begin:end], range(1, 1 + end - begin), gap) for source, begin, end, gap in runs
    ]
    alone = [reader() for _ in range(3)]
    for (source, begin, end, gap), answers in zip(runs, answers_together(heard), strict=True):
        if gap:
            alone[source].restart()
        expected = alone[source].answers(rows[begin:end], range(1, 1 + end - begin))
        assert [(one.label, one.top) for one in answers] == [(one.label, one.top) for one in expected]
    assert [one.state() for one in readers] == [one.state() for one in alone]
