"""The form of EfficientNet-Lite0 that computes rows: batch norms folded, one picture at a time.

Measured on one Zen 4 core (ms a picture of 224², and of 160²): the plain module in eager mode 25 and 14, folded 31 and
13, folded with channels last 23 and 10, onnxruntime 11.7 and 6.2. Batches of 2 to 16 pictures gain nothing anywhere
(the maps leave the cache), and with batches of one a row's numbers depend on its own picture alone. So onnxruntime
computes where it is installed and the device is a CPU; otherwise PyTorch, with channels last.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from pipelines.features.networks.onnx_writer import OnnxWriter
from pipelines.features.video.efficientnet import Block, EfficientNetLite0, SameConvolution, fold_norms, same_padding
from pipelines.onnx_session import OnnxSession
from pipelines.packages import installed


def fast_form(network: EfficientNetLite0, outputs: str, size: int, device: str) -> Callable[[Tensor], Tensor]:
    """(1, 3, size, size) -> (1, width) of the network's "features" or "classes". Folds the network's norms."""
    fold_norms(network)
    if device == "cpu" and installed("onnx", "onnxruntime"):
        return _with_onnxruntime(network, outputs, size)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    compute = network.embed if outputs == "features" else network

    def run(images: Tensor) -> Tensor:
        result: Tensor = compute(images.contiguous(memory_format=torch.channels_last))
        return result

    return run


def _with_onnxruntime(network: EfficientNetLite0, outputs: str, size: int) -> Callable[[Tensor], Tensor]:
    graph = OnnxGraph(network, outputs, size).model()
    session = OnnxSession("efficientnet_lite0", graph)

    def run(images: Tensor) -> Tensor:
        (result,) = session.run(session.outputs, {"images": images.numpy()})
        return torch.from_numpy(result)

    return run


class OnnxGraph:
    """A folded network, written down layer by layer."""

    def __init__(self, network: EfficientNetLite0, outputs: str, size: int) -> None:
        self._writer = OnnxWriter()
        self._size = size
        self._length = size  # of the current map's sides
        self._writer.constant("zero", np.float32(0))
        self._writer.constant("six", np.float32(6))
        value = self._convolution(network._conv_stem, "images", "stem", clipped=True)
        for number, block in enumerate(network._blocks):
            assert isinstance(block, Block)
            value = self._block(block, value, f"block{number}")
        value = self._convolution(network._conv_head, value, "head", clipped=True)
        pooled = self._writer.node("GlobalAveragePool", [value], "pooled")
        value = self._writer.node("Flatten", [pooled], "features", axis=1)
        if outputs == "classes":
            weight, bias = self._parameters(network._fc, "classifier")
            value = self._writer.node("Gemm", [value, weight, bias], "classes", transB=1)
        self._output = value

    def model(self) -> bytes:
        """From "images" to the network's output."""
        return self._writer.model({"images": [1, 3, self._size, self._size]}, [self._output])

    def _block(self, block: Block, value: str, name: str) -> str:
        inner = self._convolution(block._expand_conv, value, f"{name}.expand", clipped=True) if block.expands else value
        inner = self._convolution(block._depthwise_conv, inner, f"{name}.depthwise", clipped=True)
        out = self._convolution(block._project_conv, inner, f"{name}.project", clipped=False)
        return self._writer.node("Add", [value, out], f"{name}.sum") if block.shortcut else out

    def _convolution(self, layer: SameConvolution, value: str, name: str, clipped: bool) -> str:
        kernel, stride = layer.kernel_size[0], layer.stride[0]
        before, after = same_padding(self._length, kernel, stride)
        self._length = -(-self._length // stride)
        sizes = {
            "kernel_shape": [kernel, kernel],
            "strides": [stride, stride],
            "pads": [before, before, after, after],
            "group": layer.groups,
        }
        value = self._writer.node("Conv", [value, *self._parameters(layer, name)], name, **sizes)
        return self._writer.node("Clip", [value, "zero", "six"], f"{name}.clipped") if clipped else value

    def _parameters(self, layer: nn.Conv2d | nn.Linear, name: str) -> list[str]:
        assert layer.bias is not None  # norms are folded
        values = {"weight": layer.weight, "bias": layer.bias}
        return [self._writer.constant(f"{name}.{kind}", value.detach().numpy()) for kind, value in values.items()]
