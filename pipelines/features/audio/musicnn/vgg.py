"""The VGG-style tagging network of musicnn (Pons and Serra, 2019), and what its layers offer as features."""

from __future__ import annotations

import torch
from torch import Tensor, nn

FRAMES = 187  # frames in one patch: 3 s at 16 kHz and a hop of 256 samples
BANDS = 96
CHANNELS = 128
TAGS = 50
LAYERS = 5
# (size, stride) of the pooling after each convolution, (time, band). In musicnn, the first one keeps every second band
# without a look at the others (size 1, stride 2); here the first convolution leaves them out (its own stride).
POOLS = (((4, 1), (2, 1)), ((2, 2), (2, 2)), ((2, 2), (2, 2)), ((2, 2), (2, 2)), ((4, 4), (4, 4)))
POOLED_STEPS = 2  # time steps that are left after the last pooling; one band is left
NORM_EPSILON = 1e-3  # TensorFlow's default

# A channel can go when an input of size 1 moves nothing in the next layer by more than this, which is about the
# rounding of float32. Weight decay has emptied many channels like that.
DEAD_INFLUENCE = 1e-6


class FixedBatchNorm(nn.Module):
    """Batch norm as it is after training: PyTorch's own wants a counter that TensorFlow has not."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """(rows, channels, ...) to the same."""
        return nn.functional.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, eps=NORM_EPSILON
        )


class MusicnnVgg(nn.Module):
    """Five blocks of convolution, ReLU, batch norm and max pooling, and one dense layer to the tags.

    Batch norm also stands at the very start, before the zero padding of the first convolution.
    """

    def __init__(self, widths: tuple[int, ...] = (CHANNELS,) * LAYERS) -> None:
        super().__init__()
        self.input_norm = FixedBatchNorm(1)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(inputs, outputs, 3, padding=1, stride=(1, 2) if inputs == 1 else (1, 1))
            for inputs, outputs in zip((1, *widths[:-1]), widths, strict=True)
        )
        self.norms = nn.ModuleList(FixedBatchNorm(width) for width in widths)
        self.dense = nn.Linear(POOLED_STEPS * widths[-1], TAGS)

    def pooled(self, patches: Tensor) -> Tensor:
        """(rows, 187, 96) log-mel patches to (rows, 256): the last pooling, time-major as in TensorFlow."""
        x: Tensor = self.input_norm(patches[:, None])
        for layer in range(LAYERS):
            x = self.pool(layer, self.activate(layer, self.convolutions[layer](x)))
        return x.permute(0, 2, 3, 1).flatten(1)

    def activate(self, layer: int, maps: Tensor) -> Tensor:
        """ReLU and batch norm after a convolution: (rows, channels, time, bands) to the same."""
        result: Tensor = self.norms[layer](torch.relu(maps))
        return result

    def pool(self, layer: int, maps: Tensor) -> Tensor:
        """(rows, channels, time, bands) to fewer time steps and bands."""
        return nn.functional.max_pool2d(maps, *POOLS[layer])

    def tags(self, pooled: Tensor) -> Tensor:
        """(rows, 256) to (rows, 50): the likelihood of each tag."""
        return torch.sigmoid(self.dense(pooled))

    def forward(self, patches: Tensor) -> Tensor:
        """(rows, 187, 96) to (rows, 50)."""
        return self.tags(self.pooled(patches))


def without_dead_channels(network: MusicnnVgg) -> MusicnnVgg:
    """The same function without the channels that only ever give the same number (MSD: 80 % of the work).

    One channel that is 1 everywhere takes the place of all of a layer's constant ones, so that the next layer
    sees the same numbers at the zero-padded edges, too. The last layer's channels are the output and stay.
    """
    state = {name: value.detach().clone() for name, value in network.state_dict().items()}
    widths = []
    for layer in range(LAYERS - 1):
        kernel, bias = f"convolutions.{layer}.weight", f"convolutions.{layer}.bias"
        norm = {key: f"norms.{layer}.{key}" for key in ("weight", "bias", "running_mean", "running_var")}
        after = f"convolutions.{layer + 1}.weight"
        scale = state[norm["weight"]] / (state[norm["running_var"]] + NORM_EPSILON).sqrt()
        constant = scale * (state[bias].relu() - state[norm["running_mean"]]) + state[norm["bias"]]
        influence = scale.abs() * state[kernel].abs().sum((1, 2, 3)) * state[after].abs().sum((2, 3)).amax(0)
        live = influence > DEAD_INFLUENCE
        stand_in = torch.einsum("oihw,i->ohw", state[after][:, ~live], constant[~live])
        state[after] = torch.cat([state[after][:, live], stand_in[:, None]], 1)
        state[kernel] = torch.cat([state[kernel][live], torch.zeros_like(state[kernel][:1])])
        # relu(1) and a batch norm that changes nothing.
        for name, value in (
            (bias, 1.0),
            *zip(norm.values(), (1.0, 0.0, 0.0, 1.0 - NORM_EPSILON), strict=True),
        ):
            state[name] = torch.cat([state[name][live], torch.tensor([value])])
        widths.append(len(state[bias]))
    result = MusicnnVgg((*widths, CHANNELS))
    result.load_state_dict(state)
    return result.eval()
