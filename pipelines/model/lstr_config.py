"""The configuration of LSTR and TeSTra: a long memory that is compressed, and a work memory that is decoded."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.model.config import Activation


@dataclass(frozen=True)
class LstrConfig:
    """What an LSTR is made of. Memories are counted in samples; a sample is every `rate`-th frame."""

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

    @property
    def span(self) -> int:
        """Frames from the oldest to the newest sample of the work memory, both counted."""
        return (self.work_samples - 1) * self.work_rate + 1

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
    def encoded_rows(self) -> int:
        """Rows of the encoded long memory: the queries of the last module that has any."""
        return next(count for count in reversed(self.encoder_queries) if count)
