"""How published checkpoints name the parameters of our networks. A key that no rule matches is an error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

Rule = tuple[str, str]  # what a key begins with (a regular expression), and what takes its place


@dataclass(frozen=True)
class KeyTable:
    """The naming of one project, and how its networks want their pictures."""

    project: str
    rules: tuple[Rule, ...]
    preprocessing: str

    def rename(self, key: str) -> str | None:
        """Our name for a key; None when the table does not know it."""
        for pattern, replacement in self.rules:
            if match := re.match(pattern, key):
                return match.expand(replacement) + key[match.end() :]
        return None


TORCHVISION_RESNET = KeyTable("torchvision", ((r"(conv1|bn1|layer[1-4]|fc)\.", r"\1."),), "torchvision")
TORCHVISION_MOBILENET = KeyTable("torchvision", ((r"(features|classifier)\.", r"\1."),), "torchvision")
MMACTION_RESNET = KeyTable(
    "MMAction2",
    (
        (r"backbone\.conv1\.conv\.", "conv1."),
        (r"backbone\.conv1\.bn\.", "bn1."),
        (r"backbone\.(layer[1-4]\.\d+)\.conv([1-3])\.conv\.", r"\1.conv\2."),
        (r"backbone\.(layer[1-4]\.\d+)\.conv([1-3])\.bn\.", r"\1.bn\2."),
        (r"backbone\.(layer[1-4]\.\d+)\.downsample\.conv\.", r"\1.downsample.0."),
        (r"backbone\.(layer[1-4]\.\d+)\.downsample\.bn\.", r"\1.downsample.1."),
        (r"cls_head\.fc_cls\.", "fc."),
    ),
    "mmaction2",
)
EFFICIENTNET = KeyTable(
    "EfficientNet-PyTorch", ((r"(_conv_stem|_bn[01]|_blocks|_conv_head|_fc)\.", r"\1."),), "efficientnet"
)
RESNET_TABLES = (MMACTION_RESNET, TORCHVISION_RESNET)
MOBILENET_TABLES = (TORCHVISION_MOBILENET,)
EFFICIENTNET_TABLES = (EFFICIENTNET,)


def choose(tables: tuple[KeyTable, ...], state: Mapping[str, object]) -> KeyTable:
    """The table that knows most of the keys."""
    return max(tables, key=lambda table: sum(table.rename(key) is not None for key in state))
