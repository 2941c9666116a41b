"""The configuration of a continual transformer: frozen, and checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from pipelines.errors import ConfigurationError
from pipelines.model.base_config import BaseConfig

Activation = Literal["relu", "gelu"]
Norm = Literal["post", "pre"]
Positional = Literal["none", "static", "recycling", "relative", "rope", "alibi"]
Encoding = Literal["learned", "cyclic"]
Stacking = Literal["exact", "deep"]
Shortcut = Literal["none", "concatenate", "add"]

# Encodings that scores depend on, through ages or differences; the others are added to tokens.
RELATIVE = ("relative", "rope", "alibi")

_CHOICES: dict[str, tuple[str, ...]] = {
    "activation": get_args(Activation),
    "norm": get_args(Norm),
    "positional": get_args(Positional),
    "encoding": get_args(Encoding),
    "stacking": get_args(Stacking),
    "shortcut": get_args(Shortcut),
}


@dataclass(frozen=True)
class ModelConfig(BaseConfig):
    """What a continual transformer is made of. The defaults are those of the paper's continual models."""

    kind: ClassVar[str] = "transformer"

    input_width: int  # numbers per token at the input
    width: int  # d, numbers per token inside
    heads: int  # h, heads of width d / h
    feed_forward: int  # hidden width of the feed-forward part
    blocks: int  # b
    window: int  # n, tokens that an output has seen
    classes: int

    activation: Activation = "relu"
    norm: Norm = "post"
    in_projection_bias: bool = False
    out_projection_bias: bool = False
    final_norm: bool = True
    dropout: float = 0.0  # in training only, inside the blocks
    input_dropout: float = 0.0  # in training only, of the features
    # Linear, layer norm, ReLU and dropout in front of the encoder, so wide; None: a linear layer alone
    embedding: int | None = None
    embedding_dropout: float = 0.0  # in training only, after the embedding
    # What of the newest token the classifier sees beside the encoder's row: nothing; its embedding (its input
    # projection where there is none), concatenated; the token that entered the encoder, added to the normed row
    shortcut: Shortcut = "none"
    # none; static: position in the window; recycling: index in the stream, modulo the number of entries; relative: a
    # learned bias per head and age of the key; rope: queries and keys turned by their index; alibi: a penalty of age
    positional: Positional = "recycling"
    encoding: Encoding = "learned"
    # Entries of the positional table; None: 2n - 1 when recycling, otherwise one for each token of the window and
    # one for a class token that enters at block 1.
    positions: int | None = None
    class_token_block: int | None = None  # 1 … b: the block that the class token enters at
    # exact: equals the regular encoder on the window. deep: every block attends with its newest token only.
    stacking: Stacking = "exact"
    lag: int = 0  # the output is that of the token `lag` steps ago
    # Steps whose answers weigh the next one: what was named lately is likely now (see `recall.py`); 0: none
    recall: int = 0
    recall_floor: float = 0.01  # share of a class that was never named
    background: int | None = None  # the class in which nothing happens, which is not weighed
    # Share of the answer that a linear reading of each row has, averaged over the window (see `reading.py`); 0: none
    reading: float = 0.0
    # Whether the reading also tells known windows from foreign ones, which is added to the evidence for any class
    reading_evidence: bool = False
    attention_rows: int | None = None  # rows of attention computed at once by the regular model; None: all
    # OadTR's decoder, which anticipates `decoder_queries` coming frames; 0 blocks: none
    decoder_blocks: int = 0
    decoder_queries: int = 0
    decoder_heads: int = 0
    decoder_feed_forward: int = 0

    def __post_init__(self) -> None:
        self.check_types()
        self.check_at_least_one("input_width", "width", "heads", "feed_forward", "blocks", "window", "classes")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ConfigurationError(f"{name} must be one of {', '.join(choices)}, not '{getattr(self, name)}'")
        if self.width % self.heads:
            raise ConfigurationError(f"width {self.width} is not divisible by heads {self.heads}: choose others")
        self.check_shares("dropout", "input_dropout", "embedding_dropout")
        if self.attention_rows is not None and self.attention_rows < 1:
            raise ConfigurationError(f"attention_rows must be at least 1, not {self.attention_rows}")
        self._check_positions()
        self._check_class_token()
        self._check_lag()
        self._check_decoder()
        self._check_ends()
        self._check_recall()
        self._check_reading()

    def _check_positions(self) -> None:
        if self.encoding == "cyclic" and self.positional != "recycling":
            raise ConfigurationError("the cyclic encoding is a recycling one: set positional to recycling")
        if self.positional in RELATIVE:
            self._check_relative()
        if self.positions is None:
            return
        if self.positional in ("none", *RELATIVE):
            raise ConfigurationError(f"positions is {self.positions}, but positional is {self.positional}")
        if self.positional == "recycling" and self.positions < self.window:
            raise ConfigurationError(
                f"a recycling encoding needs at least {self.window} positions (the window), not {self.positions}"
            )
        if self.positional == "static" and self.positions not in (self.window, self.window + 1):
            raise ConfigurationError(
                f"a static encoding has {self.window} or {self.window + 1} positions (the window, and one for a "
                f"class token), not {self.positions}"
            )

    def _check_relative(self) -> None:
        if self.positional == "relative" and not self.single_output:
            raise ConfigurationError(
                "relative positions need single-output blocks (one block, or stacking deep, and no decoder): a "
                "retroactive row cannot follow a learned bias; use rope or alibi"
            )
        if self.positional == "rope" and self.head_width % 2:
            raise ConfigurationError(f"rope turns pairs of columns, and heads of width {self.head_width} are odd")
        if self.positional == "rope" and self.class_token_block is not None:
            raise ConfigurationError("a class token has no place in the stream to be turned by: use alibi or relative")
        if self.positional == "alibi" and self.class_token_block == 1 and not self.single_output:
            raise ConfigurationError(
                "in a retroactive block with alibi every weight fades, and a class token's would not: let it enter at "
                "block 2, or use stacking deep"
            )

    def _check_class_token(self) -> None:
        block = self.class_token_block
        if block is None:
            return
        if not 1 <= block <= self.blocks:
            raise ConfigurationError(f"class_token_block must be 1 to {self.blocks} (the blocks), not {block}")
        if self.stacking == "deep" and block != self.blocks:
            raise ConfigurationError(
                f"in a deep stack the class token enters at the last block ({self.blocks}), not at {block}"
            )

    def _check_lag(self) -> None:
        if not 0 <= self.lag < self.window:
            raise ConfigurationError(f"lag must be 0 to {self.window - 1} (less than the window), not {self.lag}")
        if self.lag and self.class_token_block is not None:
            raise ConfigurationError("lag is about a token's own output; a class token has none to wait for")

    def _check_decoder(self) -> None:
        sizes = (self.decoder_queries, self.decoder_heads, self.decoder_feed_forward)
        if self.decoder_blocks == 0 and any(sizes):
            raise ConfigurationError("decoder sizes are set, but decoder_blocks is 0")
        if self.decoder_blocks < 0 or (self.decoder_blocks and min(sizes) < 1):
            raise ConfigurationError("a decoder needs blocks, queries, heads and feed_forward of at least 1 each")
        if self.decoder_blocks and self.width % self.decoder_heads:
            raise ConfigurationError(
                f"width {self.width} is not divisible by decoder_heads {self.decoder_heads}: choose others"
            )
        if self.decoder_blocks and self.stacking == "deep":
            raise ConfigurationError("a decoder reads all rows of the window; a deep stack has only the newest")

    def _check_ends(self) -> None:
        if self.embedding is not None and self.embedding < 1:
            raise ConfigurationError(f"embedding must be at least 1 (its width), not {self.embedding}")
        if self.embedding is None and self.embedding_dropout:
            raise ConfigurationError(f"embedding_dropout is {self.embedding_dropout}, but there is no embedding")
        if self.shortcut != "none" and self.lag:
            raise ConfigurationError(
                "a shortcut is that of the newest token, and with lag the output is an older one's"
            )
        if self.shortcut != "none" and self.decoder_blocks:
            raise ConfigurationError("a model with a decoder has no shortcut: its classifier sees what is anticipated")

    def _check_recall(self) -> None:
        if self.recall < 0:
            raise ConfigurationError(
                f"recall must be at least 0 (steps whose answers are remembered), not {self.recall}"
            )
        if not 0.0 < self.recall_floor <= 1.0:
            raise ConfigurationError(f"recall_floor must be above 0 and at most 1, not {self.recall_floor}")
        if self.background is not None and not 0 <= self.background < self.classes:
            raise ConfigurationError(
                f"background must be one of the classes 0 to {self.classes - 1}, not {self.background}"
            )
        if not self.recall:
            return
        if self.classes < 2 + (self.background is not None):
            raise ConfigurationError(
                "recall weighs classes against each other: there must be two that are not background"
            )
        if self.chunk_obstacle is not None:
            raise ConfigurationError(f"recall needs the answers of many steps in one pass, and {self.chunk_obstacle}")
        if self.lag:
            raise ConfigurationError("recall weighs the newest answer, and with lag answers are of older tokens")

    def _check_reading(self) -> None:
        if not 0.0 <= self.reading < 1.0:
            raise ConfigurationError(f"reading must be at least 0 and below 1 (a share), not {self.reading}")
        if not self.reading:
            if self.reading_evidence:
                raise ConfigurationError("reading_evidence is read beside the classes: it needs a reading")
            return
        if self.recall:
            raise ConfigurationError("recall weighs frames, and a reading is of whole clips: choose one of the two")
        if self.lag:
            raise ConfigurationError("a reading is of the window up to now, and with lag answers are of older tokens")
        if self.decoder_blocks:
            raise ConfigurationError("a model with a decoder has no reading: its classifier sees what is anticipated")

    @property
    def classifier_width(self) -> int:
        """Numbers that the classifier sees."""
        if self.decoder_blocks:
            return 2 * self.width
        return self.width + ((self.embedding or self.width) if self.shortcut == "concatenate" else 0)

    @property
    def read_width(self) -> int:
        """Numbers that are read of a row: one for each class, and the evidence for any of them."""
        return (self.classes + int(self.reading_evidence)) if self.reading else 0

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def position_count(self) -> int:
        """Entries of the positional table."""
        if self.positional in ("none", *RELATIVE):
            return 0
        if self.positions is not None:
            return self.positions
        if self.positional == "recycling":
            return 2 * self.window - 1
        return self.window + (1 if self.class_token_block == 1 else 0)

    @property
    def single_output(self) -> bool:
        """Whether every block attends with its newest token only, so that chunks are one banded pass."""
        return (self.stacking == "deep" or self.blocks == 1) and not self.decoder_blocks

    @property
    def context(self) -> int:
        """The window, or, in a deep stack, a window further back for each block. Training does not recall."""
        return (self.blocks if self.stacking == "deep" else 1) * (self.window - 1)

    @property
    def receptive_field(self) -> int | None:
        """What the oldest answer that is recalled depends on."""
        return self.context + max(self.recall, 1)

    @property
    def chunk_obstacle(self) -> str | None:
        """Single-output blocks whose keys do not change with time have a banded pass."""
        if self.single_output and self.positional != "static":
            return None
        why = "static positions" if self.positional == "static" else "two or more exact blocks or a decoder"
        return f"a model with {why} has no banded pass"

    @property
    def sharing_obstacle(self) -> str | None:
        if self.window_obstacle is not None:
            return self.window_obstacle
        return "a model with a banded pass shares more than windows could" if self.chunk_obstacle is None else None

    @property
    def window_obstacle(self) -> str | None:
        if self.recall:
            return "a model that recalls its answers looks further back than its window"
        return "a deep stack has no window that it is equal to" if self.stacking == "deep" else None

    @property
    def recycled_positions(self) -> int:
        return self.position_count if self.positional == "recycling" else 0

    @property
    def depth(self) -> int:
        return self.blocks + self.decoder_blocks

    @property
    def computed_numbers(self) -> int:
        return self.position_count * self.width if self.encoding == "cyclic" else 0

    def sizes(self) -> str:
        positions = "no" if self.positional == "none" else self.positional
        return (
            f"{self.input_width} inputs, width {self.width}, {self.heads} heads, window {self.window}, "
            f"{self.classes} classes, {positions} positions"
        )

    def summary(self) -> str:
        blocks = f"{self.blocks} block{'s' * (self.blocks > 1)}"
        return f"continual transformer, {blocks} ({self.stacking}), window {self.window}, width {self.width}"
