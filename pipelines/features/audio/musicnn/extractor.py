"""`musicnn`: features of networks that were trained to tag music, whose weights ship with cotrans.

Rows see 187 frames, 3.008 s at 16 kHz, that begin on a grid of 32 ms. Before the start of a stream there is silence:
the first 12 rows at a hop of 0.25 s have heard less music than the others.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from pipelines.errors import CheckpointError, ConfigurationError, UsageError
from pipelines.features.audio.mel import Frames, musicnn_front_end
from pipelines.features.audio.musicnn.musical import FRONT, PENULTIMATE, POOLED, MusicnnMusical
from pipelines.features.audio.musicnn.musical_overlap import LiveMusical
from pipelines.features.audio.musicnn.shipped import DEFAULT, NETWORKS, network_in, shipped_weights
from pipelines.features.audio.musicnn.vgg import (
    CHANNELS,
    FRAMES,
    POOLED_STEPS,
    TAGS,
    MusicnnVgg,
    without_dead_channels,
)
from pipelines.features.audio.musicnn.vgg_overlap import GRID, LiveVgg
from pipelines.features.audio.parameters import load_strictly, randomise, read_state
from pipelines.features.audio.row_samples import SampleClock
from pipelines.features.audio.windowed import RowsOf, StreamMemory, WindowedExtractor
from pipelines.features.extractor import Rows
from pipelines.features.spec import RANDOM, Align, ExtractorSpec
from pipelines.files import file_sha256

VGG_MARK, MUSICAL_MARK = "convolutions.", "branches."  # parameters that only one of the architectures has
AUTO = "auto"  # the network of the weight file, or msd
# Layers that can be had, in the order in which they stand in a row, and their widths.
VGG_WIDTHS = {"pooled": POOLED_STEPS * CHANNELS, "tags": TAGS}
MUSICAL_WIDTHS = {"pooled": POOLED, "middle": POOLED - 2 * FRONT, "penultimate": PENULTIMATE, "tags": TAGS}


class Tagger(Protocol):
    """A network as the stream uses it."""

    def pooled(self, span: Frames, starts: list[int], memory: StreamMemory) -> Tensor:
        """Frames (frames, 96) and the first frame of each window to (windows, width)."""

    def layer(self, name: str, pooled: Tensor) -> Tensor:
        """(1, width) of one window to (1, width of the layer)."""


class VggTagger:
    """A VGG-style network without the channels that do nothing."""

    def __init__(self, network: MusicnnVgg) -> None:
        self._network = without_dead_channels(network)
        self._live = LiveVgg(self._network)

    def pooled(self, span: Frames, starts: list[int], memory: StreamMemory) -> Tensor:
        return torch.from_numpy(self._live.pooled_windows(span, starts, memory))

    def layer(self, name: str, pooled: Tensor) -> Tensor:
        return self._network.tags(pooled) if name == "tags" else pooled


class MusicalTagger:
    """A musical network without the filters that do nothing."""

    def __init__(self, network: MusicnnMusical) -> None:
        self._network, self._live = network, LiveMusical(network)

    def pooled(self, span: Frames, starts: list[int], memory: StreamMemory) -> Tensor:
        return self._live.pooled_windows(torch.from_numpy(span), starts, memory)

    def layer(self, name: str, pooled: Tensor) -> Tensor:
        if name == "middle":
            return pooled[:, 2 * FRONT :]
        if name == "penultimate":
            return self._network.penultimate(pooled)
        return self._network.tags(pooled) if name == "tags" else pooled


def load_musicnn(path: Path) -> MusicnnVgg:
    """The VGG-style network in a file that `musicnn_import` wrote, as it is."""
    network = MusicnnVgg()
    load_strictly(network, _state(path, musical=False), str(path))
    return network.eval()


def load_musical(path: Path) -> MusicnnMusical:
    """The musical network in a file that `musicnn_import` wrote, as it is."""
    network = MusicnnMusical()
    load_strictly(network, _state(path, musical=True), str(path))
    return network.eval()


def _state(path: Path, musical: bool) -> dict[str, Tensor]:
    """The parameters in a file, of a network of that architecture."""
    state = read_state(path, "musicnn")
    if any(name.startswith(VGG_MARK if musical else MUSICAL_MARK) for name in state):
        others = [name for name, network in NETWORKS.items() if network.musical != musical]
        raise CheckpointError(
            f"the weights in {path} are of {'a VGG-style' if musical else 'the musical'} network: give "
            f"{' or '.join(f'--option network={name}' for name in others)}"
        )
    return state


def build_musicnn(
    hop: float,
    output: str = "pooled",
    network: str = AUTO,
    weights_path: Path | None = None,
    random_weights: bool = False,
    align: Align = "causal",
) -> WindowedExtractor:
    """`network`: msd, mtt (VGG-style) or msd_musicnn; several joined by + stand side by side. auto: that of the weight
    file, msd without one.

    `output`: layers, several joined by +. Both kinds have pooled (256; of msd_musicnn 1506) and the likelihood of the
    tags (50), msd_musicnn also middle (384: the part of pooled that comes from the convolutions in time) and
    penultimate (200: what the tags are read from).
    """
    network = chosen_network(network, weights_path)
    names, layers = network.split("+"), output.split("+")
    if len(set(names)) != len(names) or not set(names) <= set(NETWORKS):
        choices = ", ".join(NETWORKS)
        raise UsageError(f"musicnn has no network '{network}': choose from {choices}, or join some with +")
    width = 0
    for name in names:
        widths = MUSICAL_WIDTHS if NETWORKS[name].musical else VGG_WIDTHS
        if len(set(layers)) != len(layers) or not set(layers) <= set(widths):
            choices = ", ".join(widths)
            raise UsageError(
                f"musicnn's network {name} has no output '{output}': choose from {choices}, or join some with +"
            )
        width += sum(widths[layer] for layer in layers)
    if weights_path is not None and len(names) > 1:
        raise ConfigurationError("a weight file holds one musicnn network: choose one network with it")
    paths = [weights_path or shipped_weights(name) for name in names]
    taggers = [_tagger(name, None if random_weights else path) for name, path in zip(names, paths, strict=True)]
    front_end = musicnn_front_end()
    spec = ExtractorSpec(
        name="musicnn",
        kind="audio",
        width=width,
        window=front_end.span(FRAMES) / front_end.sample_rate,
        options={"output": output, "network": network},
        weights=RANDOM if random_weights else "+".join(file_sha256(path) for path in paths),
    )
    clock = SampleClock(hop, front_end.sample_rate, front_end.span(FRAMES), align)
    return WindowedExtractor(spec, clock, front_end, FRAMES, _rows_of(taggers, layers), GRID)


def chosen_network(wanted: str, path: Path | None) -> str:
    """The network that is meant; a file that holds another one is an error."""
    held = None if path is None else network_in(path)
    if wanted == AUTO:
        return held or DEFAULT
    if held is not None and "+" not in wanted and held != wanted:
        raise ConfigurationError(f"{path} holds musicnn's network {held}, not {wanted}: give --option network={held}")
    return wanted


def _tagger(name: str, path: Path | None) -> Tagger:
    """The network of a file; None: random parameters."""
    if NETWORKS[name].musical:
        musical = load_musical(path) if path else MusicnnMusical().eval()
        if path is None:
            randomise(musical)
        return MusicalTagger(musical)
    vgg = load_musicnn(path) if path else MusicnnVgg().eval()
    if path is None:
        randomise(vgg)
    return VggTagger(vgg)


def _rows_of(taggers: list[Tagger], layers: list[str]) -> RowsOf:
    def rows_of(span: Frames, starts: list[int], memory: StreamMemory) -> Rows:
        parts = []
        with torch.inference_mode():
            for number, tagger in enumerate(taggers):
                pooled = tagger.pooled(span, starts, memory.setdefault(number, {}))
                # Row by row: a matrix product's last bit may depend on how many rows there are.
                rows = torch.split(pooled, 1)
                parts += [torch.cat([tagger.layer(layer, row) for row in rows]) for layer in layers]
            return np.asarray(torch.cat(parts, 1).numpy())

    return rows_of
