"""`vggish`: the AudioSet embedding in windows of 1.0 s, as the paper takes it.

Of the second, the network sees 96 frames (0.975 s), as torchvggish does when it gets one second of audio. Windows
lie on the 10 ms grid of the front end; before the start and after the end of a stream there is silence.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pipelines.errors import CheckpointError, ConfigurationError, MissingDependencyError, UsageError
from pipelines.features.audio.mel import vggish_front_end
from pipelines.features.audio.parameters import load_strictly, randomise, read_state
from pipelines.features.audio.row_samples import SampleClock
from pipelines.features.audio.vggish_network import EMBEDDING, FRAMES, PENULTIMATE, PcaParameters, Vggish
from pipelines.features.audio.windowed import WindowedExtractor, of_windows
from pipelines.features.audio.winograd import WinogradBlock
from pipelines.features.extractor import Rows
from pipelines.features.spec import RANDOM, Align, ExtractorSpec, Option
from pipelines.files import file_sha256

WINDOW_SECONDS = 1.0
FIRST_WINOGRAD = 6  # place of the third convolution in `Vggish.features`
WIDTHS = {"embedding": EMBEDDING, "penultimate": PENULTIMATE}

# Four windows at a time keep the convolutions in the processor's cache. The dense layers hold 280 MB, which are read
# once for however many rows there are.
CONVOLUTION_ROWS = 4
# Below these, libraries switch to other kernels that add in another order. Rows of zeros fill smaller batches up, so
# that a row's numbers do not depend on how many came with it.
LEAST_CONVOLUTION_ROWS = 2
LEAST_DENSE_ROWS = 4


def load_vggish(path: Path) -> Vggish:
    """The network with torchvggish's weights in `path`."""
    with torch.device("meta"):  # the file brings all parameters, so none need to be made up first
        network = Vggish()
    load_strictly(network, read_state(path, "vggish"), str(path))
    return network.eval()


def load_pca(path: Path, expected: str | None = None) -> PcaParameters:
    """Parameters of the post-processing; `expected` is the checksum that the file must have."""
    parameters = PcaParameters.from_state(read_state(path, "the VGGish PCA"), str(path))
    if expected is not None and file_sha256(path) != expected:
        raise CheckpointError(f"{path} has not the checksum {expected} of the PCA parameters in the specification")
    return parameters


def build_vggish(
    hop: float,
    output: str = "embedding",
    postprocess: bool = False,
    pca_parameters: str = "",
    pca_sha256: str = "",
    weights_path: Path | None = None,
    random_weights: bool = False,
    align: Align = "causal",
) -> WindowedExtractor:
    """`output`: embedding (128) or penultimate (4096). `postprocess` needs the file `pca_parameters`.

    A specification keeps the checksum of that file, `pca_sha256`, not its place; where given, it is checked.
    """
    if output not in WIDTHS:
        raise UsageError(f"vggish has no output '{output}': choose from {', '.join(WIDTHS)}")
    if postprocess and output != "embedding":
        raise ConfigurationError("the PCA post-processing of vggish is for the output 'embedding' alone")
    if not postprocess and (pca_parameters or pca_sha256):
        raise ConfigurationError("PCA parameters were given for vggish, but postprocess is off")
    if postprocess and not pca_parameters:
        raise MissingDependencyError(
            "vggish with postprocess needs its PCA parameters: `cotrans weights get vggish-audioset-pca`, "
            "then give the file as the option pca_parameters"
        )
    options: dict[str, Option] = {"output": output}
    pca = None
    if postprocess:
        pca = load_pca(Path(pca_parameters), pca_sha256 or None)
        options |= {"postprocess": True, "pca_sha256": file_sha256(Path(pca_parameters))}
    if random_weights:
        network = Vggish().to_empty(device="cpu").eval()
        randomise(network)
        checksum = RANDOM
    elif weights_path is None:
        raise MissingDependencyError(
            "vggish needs its weights: `cotrans weights get vggish-audioset`, or --weights FILE"
        )
    else:
        network = load_vggish(weights_path)
        checksum = file_sha256(weights_path)
    front_end = vggish_front_end()
    window = round(WINDOW_SECONDS * front_end.sample_rate)
    spec = ExtractorSpec("vggish", "audio", WIDTHS[output], WINDOW_SECONDS, options, checksum)
    clock = SampleClock(hop, front_end.sample_rate, window, align)
    return WindowedExtractor(spec, clock, front_end, FRAMES, of_windows(FRAMES, _rows_of(network, output, pca)))


def _rows_of(network: Vggish, output: str, pca: PcaParameters | None) -> Callable[[NDArray[np.float32]], Rows]:
    # The first two convolutions have few channels: transforming their large maps would cost more than it saves.
    direct = nn.Sequential(*list(network.features)[:FIRST_WINOGRAD])
    direct.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    blocks = _winograd_blocks(list(network.features)[FIRST_WINOGRAD:])

    def convolved(examples: torch.Tensor) -> torch.Tensor:
        """`Vggish.flat`, faster."""
        maps: torch.Tensor = direct(_filled_up(examples, LEAST_CONVOLUTION_ROWS)[:, None])[: len(examples)]
        maps = maps.permute(0, 2, 3, 1)
        for block in blocks:
            maps = block(maps)
        return maps.flatten(1)

    def rows_of(windows: NDArray[np.float32]) -> Rows:
        """(rows, 96, 64) to (rows, width)."""
        with torch.inference_mode():
            examples = torch.split(torch.from_numpy(windows), CONVOLUTION_ROWS)
            flat = _filled_up(torch.cat([convolved(each) for each in examples]), LEAST_DENSE_ROWS)
            rows = network.penultimate(flat)
            if output == "embedding":
                rows = network.embedding(rows)
            return np.asarray((pca(rows) if pca else rows)[: len(windows)].numpy())

    return rows_of


def _winograd_blocks(layers: list[nn.Module]) -> list[WinogradBlock]:
    """Each convolution with the ReLU and, where there is one, the pooling behind it."""
    return [
        WinogradBlock(layer, pooled=isinstance(layers[place + 2], nn.MaxPool2d))
        for place, layer in enumerate(layers)
        if isinstance(layer, nn.Conv2d)
    ]


def _filled_up(rows: torch.Tensor, least: int) -> torch.Tensor:
    """(rows, ...) with rows of zeros behind them until there are at least `least`."""
    if len(rows) >= least:
        return rows
    return torch.cat([rows, torch.zeros(least - len(rows), *rows.shape[1:])])
