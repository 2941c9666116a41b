"""Building a video extractor by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pipelines.errors import MissingDependencyError, UsageError
from pipelines.features.extractor import VideoExtractor
from pipelines.features.spec import ExtractorSpec, Option
from pipelines.features.video import flow, motion
from pipelines.features.video.choices import FLOW_METHODS, PREPROCESSINGS, checked_options
from pipelines.features.video.efficientnet import EfficientNetLite0
from pipelines.features.video.efficientnet_runtime import fast_form
from pipelines.features.video.extractors import NetworkExtractor
from pipelines.features.video.key_tables import EFFICIENTNET_TABLES, MOBILENET_TABLES, RESNET_TABLES, KeyTable
from pipelines.features.video.mobilenet import MobileNetV2
from pipelines.features.video.parameters import fill_randomly, load_weights
from pipelines.features.video.preprocessing import CROP, preprocess
from pipelines.features.video.resnet import ResNet50
from pipelines.features.weights.registry import SHIPPED
from pipelines.files import file_sha256
from pipelines.untrusted.parsing import choice_of

USUAL_FRAME = 0.04  # seconds; a stack's window is stated for 25 frames per second


@dataclass(frozen=True)
class Network:
    build: type[ResNet50] | type[MobileNetV2] | type[EfficientNetLite0]
    arguments: Mapping[str, Any]
    head: str  # the layer after the features
    tables: tuple[KeyTable, ...]
    frames_per_row: int = 1
    shipped: str | None = None  # the weight file in `weights/`


NETWORKS = {
    "efficientnet_lite0": Network(
        EfficientNetLite0, {}, "_fc", EFFICIENTNET_TABLES, shipped="efficientnet_lite0.safetensors"
    ),
    "resnet50": Network(ResNet50, {}, "fc", RESNET_TABLES),
    "mobilenet_v2": Network(MobileNetV2, {}, "classifier.1", MOBILENET_TABLES),
    "resnet50-flow": Network(ResNet50, {"channels": flow.CHANNELS}, "fc", RESNET_TABLES, flow.FRAMES),
}


def build_video_extractor(
    name: str,
    weights_path: Path | None = None,
    random_weights: bool = False,
    options: Mapping[str, Option] | None = None,
    device: str = "cpu",
) -> VideoExtractor:
    """An extractor with published weights, or with random ones where that is asked for (marked in its `spec`)."""
    chosen = checked_options(name, options or {})
    if random_weights and weights_path is not None:
        raise UsageError(f"{name}: either a weight file or random weights, not both")
    if name == motion.NAME:
        return motion.build_motion_extractor(weights_path, random_weights, chosen)
    kind = NETWORKS[name]
    with torch.device("meta"):  # no time is spent on numbers that are replaced
        network: nn.Module = kind.build(**kind.arguments)
    project = "torchvision"
    if weights_path is None and kind.shipped and not random_weights:
        weights_path = SHIPPED / kind.shipped
    if random_weights:
        fill_randomly(network)
        weights = "random"
    elif weights_path is not None:
        project = load_weights(network, kind.head, weights_path, kind.tables).preprocessing
        weights = file_sha256(weights_path)
    else:
        raise MissingDependencyError(f"{name} needs weights: give a file with --weights, or see `cotrans weights list`")
    network.eval().requires_grad_(False).to(device)
    if chosen.get("preprocessing") == "auto":
        chosen["preprocessing"] = project
    width = kind.build.width
    compute = cast(Callable[[Tensor], Tensor], network.embed)
    if isinstance(network, EfficientNetLite0):
        output = str(chosen["output"])
        width = width if output == "features" else network.classes
        compute = fast_form(network, output, CROP, device)
    spec = ExtractorSpec(
        name=name,
        kind="video",
        width=width,
        window=(kind.frames_per_row - 1) * USUAL_FRAME,
        options=chosen,
        weights=weights,
    )
    return NetworkExtractor(spec, network, compute, _prepare(chosen), kind.frames_per_row, device)


def _prepare(options: Mapping[str, Option]) -> Any:
    if "flow" in options:
        return flow.FlowStack(choice_of(options["flow"], FLOW_METHODS))
    preprocessing = choice_of(options.get("preprocessing", "efficientnet"), PREPROCESSINGS)

    def prepare(frames: NDArray[np.uint8]) -> Tensor:
        return preprocess(frames[0], preprocessing)

    return prepare
