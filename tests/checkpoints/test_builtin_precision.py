"""Built-in models keep their answers in float16 and int8, on real media."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from pipelines.features.extractor import Rows
from pipelines.features.joint import feature_rows
from pipelines.features.media import decode
from pipelines.model.linear.packing import with_precision
from pipelines.model.precision import Precision
from pipelines.streaming import StreamModel, open_model
from pipelines.streaming.predicting.prediction import Interpreter

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "weights" / "demo" / "demo.ogg"
DIGITS = ROOT / "weights" / "samples" / "digits"
LEAST = 0.99  # share of rows with the same answer
LARGEST: dict[Precision, float] = {"float16": 0.003, "int8": 0.02}  # difference of a probability


def features_of(model: StreamModel, path: Path) -> Rows:
    stream = model.feature_streams.new()
    with decode(path, audio=stream.needs_audio, video=stream.needs_video) as reader:
        return np.concatenate(list(feature_rows(reader, stream)))


def answers(model: StreamModel, recordings: Sequence[Rows], precision: Precision) -> tuple[list[str | None], Rows]:
    """What is said about every row (None: none of the classes), and the probabilities."""
    packed = with_precision(model.model, precision)
    labels, values = [], []
    for rows in recordings:
        with torch.inference_mode():
            scores, _ = packed.steps(torch.from_numpy(rows).unsqueeze(0), packed.initial_state(1))
        interpreter = Interpreter(model.class_names, model.score_kind, rejection=model.rejection)
        said = interpreter.answers(scores[0].numpy())
        values += [answer.probabilities for answer in said]
        labels += [answer.label for answer in said]
    return labels, np.stack(values)


def check(name: str, paths: Sequence[Path]) -> None:
    model = open_model(name, device="cpu")
    recordings = [rows for path in paths if len(rows := features_of(model, path))]
    exact, probabilities = answers(model, recordings, "float32")
    for precision, largest in LARGEST.items():
        packed, others = answers(model, recordings, precision)
        same = np.mean([mine == theirs for mine, theirs in zip(exact, packed, strict=True)])
        assert same >= LEAST, f"{name} in {precision}: {same:.2%} of {len(exact)} rows"
        assert np.abs(probabilities - others).max() <= largest


@pytest.mark.parametrize("name", ["sound-events", "music-genre"])
def test_the_demo_clip(name: str) -> None:
    check(name, [DEMO])


def test_the_digits_that_ship() -> None:
    check("spoken-digits", [DEMO, *sorted(DIGITS.glob("*.flac"))])


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "pattern", "step"),
    [
        ("sound-events", "esc10/*/*.ogg", 40),
        ("music-genre", "gtzan/genres/*/*.ogg", 320),
        ("spoken-digits", "spoken_digits/*.flac", 50),
        ("golf-swing", "golf/clips/*.mp4", 150),
        ("objects", "golf/clips/*.mp4", 300),
    ],
)
def test_real_recordings(name: str, pattern: str, step: int, shared_dir: Path) -> None:
    check(name, sorted(shared_dir.glob(pattern))[::step])
