"""Events that are spotted, missed and imagined."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.item import Item, Segment
from pipelines.errors import UsageError
from pipelines.evaluation.data.foreign import foreign_recordings
from pipelines.evaluation.model_evaluation import evaluate_model
from pipelines.evaluation.scores.predictions import make_predictions
from pipelines.evaluation.scores.spotting import Spot, Spotting, rows_of_a_spot, score_spotting, spots
from pipelines.evaluation.tables.spotting_report import other_sound_line, spotting_line
from pipelines.evaluation.tables.spotting_values import spotting_entries
from pipelines.features.media import decode
from pipelines.model import ContinualTransformer, ModelConfig
from pipelines.running.runner import Recording, run_model
from tests.streaming.made_streams import small_model, write_sound

NAMES = ("background", "yes", "no")


def probabilities(labels: str, certainty: float = 0.8) -> np.ndarray:
    """One letter for each row: "." background, "y", "n"."""
    chosen = np.array([".yn".index(letter) for letter in labels])
    scores = np.full((len(labels), 3), (1 - certainty) / 2)
    scores[np.arange(len(labels)), chosen] = certainty
    return scores


def scored(heard: list[str], said: list[str], lag: int = 0, certainty: float = 0.8, least: float = 0.0) -> Spotting:
    truth = np.concatenate([np.array([".yn".index(letter) for letter in each]) for each in said])
    videos = np.concatenate([np.full(len(each), number) for number, each in enumerate(said)])
    scores = np.concatenate([probabilities(each, certainty) for each in heard])
    predictions = make_predictions(scores, truth, videos, classes=NAMES)
    return score_spotting(predictions, NAMES, 0, 0.1, lag, least=least)


def test_spots_are_stretches_of_one_class_that_are_sure_enough() -> None:
    assert spots(probabilities(".yy.n.nnny"), 0) == [Spot(1, 1, 3), Spot(2, 6, 9)]
    assert spots(probabilities("yy", 0.45), 0) == []
    assert spots(probabilities("yy", 0.45), 0, threshold=0.4) == [Spot(1, 0, 2)]


def test_events_are_found_or_not() -> None:
    spotting = scored(heard=["..yyy...nn..", "yy......nn.."], said=[".yyy....nn..", "....yyyy...."])
    assert (spotting.events, spotting.found, spotting.false_alarms) == (3, 2, {"yes": 1, "no": 1})
    assert spotting.recall == pytest.approx(2 / 3)
    assert spotting.hours == pytest.approx(24 * 0.1 / 3600)
    assert spotting.alarms_per_hour == pytest.approx(2 / spotting.hours)


def test_the_delay_counts_from_the_end_of_an_event_to_the_answer() -> None:
    """The spot is certain with its second row, which the model speaks of `lag` rows later."""
    assert scored(["..yyyy.."], ["..yyyy.."]).delay == pytest.approx(-0.2)
    assert scored(["..yyyy.."], ["..yyyy.."], lag=3).delay == pytest.approx(0.1)
    assert scored(["yyyyyy.."], ["..yyyy.."]).delay == pytest.approx(-0.2)  # no answer before there is something
    assert scored(["........"], ["..yyyy.."]).delay is None


def test_what_a_stream_leaves_out_is_no_spot() -> None:
    assert [rows_of_a_spot(least, 0.08) for least in (0.0, 0.16, 0.2, 0.24, 0.25)] == [2, 2, 3, 3, 4]
    assert rows_of_a_spot(0.3, 0.1) == 3  # 0.3 / 0.1 is a little less than 3
    heard, said = ["yy..nnn.yyy."], ["yy..nnn....."]
    assert scored(heard, said).found == 2
    spotting = scored(heard, said, least=0.3)
    assert (spotting.found, spotting.false_alarms) == (1, {"yes": 1, "no": 0})
    assert spotting.delay == pytest.approx(0.0)  # certain with the third row
    assert scored(heard, said, least=0.4).false_alarms == {"yes": 0, "no": 0}


def test_recordings_do_not_run_into_each_other() -> None:
    assert scored(heard=["...y", "y..."], said=["....", "...."]).false_alarms == {"yes": 0, "no": 0}


def test_in_words_and_for_programs() -> None:
    spotting = Spotting(20, 19, {"yes": 3, "no": 0}, 2.0, -0.12)
    assert spotting_line(spotting) == (
        "spotted 95.0 % of 20 events, on average 0.12 s before their end; "
        "1.5 false alarms per hour: 3 in 2.00 h (yes 3)"
    )
    nothing = Spotting(0, 0, {"yes": 0}, 0.5, None)
    assert other_sound_line(nothing) == "other sound: 0.0 false alarms per hour: 0 in 0.50 h"
    assert other_sound_line(Spotting(0, 0, {"yes": 0}, 11 / 3600, None)).endswith("0 in 11 s")
    assert spotting_entries(None, None) == {}
    entries = spotting_entries(spotting, nothing)
    assert entries["spotting"]["recall"] == 0.95 and entries["other_sound"]["false_alarms_per_hour"] == 0


def test_false_alarms_are_counted_in_foreign_recordings(tmp_path: Path) -> None:
    """A model that always says yes, and one that never does."""
    generator = np.random.default_rng(0)
    np.save(tmp_path / "a.npy", generator.normal(size=(20, 6)).astype(np.float32))
    item = Item("a", "test", features=(tmp_path / "a.npy",), segments=(Segment(0.2, 0.8, 1),))
    dataset = Dataset("folder", "frames", tmp_path, NAMES, (item,), hop=0.1, background=0, spotted=True)
    foreign = [Recording.of(str(rows), generator.normal(size=(rows, 6)).astype(np.float32)) for rows in (50, 70)]
    torch.manual_seed(0)
    config = ModelConfig(input_width=6, width=8, heads=2, feed_forward=8, blocks=1, window=4, classes=3, lag=2)
    model = ContinualTransformer(config).eval()
    for said, alarms in ((1, 2), (0, 0)):
        with torch.no_grad():
            model.classifier.bias.copy_(10 * torch.eye(3)[said])
        result = evaluate_model(model, NAMES, dataset, "test", foreign=foreign)
        assert result.spotting is not None and result.spotting.found == said
        assert result.other_sound is not None
        assert result.other_sound.false_alarms == {"yes": alarms, "no": 0}
        assert result.other_sound.hours == pytest.approx(12 / 3600)
        # The recordings last 5 and 7 s: a stream that tells of nothing below 6 s has one stretch to tell of.
        longest = evaluate_model(model, NAMES, dataset, "test", foreign=foreign, least=6.0)
        assert longest.spotting is not None and longest.spotting.found == 0
        assert longest.other_sound is not None and longest.other_sound.false_alarms["yes"] == alarms // 2
    with pytest.raises(UsageError, match="false alarms cannot be counted"):
        evaluate_model(model, NAMES, replace(dataset, background=None, spotted=False), "test", foreign=foreign)


def test_foreign_recordings_are_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model(tmp_path, "logmel", hop=0.1)
    (tmp_path / "foreign").mkdir()
    for number in range(2):
        write_sound(tmp_path / "foreign" / f"{number}.wav", 1.0 + number)
    decoded: list[str] = []
    monkeypatch.setattr(
        "pipelines.evaluation.data.foreign.decode",
        lambda path, **tracks: decoded.append(path.name) or decode(path, **tracks),
    )
    assert isinstance(model.model, ContinualTransformer)
    run = run_model(model.model, foreign_recordings(tmp_path / "foreign", model.features), "chunk")
    assert [len(outputs.logits) for outputs in run.outputs.values()] == [10, 20]
    assert sorted(decoded) == ["0.wav", "1.wav"]
