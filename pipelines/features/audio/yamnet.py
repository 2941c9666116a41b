"""`yamnet`: Google's network for 521 kinds of sound (AudioSet), in windows of 0.975 s at 16 kHz.

The network is a TensorFlow Lite file that `cotrans weights get yamnet` fetches. Nothing of it ships but the names of
its classes, in their order (`weights/yamnet_classes.txt`, from the AudioSet ontology, CC BY 4.0).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import weights
from pipelines.errors import CheckpointError, MissingDependencyError, UsageError
from pipelines.features.extractor import AudioExtractor
from pipelines.features.spec import Align, FeatureSpec

if TYPE_CHECKING:
    from pipelines.features.networks.tflite import TfliteNetwork

NAME = "yamnet"
RATE = 16_000  # Hz
WIDTHS = {"embedding": 1024, "classes": 521}


def build_yamnet(
    hop: float,
    output: str = "embedding",
    weights_path: Path | None = None,
    random_weights: bool = False,
    align: Align = "causal",
) -> AudioExtractor:
    """`output`: embedding (1024, the layer that the classes are read from) or classes (521 likelihoods)."""
    from pipelines.features.networks.extractors import NetworkAudioExtractor, network_extractor

    if output not in WIDTHS:
        raise UsageError(f"yamnet has no output '{output}': choose from {', '.join(WIDTHS)}")
    if random_weights:
        raise UsageError("yamnet comes as a whole network in a file: it cannot have random weights")
    if weights_path is None:
        raise MissingDependencyError("yamnet needs its network: `cotrans weights get yamnet`, or --weights FILE")
    network = _output_of(weights_path, output)
    network.output = output  # by its name here, whatever its number in this file
    extractor = network_extractor(NAME, network, hop, {"rate": RATE}, align)
    assert isinstance(extractor, NetworkAudioExtractor)  # `_output_of` has looked at what it takes
    return extractor


def _output_of(path: Path, output: str) -> TfliteNetwork:
    """The network with the tensor that holds an output: published copies number their tensors differently.

    Classes are an output of every copy. The embedding is the last vector of its width before them.
    """
    from pipelines.features.networks.tflite import TfliteNetwork

    network = TfliteNetwork(path)
    width = WIDTHS[output]
    # Constants of the network (biases) have one dimension, its vectors have one for the batch before it.
    places = [tensor.number for tensor in network.tensors if tensor.width == width and len(tensor.shape) > 1]
    if network.input.kind != "audio" or not places:
        raise CheckpointError(f"{path} is not YAMNet: it has no vector of {width} numbers for the output '{output}'")
    return TfliteNetwork(path, str(places[-1]))


@cache
def yamnet_classes() -> tuple[str, ...]:
    """The names of the 521 classes, in the order of the network's output."""
    return tuple((Path(weights.__file__).parent / "yamnet_classes.txt").read_text(encoding="utf-8").splitlines())


def column_names(spec: FeatureSpec) -> tuple[str, ...]:
    """The names of the numbers in a row, where they are classes; () where they are not."""
    part = spec.parts[0]
    classes = len(spec.parts) == 1 and part.name == NAME and part.options.get("output") == "classes"
    return yamnet_classes() if classes else ()
