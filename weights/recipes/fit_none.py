"""Gives a built-in model of clips another rule for "none of these", without training it again.

python weights/recipes/fit_none.py weights/models/sound-events.safetensors --by both --threshold -2 --temperature 0.8

Statistic, threshold and temperature are chosen on models of the same recipe that did not hear a fold (docs/results.md);
what silence and white noise must not reach is fitted here, on made sounds.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import get_args

from pipelines.checkpoints.checkpoint import load_checkpoint
from pipelines.datasets.source import FeatureOptions
from pipelines.features.request import FeatureRequest
from pipelines.metrics.rejection import Rejection, Statistic, against_noise
from pipelines.training.none_of_these.foreign import made_foreign
from pipelines.training.none_of_these.rejection import early_rows, outputs, store_rejection


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="the checkpoint; written again")
    parser.add_argument("--by", choices=get_args(Statistic), default="both")
    parser.add_argument("--threshold", type=float, required=True)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--rows", type=int, default=20, help="of a clip that it was trained on")
    options = parser.parse_args()
    checkpoint = load_checkpoint(options.model)
    if checkpoint.features is None:
        parser.error(f"{options.model} does not say which features it takes")
    request = FeatureOptions(request=FeatureRequest.of_spec(checkpoint.features))
    foreign = made_foreign(request, checkpoint.features, len(checkpoint.class_names))
    early = early_rows(checkpoint, options.rows)
    chosen = Rejection(options.by, options.threshold, options.temperature)
    rule = against_noise(chosen, outputs(checkpoint, foreign.always), early)
    store_rejection(options.model, checkpoint, rule)
    sys.stdout.write(f"{rule}\n")


if __name__ == "__main__":
    main()
