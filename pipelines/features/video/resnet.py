"""ResNet-50 with torchvision's parameter names (stride in the 3 × 3 convolution, as there and in MMAction2)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

BLOCKS = (3, 4, 6, 3)  # bottlenecks per stage
EXPANSION = 4  # output channels of a bottleneck per inner channel
WIDTH = 512 * EXPANSION  # 2048 numbers after pooling


class Bottleneck(nn.Module):
    def __init__(self, channels: int, inner: int, stride: int) -> None:
        super().__init__()
        out = inner * EXPANSION
        self.conv1 = nn.Conv2d(channels, inner, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3 = nn.Conv2d(inner, out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out)
        self.downsample: nn.Module | None = None
        if stride != 1 or channels != out:
            self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride=stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        """(b, channels, h, w) -> (b, 4 · inner, h / stride, w / stride)."""
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.bn1(self.conv1(x)).relu_()
        x = self.bn2(self.conv2(x)).relu_()
        x = self.bn3(self.conv3(x))
        x += shortcut
        return x.relu_()


class ResNet50(nn.Module):
    """`channels` is 3 for RGB and 10 for five optical-flow fields."""

    width = WIDTH

    def __init__(self, classes: int = 1000, channels: int = 3) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        size = 64
        for stage, count in enumerate(BLOCKS):
            inner = 64 << stage
            blocks = []
            for index in range(count):
                blocks.append(Bottleneck(size, inner, stride=2 if stage and not index else 1))
                size = inner * EXPANSION
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(WIDTH, classes)

    def embed(self, images: Tensor) -> Tensor:
        """(b, channels, h, w) -> (b, 2048): the mean over the last map."""
        x = self.maxpool(self.bn1(self.conv1(images)).relu_())
        for stage in range(len(BLOCKS)):
            x = self.get_submodule(f"layer{stage + 1}")(x)
        return torch.mean(x, dim=(2, 3))

    def forward(self, images: Tensor) -> Tensor:
        """(b, channels, h, w) -> (b, classes) logits."""
        logits: Tensor = self.fc(self.embed(images))
        return logits
