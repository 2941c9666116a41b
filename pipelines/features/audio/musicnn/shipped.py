"""The networks of musicnn that come with cotrans, and which of them a weight file holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.untrusted.parsing import json_value

DEFAULT = "msd"
METADATA = "musicnn"  # the entry of a file that says what is in it


@dataclass(frozen=True)
class Network:
    """A network, where it comes from and the file that it became."""

    title: str  # in the metadata of the file
    file: str  # in `weights/`
    musical: bool  # of musicnn's own architecture; the others are VGG-style
    member: str  # the checkpoint in musicnn's wheel
    labels: str  # the list of its tags in the wheel's configuration.py


# Trained on the Million Song Dataset and on MagnaTagATune; of the latter only the VGG-style network ships.
NETWORKS = {
    "msd": Network("musicnn-msd-vgg", "musicnn_msd_vgg.safetensors", False, "musicnn/MSD_vgg/", "MSD_LABELS"),
    "mtt": Network("musicnn-mtt-vgg", "musicnn_mtt_vgg.safetensors", False, "musicnn/MTT_vgg/", "MTT_LABELS"),
    "msd_musicnn": Network(
        "musicnn-msd-musicnn", "musicnn_msd_musicnn.safetensors", True, "musicnn/MSD_musicnn/", "MSD_LABELS"
    ),
}


def shipped_weights(network: str) -> Path:
    """The file of one of the networks that come with cotrans."""
    import weights

    return Path(weights.__file__).parent / NETWORKS[network].file


def description(path: Path) -> Mapping[str, Any]:
    """What a weight file says about itself; empty where it says nothing, as fine-tuned ones do."""
    from safetensors import SafetensorError, safe_open

    if path.suffix != ".safetensors":
        return {}
    try:
        with safe_open(path, "pt") as file:
            metadata = json_value((file.metadata() or {}).get(METADATA, "{}"))
    except (OSError, SafetensorError, ValueError):
        return {}  # whoever reads the tensors says what is wrong with the file
    return metadata if isinstance(metadata, dict) else {}


def network_in(path: Path) -> str | None:
    """The name of the network in a file; None: the file does not say."""
    title = description(path).get("network")
    return next((name for name, network in NETWORKS.items() if network.title == title), None)
