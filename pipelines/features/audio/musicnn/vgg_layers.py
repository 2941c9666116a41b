"""The layers of the VGG-style network on pieces of a stream: no zeros before or after a piece, unlike in a window.

A layer is a convolution, ReLU and batch norm, and as much of the pooling after it as does not depend on where a window
begins: the first layer pools over time, the others over bands alone, and the last, which sees windows, as the network
has it. That one leaves out what does not fill its last pooling, and so all layers leave out the bands that only such
values are made of: there are zeros before the first band, and none after the last. Measured on one busy Zen 5 core, ms
a row of the network mtt, 32 rows together and one alone: onnxruntime 1.0 and 1.6, PyTorch 1.8 and 2.8, whose
convolutions of small maps are products of unfolded copies. So onnxruntime computes where it is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pipelines.features.audio.musicnn.vgg import LAYERS, NORM_EPSILON, POOLS, FixedBatchNorm, MusicnnVgg
from pipelines.features.networks.onnx_writer import OnnxWriter
from pipelines.onnx_session import OnnxSession
from pipelines.packages import installed

Values: TypeAlias = NDArray[np.float32]  # (rows, channels, time, bands)
Layer: TypeAlias = Callable[[Values], Values]

LAST = LAYERS - 1
BANDS_SEEN = 94  # bands that the first layer sees, of 96


def open_layers(network: MusicnnVgg) -> list[Layer]:
    """With onnxruntime, or with PyTorch where that is not installed."""
    build = _with_onnxruntime if installed("onnx", "onnxruntime") else _with_torch
    return [build(network, layer) for layer in range(LAYERS)]


def _pooling(layer: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Size and stride, (time, band), of what the layer itself pools."""
    size, stride = POOLS[layer]
    return (size, stride) if layer in (0, LAST) else ((1, size[1]), (1, stride[1]))


def _parts(network: MusicnnVgg, layer: int) -> tuple[nn.Conv2d, FixedBatchNorm]:
    convolution, norm = network.convolutions[layer], network.norms[layer]
    assert isinstance(convolution, nn.Conv2d) and isinstance(norm, FixedBatchNorm)
    return convolution, norm


def _with_torch(network: MusicnnVgg, layer: int) -> Layer:
    convolution, norm = _parts(network, layer)
    weight = convolution.weight.to(memory_format=torch.channels_last)
    padding, pooling = (1, 0, int(layer == LAST), 0), _pooling(layer)

    def compute(values: Values) -> Values:
        with torch.inference_mode():
            rows = nn.functional.pad(torch.from_numpy(values), padding).contiguous(memory_format=torch.channels_last)
            # One by one: which way PyTorch convolves, and so the last bit, may depend on how many there are.
            convolved = [
                nn.functional.conv2d(row, weight, convolution.bias, convolution.stride) for row in torch.split(rows, 1)
            ]
            maps = nn.functional.max_pool2d(norm(torch.cat(convolved).relu_()), *pooling)
            return np.asarray(maps.contiguous().numpy())

    return compute


def _with_onnxruntime(network: MusicnnVgg, layer: int) -> Layer:
    # One thread: the maps are too small to share.
    session = OnnxSession("musicnn", _graph(network, layer), threads=1)
    outputs = session.outputs

    def compute(values: Values) -> Values:
        result: Values = session.run(outputs, {"maps": values})[0]
        return result

    return compute


def _graph(network: MusicnnVgg, layer: int) -> bytes:
    """From "maps" (rows, channels, time, bands) to what the layer makes of them."""
    convolution, norm = _parts(network, layer)
    writer = OnnxWriter()
    parameters = {
        "weight": convolution.weight,
        "bias": convolution.bias,
        "scale": norm.weight,
        "shift": norm.bias,
        "mean": norm.running_mean,
        "variance": norm.running_var,
    }
    for name, parameter in parameters.items():
        assert parameter is not None
        writer.constant(name, parameter.detach().contiguous().numpy())
    shape = {"kernel_shape": [3, 3], "pads": [int(layer == LAST), 1, 0, 0], "strides": list(convolution.stride)}
    value = writer.node("Conv", ["maps", "weight", "bias"], "convolved", **shape)
    value = writer.node("Relu", [value], "positive")
    value = writer.node(
        "BatchNormalization", [value, "scale", "shift", "mean", "variance"], "normal", epsilon=NORM_EPSILON
    )
    size, stride = _pooling(layer)
    value = writer.node("MaxPool", [value], "pooled", kernel_shape=size, strides=stride)
    bands = BANDS_SEEN if layer == 0 else "bands"
    return writer.model({"maps": ["rows", convolution.in_channels, "time", bands]}, [value])
