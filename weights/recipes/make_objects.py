"""Makes weights/models/objects.safetensors: the classifier of EfficientNet-Lite0 as a model without memory.

python weights/recipes/make_objects.py weights/models/objects.safetensors
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from safetensors import safe_open

from pipelines.checkpoints.checkpoint import save_checkpoint
from pipelines.features.request import FeatureRequest
from pipelines.features.stream_factory import StreamFactory
from pipelines.features.video.efficientnet_import import FILE, METADATA
from pipelines.features.weights.registry import SHIPPED
from pipelines.model.per_frame import PerFrameModel
from pipelines.model.per_frame_config import PerFrameConfig

HOP = 0.25  # seconds
SMOOTHING = 1.0  # seconds


def make_objects(target: Path) -> None:
    """The linear layer of the shipped network, on the features that the network gives."""
    features = StreamFactory(FeatureRequest("efficientnet_lite0", hop=HOP)).prototype().spec
    with safe_open(SHIPPED / FILE, "pt") as file:
        weight, bias = file.get_tensor("_fc.weight").float(), file.get_tensor("_fc.bias").float()
        described = json.loads(file.metadata()[METADATA])
    model = PerFrameModel(PerFrameConfig(input_width=weight.shape[1], classes=weight.shape[0]))
    with torch.no_grad():
        model.classifier.weight.copy_(weight)
        model.classifier.bias.copy_(bias)
    provenance = {"source": described["source"], "licence": described["licence"], "command": "make_objects.py"}
    save_checkpoint(target, model.eval(), described["classes"], features, provenance, smoothing=SMOOTHING)


if __name__ == "__main__":
    make_objects(Path(sys.argv[1]))
