"""MobileNetV2 with torchvision's parameter names."""

from __future__ import annotations

import torch
from torch import Tensor, nn

WIDTH = 1280  # numbers after pooling
# expansion, output channels, repetitions, stride of the first (table 2 of the MobileNetV2 paper)
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def convolution(channels: int, out: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, out, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(out),
        nn.ReLU6(inplace=True),
    )


class InvertedResidual(nn.Module):
    def __init__(self, channels: int, out: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = channels * expansion
        layers: list[nn.Module] = [convolution(channels, inner, 1)] if expansion > 1 else []
        layers += [
            convolution(inner, inner, 3, stride=stride, groups=inner),
            nn.Conv2d(inner, out, 1, bias=False),
            nn.BatchNorm2d(out),
        ]
        self.conv = nn.Sequential(*layers)
        self.shortcut = stride == 1 and channels == out

    def forward(self, x: Tensor) -> Tensor:
        """(b, channels, h, w) -> (b, out, h / stride, w / stride)."""
        out: Tensor = self.conv(x)
        return x + out if self.shortcut else out


class MobileNetV2(nn.Module):
    width = WIDTH

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = [convolution(3, 32, 3, stride=2)]
        size = 32
        for expansion, out, count, stride in STAGES:
            for index in range(count):
                layers.append(InvertedResidual(size, out, 1 if index else stride, expansion))
                size = out
        layers.append(convolution(size, WIDTH, 1))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(WIDTH, classes))

    def embed(self, images: Tensor) -> Tensor:
        """(b, 3, h, w) -> (b, 1280): the mean over the last map."""
        return torch.mean(self.features(images), dim=(2, 3))

    def forward(self, images: Tensor) -> Tensor:
        """(b, 3, h, w) -> (b, classes) logits."""
        logits: Tensor = self.classifier(self.embed(images))
        return logits
