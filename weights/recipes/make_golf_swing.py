"""Makes weights/models/golf-swing.safetensors: the classifier that was trained together with the network of `motion`.

python weights/recipes/make_golf_swing.py classifier.safetensors weights/models/golf-swing.safetensors

classifier.safetensors: what train_motion.py writes beside the network, which must be in weights/ already.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file

from pipelines.checkpoints.checkpoint import save_checkpoint
from pipelines.datasets.published.golf import PHASES
from pipelines.features.request import FeatureRequest
from pipelines.features.stream_factory import StreamFactory
from pipelines.metrics.class_order import ClassOrder
from pipelines.model.per_frame import PerFrameModel
from pipelines.model.per_frame_config import PerFrameConfig

RATE = 29.97  # rows per second: that of GolfDB's clips
LAG = 8  # rows: 0.27 s
# The network knows how long the phases of a swing last: within it, the order only has to keep them apart. Both numbers
# were chosen on the clips of fold 1, by a network that had not seen them.
WITHIN = 0.1  # seconds
TRUST = 0.2
REST = 10.0  # seconds after a swing until people stand for the next one


def swing_order(setup: float) -> ClassOrder:
    """How the phases follow each other. setup: seconds before a swing, in the clips that were trained on."""
    return ClassOrder((setup, *[WITHIN] * (len(PHASES) - 2), REST), TRUST, alike=True)


def make_golf_swing(classifier: Path, target: Path) -> None:
    """A linear layer on rows that remember a second; it speaks of the picture 8 rows ago."""
    features = StreamFactory(FeatureRequest("motion", hop=1 / RATE)).prototype().spec
    weights = load_file(classifier)
    with safe_open(classifier, "pt") as file:
        described = json.loads(file.metadata()["classifier"])
    model = PerFrameModel(PerFrameConfig(input_width=features.width, classes=len(PHASES), lag=LAG))
    with torch.no_grad():
        model.classifier.weight.copy_(weights["weight"])
        model.classifier.bias.copy_(weights["bias"])
    order = swing_order(described["dwells"][0])
    provenance = {
        "source": described["trained_on"],
        "licence": described["licence"],
        "command": f"{described['made_by']}; make_golf_swing.py",
    }
    save_checkpoint(target, model.eval(), PHASES, features, provenance, order=order)


if __name__ == "__main__":
    make_golf_swing(Path(sys.argv[1]), Path(sys.argv[2]))
