"""`musicnn`: features of a network that was trained to tag music, whose weights ship with cotrans.

Rows see 187 frames, 3.008 s at 16 kHz, that begin on a grid of 32 ms. Before the start of a stream there is silence:
the first 12 rows at a hop of 0.25 s have heard less music than the others.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

from pipelines.errors import CheckpointError, ConfigurationError
from pipelines.features.audio.clock import SampleClock
from pipelines.features.audio.mel import Frames, musicnn_front_end
from pipelines.features.audio.musicnn_network import (
    CHANNELS,
    FRAMES,
    POOLED_STEPS,
    TAGS,
    MusicnnVgg,
    without_dead_channels,
)
from pipelines.features.audio.musicnn_overlap import GRID, Blocks, pooled_windows
from pipelines.features.audio.weights import RANDOM, load_strictly, randomise, read_state
from pipelines.features.audio.windowed import RowsOf, StreamMemory, WindowedExtractor
from pipelines.features.extractor import Rows
from pipelines.features.spec import Align, ExtractorSpec
from pipelines.files import file_sha256

# Trained on the Million Song Dataset and on MagnaTagATune.
SHIPPED = {"msd": "musicnn_msd_vgg.safetensors", "mtt": "musicnn_mtt_vgg.safetensors"}
NETWORKS = {"msd": ("msd",), "mtt": ("mtt",), "msd+mtt": ("msd", "mtt")}
WIDTHS = {"pooled": POOLED_STEPS * CHANNELS, "tags": TAGS, "pooled+tags": POOLED_STEPS * CHANNELS + TAGS}


def shipped_weights(network: str) -> Path:
    """The file of one of the networks that come with cotrans."""
    import weights

    return Path(weights.__file__).parent / SHIPPED[network]


def load_musicnn(path: Path) -> MusicnnVgg:
    """The network in a file that `musicnn_import` wrote, as it is."""
    network = MusicnnVgg()
    load_strictly(network, read_state(path, "musicnn"), str(path))
    return network.eval()


def musicnn_tags(path: Path) -> list[str]:
    """The names of the 50 tags, in the order of the network's output."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            return [str(tag) for tag in json.loads(file.metadata()["musicnn"])["tags"]]
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} does not say what its tags are: convert musicnn's wheel again") from error


def build_musicnn(
    hop: float,
    output: str = "pooled",
    network: str = "msd",
    weights_path: Path | None = None,
    random_weights: bool = False,
    align: Align = "causal",
) -> WindowedExtractor:
    """`output`: the last pooling layer (256), the likelihood of the tags (50), or both.

    `network`: msd, mtt or msd+mtt, whose rows stand side by side.
    """
    if output not in WIDTHS:
        raise ConfigurationError(f"musicnn has no output '{output}': choose from {', '.join(WIDTHS)}")
    if network not in NETWORKS:
        raise ConfigurationError(f"musicnn has no network '{network}': choose from {', '.join(NETWORKS)}")
    names = NETWORKS[network]
    if weights_path is not None and len(names) > 1:
        raise ConfigurationError("a weight file holds one musicnn network: choose network msd or mtt with it")
    networks, checksum = [], RANDOM
    if random_weights:
        networks = [MusicnnVgg() for _ in names]
        for each in networks:
            randomise(each.eval())
    else:
        paths = [weights_path or shipped_weights(name) for name in names]
        networks = [without_dead_channels(load_musicnn(path)) for path in paths]
        checksum = "+".join(file_sha256(path) for path in paths)
    front_end = musicnn_front_end()
    window = (FRAMES - 1) * front_end.frame_hop + front_end.frame_length  # samples
    spec = ExtractorSpec(
        name="musicnn",
        kind="audio",
        width=WIDTHS[output] * len(names),
        window=window / front_end.sample_rate,
        options={"output": output, "network": network},
        weights=checksum,
    )
    clock = SampleClock(hop, front_end.sample_rate, window, align)
    return WindowedExtractor(spec, clock, front_end, FRAMES, _rows_of(networks, output), GRID)


def _rows_of(networks: list[MusicnnVgg], output: str) -> RowsOf:
    for network in networks:
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def rows_of(span: Frames, starts: list[int], memory: StreamMemory) -> Rows:
        parts = []
        with torch.inference_mode():
            for number, network in enumerate(networks):
                blocks: Blocks = memory.setdefault(number, {})
                pooled = pooled_windows(network, torch.from_numpy(span), starts, blocks)
                parts += [pooled] if "pooled" in output else []
                # Row by row: a matrix product's last bit may depend on how many rows there are.
                parts += [torch.cat([network.tags(row) for row in torch.split(pooled, 1)])] if "tags" in output else []
            return np.asarray(torch.cat(parts, 1).numpy())

    return rows_of
