"""The configuration of LSTR and TeSTra: a long memory that is compressed, and a work memory that is decoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, get_args

from pipelines.errors import ConfigurationError
from pipelines.model.base_config import BaseConfig
from pipelines.model.transformer.config import Activation

# Up to this width everything is computed in float64: at 128 a step takes a fifth longer for it, at 256 up to twice as
# long, which is still milliseconds.
FLOAT64_WIDTH = 256


@dataclass(frozen=True)
class LstrConfig(BaseConfig):
    """What an LSTR is made of. Memories are counted in samples; a sample is every `rate`-th frame."""

    kind: ClassVar[str] = "lstr"

    input_width: int  # numbers per frame at the input
    width: int  # d, numbers per row inside
    heads: int
    feed_forward: int  # hidden width of the feed-forward parts
    classes: int
    long_samples: int  # L, samples of the long memory
    long_rate: int  # frames from one sample of the long memory to the next
    work_samples: int  # W, samples of the work memory
    work_rate: int
    # Encoder modules, first one on the long memory: learned queries (0: none, self-attention of its input), layers,
    # and whether a norm follows.
    encoder_queries: tuple[int, ...]
    encoder_layers: tuple[int, ...]
    encoder_norms: tuple[bool, ...]
    decoder_layers: int
    decoder_norm: bool = True
    feature_head: bool = True  # Linear and ReLU for each memory; without, frames enter as they are
    activation: Activation = "relu"
    long_positions: bool = False
    work_positions: bool = True
    include_work: bool = False  # the decoder's cross-attention sees the work memory too
    decay: float = 1.0  # weight of a sample of the long memory, to the power of its age in samples
    dropout: float = 0.0  # in training only

    def __post_init__(self) -> None:
        self.check_types()
        self.check_at_least_one("input_width", "width", "heads", "feed_forward", "classes", "decoder_layers")
        self.check_at_least_one("long_samples", "long_rate", "work_samples", "work_rate")
        self.check_shares("dropout")
        if self.width % self.heads:
            raise ConfigurationError(f"width {self.width} is not divisible by heads {self.heads}: choose others")
        if not self.feature_head and self.input_width != self.width:
            raise ConfigurationError(
                f"without feature heads the width ({self.width}) must be that of the input ({self.input_width})"
            )
        if self.activation not in get_args(Activation):
            raise ConfigurationError(f"activation must be relu or gelu, not '{self.activation}'")
        if not 0.0 < self.decay <= 1.0:
            raise ConfigurationError(f"decay must be above 0 and at most 1, not {self.decay}")
        if not len(self.encoder_queries) == len(self.encoder_layers) == len(self.encoder_norms) >= 1:
            raise ConfigurationError("every encoder module needs a number of queries, of layers, and a norm or none")
        if min(self.encoder_queries) < 0 or min(self.encoder_layers) < 1 or not self.encoder_queries[0]:
            raise ConfigurationError("encoder modules need at least 1 layer each, and the first one queries")

    @property
    def span(self) -> int:
        """Frames from the oldest to the newest sample of the work memory, both counted."""
        return (self.work_samples - 1) * self.work_rate + 1

    @property
    def in_float64(self) -> bool:
        """Whether everything is computed in float64.

        Rows of the work memory enter the decoder as they are, so its first scores grow with the square of the
        features: scaled by 10, the official float32 computation is wrong in the third digit.
        """
        return self.width <= FLOAT64_WIDTH

    @property
    def proven_in_float64(self) -> bool:
        return not self.in_float64

    @property
    def window(self) -> int:
        """Frames that an output depends on."""
        return self.span + self.long_samples * self.long_rate

    @property
    def position_count(self) -> int:
        """Entries of the table of positions: the long memory's, where they are used, and then the work memory's."""
        work = self.work_samples if self.work_positions else 0
        return (self.long_samples if self.long_positions else 0) + work

    @property
    def chunk_obstacle(self) -> str | None:
        return "a long memory in phases, which has no pass with gradients over a chunk"

    @property
    def depth(self) -> int:
        return sum(self.encoder_layers) + self.decoder_layers

    @property
    def computed_numbers(self) -> int:
        """Numbers that one stream remembers, about: nothing in a file bounds the memories."""
        return self.window * self.width * (1 + max(self.encoder_layers)) * self.decoder_layers

    def summary(self) -> str:
        long, work = f"{self.long_samples} samples", f"{self.work_samples} samples"
        name = "TeSTra" if self.include_work or self.decay != 1.0 else "LSTR"
        return (
            f"{name}, long memory of {long} (1 in {self.long_rate} frames), work memory of {work}, width {self.width}, "
            f"{self.heads} heads"
        )

    @property
    def encoded_rows(self) -> int:
        """Rows of the encoded long memory: the queries of the last module that has any."""
        return next(count for count in reversed(self.encoder_queries) if count)
