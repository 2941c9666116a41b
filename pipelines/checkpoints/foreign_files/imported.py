"""What an importer makes of another project's file, and what the user may say that the file does not."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from pipelines.checkpoints.foreign_files.key_table import Mapped
from pipelines.errors import UsageError
from pipelines.model.base_config import BaseConfig
from pipelines.model.transformer.config import Activation, Encoding, ModelConfig, Norm
from pipelines.wording import all_of

Entries = Literal["n", "2n-1"]


class Outputs(NamedTuple):
    """What a model says about windows."""

    logits: Tensor  # (B, classes)
    anticipation: Tensor | None  # (B, queries, classes), with a decoder


class Reference(Protocol):
    """The regular model, built from the source's own weights by code that shares nothing with our model."""

    def __call__(self, windows: Tensor, start: int) -> Outputs:
        """Windows (B, T <= n, input_width) of streams; start: index of the first window's first token in its stream.

        Window i of the batch begins at token start + i.
        """

    def changed(self, config: ModelConfig, weights: Mapping[str, Tensor]) -> Reference:
        """The same model with recycling positions or without its decoder, as in `config` and `weights` (ours)."""


@runtime_checkable
class StreamReference(Protocol):
    """A regular model that is not defined by windows alone: it says itself what it gives along a stream."""

    def along(self, stream: Tensor, steps: Sequence[int]) -> Iterator[Outputs]:
        """The outputs for tokens number `steps`, in rising order, of a stream (T, input_width)."""


@dataclass(frozen=True)
class Hints:
    """What a user says where a file cannot; None: the file says it, or there is a default."""

    window: int | None = None
    heads: int | None = None
    class_token: bool | None = None
    class_token_block: int | None = None
    norm: Norm | None = None
    activation: Activation | None = None
    decoder_heads: int | None = None
    positions: Entries | None = None  # of recycling positions; None: 2n-1
    encoding: Encoding | None = None  # of recycling positions
    prefix: str | None = None  # of the encoder's keys
    input_layer: str | None = None  # module that projects the input
    classifier: str | None = None  # module that makes the scores
    positions_key: str | None = None  # the table of static positions
    # LSTR and TeSTra: their YAML configuration, or what it would say
    config: Path | None = None
    fps: float | None = None  # frames per second
    long_seconds: float | None = None
    long_rate: int | None = None
    work_seconds: float | None = None
    work_rate: int | None = None
    long_positions: bool | None = None
    include_work: bool | None = None
    decay: float | None = None

    def refuse_others(self, used: Collection[str], kind: str) -> None:
        """Refuse what the user says and this kind of file has no use for: nothing is accepted and ignored."""
        given = [field.name for field in fields(self) if getattr(self, field.name) is not None]
        useless = [name for name in given if name not in used]
        if useless:
            flags = ", ".join(f"--{name.replace('_', '-')}" for name in useless)
            raise UsageError(f"{flags}: {kind} has no use for {'these' if len(useless) > 1 else 'this'}: leave it out")


@dataclass(frozen=True)
class Imported:
    """A model of another project as one of ours."""

    kind: str  # for people: "OadTR, 3 blocks, class token, decoder"
    config: BaseConfig
    weights: Mapping[str, Tensor]  # by our names
    mapped: Mapping[str, str]  # their key to ours
    dropped: Mapping[str, str]  # their key to the reason
    notes: tuple[str, ...]  # what was assumed
    class_names: tuple[str, ...] | None
    reference: Reference
    # Parts of the source that change its numbers and lie outside of what was converted; the proof does not cover them.
    left_out: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        renamed: Mapped,
        *,
        kind: str,
        config: BaseConfig,
        reference: Reference,
        notes: tuple[str, ...] = (),
        class_names: tuple[str, ...] | None = None,
        left_out: tuple[str, ...] = (),
    ) -> Imported:
        """What came out of a table of keys."""
        weights, mapped, dropped = renamed.weights, renamed.mapped, renamed.dropped
        return cls(kind, config, weights, mapped, dropped, notes, class_names, reference, left_out)


class Wanted(NamedTuple):
    """A number that the file or the user has to say."""

    what: str
    flag: str
    hint: int | None  # what the user says
    stated: object  # what the file says
    advice: str

    @property
    def in_file(self) -> int | None:
        return self.stated if isinstance(self.stated, int) and not isinstance(self.stated, bool) else None


def ask_together(numbers: Sequence[Wanted]) -> None:
    """Ask at once for all that neither the file nor the user says."""
    missing = [number for number in numbers if number.hint is None and number.in_file is None]
    if missing:
        whats = all_of([number.what for number in missing])
        flags = all_of([f"{number.flag} ({number.advice})" for number in missing])
        raise UsageError(f"the file does not say its {whats}: add {flags}")


def agreed(number: Wanted) -> int:
    """A number from the file or from the user; asked for when neither says it, refused when they differ."""
    ask_together([number])
    hint, stated = number.hint, number.in_file
    if hint is not None and stated not in (None, hint):
        raise UsageError(
            f"{number.flag} {hint}, but the file says that its {number.what} is {stated}: leave {number.flag} out"
        )
    value = hint or stated or 0
    if value < 1:
        raise UsageError(f"{number.flag} must be at least 1, not {value}")
    return value


def position_entries(entries: Entries | None, window: int) -> int:
    """How many recycling positions the user asks for."""
    return window if entries == "n" else 2 * window - 1
