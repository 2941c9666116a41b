"""Gives a built-in model another rule for "none of these", without training it again.

python weights/recipes/fit_none.py weights/models/sound-events.safetensors --by both --threshold -2.75 \
    --temperature 0.8 --room 4
python weights/recipes/fit_none.py weights/models/objects.safetensors --by both --threshold 2.64

Statistic, threshold and temperature are chosen on models of the same recipe that did not hear a fold, or on pictures of
other origin (docs/results.md); what silence and white noise, or flat colours and test patterns, must not reach is
fitted here, on made sounds or on made pictures. A model of streams that has a class for them (background) needs no
threshold but those of the classes that noise is taken for (--by probability --threshold 0 --early 0 --settling 0;
spoken-digits, which was trained on made sounds, does without).
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np

from pipelines.checkpoints.checkpoint import Checkpoint, load_checkpoint
from pipelines.datasets.mixing.made_pictures import made_pictures
from pipelines.datasets.source import FeatureOptions
from pipelines.features.request import FeatureRequest
from pipelines.features.spec import FeatureSpec
from pipelines.features.stream_factory import StreamFactory
from pipelines.metrics.rejection import ROOM, Logits, Rejection, Statistic, against_noise
from pipelines.streaming.predicting.label_rule import BACKGROUND
from pipelines.training.none_of_these.foreign import made_foreign, white_noise
from pipelines.training.none_of_these.rejection import outputs, store_rejection
from pipelines.training.samples.recordings import Recording

PICTURES = 250  # of each kind
UNHEARD = range(2000, 2140)  # numbers of white noise that no recipe trains on: a model knows what it was trained on


def from_sounds(checkpoint: Checkpoint, features: FeatureSpec) -> list[Logits]:
    """(rows, classes) of each made sound."""
    request = FeatureOptions(request=FeatureRequest.of_spec(features))
    classes = len(checkpoint.class_names)
    noise = white_noise(UNHEARD, request, features, classes)
    return [*outputs(checkpoint, [*made_foreign(request, features, classes).always, *noise])]


def from_pictures(checkpoint: Checkpoint, features: FeatureSpec, seed: int = 0) -> list[Logits]:
    """(1, classes) of each made picture, for a model that sees one picture at a time."""
    stream = StreamFactory(FeatureRequest.of_spec(features)).prototype()
    nothing = np.zeros((1, len(checkpoint.class_names)), np.float32)
    pictures = enumerate(picture for _, picture in made_pictures(PICTURES, seed))
    rows = [stream.push_frame(picture, number * features.hop) for number, picture in pictures]
    seen = np.concatenate([*rows, stream.flush()])
    return [*outputs(checkpoint, [Recording("made", row[None], 0, targets=nothing) for row in seen])]


def rounded(rule: Rejection, parts: int) -> Rejection:
    """What is higher than the common threshold, rounded up: short numbers, and never below what was fitted."""

    def up(values: Iterable[float]) -> tuple[float, ...]:
        return tuple(value if value <= rule.threshold else math.ceil(parts * value) / parts for value in values)

    return replace(rule, early=up(rule.early), by_class=up(rule.by_class), by_row=tuple(map(up, rule.by_row)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="the checkpoint; written again")
    parser.add_argument("--by", choices=get_args(Statistic), default="both")
    parser.add_argument("--threshold", type=float, required=True)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--early", type=int, default=2, help="first rows, in which every class asks for more")
    parser.add_argument("--settling", type=int, default=8, help="first rows, in which noise is told apart less surely")
    parser.add_argument("--room", type=float, default=ROOM, help="above the noise that is tried, in these rows")
    options = parser.parse_args()
    checkpoint = load_checkpoint(options.model)
    if checkpoint.features is None:
        parser.error(f"{options.model} does not say which features it takes")
    chosen = Rejection(options.by, options.threshold, options.temperature)
    if any(part.kind == "audio" for part in checkpoint.features.parts):
        always, early, settling, parts = (
            from_sounds(checkpoint, checkpoint.features),
            options.early,
            options.settling,
            100 if options.by == "probability" else 10,
        )
    else:
        always, early, settling, parts = from_pictures(checkpoint, checkpoint.features), 0, 0, 100
    names = checkpoint.class_names
    background = names.index(BACKGROUND) if BACKGROUND in names else None
    rule = rounded(against_noise(chosen, always, early, None, background, settling, options.room), parts)
    store_rejection(options.model, checkpoint, rule)
    sys.stdout.write(f"{rule}\n")


if __name__ == "__main__":
    main()
