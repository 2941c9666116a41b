"""Makes weights/models/golf-swing.safetensors: the classifier that was trained together with the network of `motion`.

python weights/recipes/make_golf_swing.py classifier.safetensors weights/models/golf-swing.safetensors

classifier.safetensors: what train_motion.py writes beside the network.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

from pipelines.checkpoints.checkpoint import save_checkpoint
from pipelines.datasets.published.golf import PHASES
from pipelines.features.request import FeatureRequest
from pipelines.features.stream_factory import StreamFactory
from pipelines.model.per_frame import PerFrameModel
from pipelines.model.per_frame_config import PerFrameConfig

RATE = 29.97  # rows per second: that of GolfDB's clips
LAG = 8  # rows: 0.27 s


def make_golf_swing(classifier: Path, target: Path) -> None:
    """A linear layer on rows that remember a second; it speaks of the picture 8 rows ago."""
    features = StreamFactory(FeatureRequest("motion", hop=1 / RATE)).prototype().spec
    weights = load_file(classifier)
    model = PerFrameModel(PerFrameConfig(input_width=features.width, classes=len(PHASES), lag=LAG))
    with torch.no_grad():
        model.classifier.weight.copy_(weights["weight"])
        model.classifier.bias.copy_(weights["bias"])
    provenance = {
        "source": "GolfDB, folds 1 and 2 at normal speed; seed 0",
        "licence": "CC BY-NC 4.0: for non-commercial use",
        "command": "train_motion.py GOLF/ motion_golf.safetensors --fold 3; make_golf_swing.py",
    }
    save_checkpoint(target, model.eval(), PHASES, features, provenance)


if __name__ == "__main__":
    make_golf_swing(Path(sys.argv[1]), Path(sys.argv[2]))
