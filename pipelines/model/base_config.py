"""What the configurations of all kinds of models share: checked fields, a round trip to JSON, and what others read.

A kind's own configuration is a frozen dataclass that derives from `BaseConfig`. The JSON says the kind; where it says
none, it is a continual transformer (files from before there were kinds).
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from pipelines.errors import ConfigurationError
from pipelines.untrusted.parsing import json_value

DEFAULT_KIND = "transformer"


class BaseConfig(ABC):
    """The configuration of a model of some kind."""

    kind: ClassVar[str]

    if TYPE_CHECKING:
        # Fields of some kinds and properties of others, hence nothing here when the program runs.
        @property
        def input_width(self) -> int:
            """Numbers per token at the input."""

        @property
        def classes(self) -> int: ...

        @property
        def window(self) -> int:
            """Tokens of a full window, which `forward` takes."""

        @property
        def dropout(self) -> float: ...

        @property
        def lag(self) -> int:
            """The output is that of the token `lag` steps ago."""

        @property
        def decoder_queries(self) -> int:
            """Coming frames that are anticipated."""

    else:
        lag = 0
        decoder_queries = 0

    @property
    def warm_up(self) -> int:
        """Tokens after which an output has seen as much as it ever will."""
        return self.window

    @property
    def receptive_field(self) -> int | None:
        """Tokens that an output depends on; None: all that ever came."""
        return self.window

    @property
    def context(self) -> int:
        """Tokens that training puts in front of a labelled one."""
        return (self.receptive_field or self.window) - 1

    @property
    def chunk_obstacle(self) -> str | None:
        """Why `steps` cannot give all outputs of a chunk in one pass that has gradients; None: it does."""
        return None

    @property
    def window_obstacle(self) -> str | None:
        """Why the model on a window is not what a stream gives; None: it is, and training may sample windows."""
        return None

    @property
    def sharing_obstacle(self) -> str | None:
        """Why windows of a chunk cannot share what belongs to a token alone; None: they can (`windows`)."""
        return f"a {self.kind} model has a pass for whole chunks, or no windows"

    @property
    def windowed(self) -> bool:
        """Whether the model on a window is what a stream gives."""
        return self.window_obstacle is None

    @property
    def proven_in_float64(self) -> bool:
        """Whether float32 loses so many digits, whoever computes, that a comparison in it says nothing."""
        return False

    @property
    def recycled_positions(self) -> int:
        """Indices that a stream may start at in training; 0: they make no difference."""
        return 0

    @property
    def depth(self) -> int:
        """Parts that have at least one tensor each: a file with fewer tensors is not of this model."""
        return 1

    @property
    def computed_numbers(self) -> int:
        """Numbers in tables that are computed rather than stored."""
        return 0

    @abstractmethod
    def summary(self) -> str:
        """What the model is, in a few words: "continual transformer, 1 block (exact), width 8"."""

    def sizes(self) -> str:
        """The sizes that a user may want to check, inputs and classes among them."""
        return f"{self.input_width} inputs, {self.summary()}, {self.classes} classes"

    def check_types(self) -> None:
        """Refuse 1.5 blocks and "yes" for a switch: JSON and TOML files are written by hand."""
        for field in fields(cast(Any, self)):
            _check_type(field.name, getattr(self, field.name), str(field.type))

    def check_shares(self, *names: str) -> None:
        """Refuse shares (of dropout) outside [0, 1)."""
        for name in names:
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ConfigurationError(f"{name} must be in [0, 1), not {getattr(self, name)}")

    def check_at_least_one(self, *names: str) -> None:
        """Refuse sizes below 1."""
        for name in names:
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} must be at least 1, not {getattr(self, name)}")

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, **asdict(cast(Any, self))}

    def to_json(self) -> str:
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; another kind, unknown and missing keys are errors."""
        kind = value.get("kind", DEFAULT_KIND)
        if kind != cls.kind:
            raise ConfigurationError(f"this is the configuration of a model of kind {kind!r}, not {cls.kind}")
        types = {field.name: str(field.type) for field in fields(cast(Any, cls))}
        unknown = sorted(set(value) - set(types) - {"kind"})
        if unknown:
            raise ConfigurationError(f"unknown model configuration key{'s' * (len(unknown) > 1)}: {', '.join(unknown)}")
        given = {
            # JSON has lists alone.
            name: tuple(item) if isinstance(item, list) and types[name].startswith("tuple") else item
            for name, item in value.items()
            if name != "kind"
        }
        try:
            return cls(**given)
        except TypeError as error:
            raise ConfigurationError(f"incomplete model configuration: {error}") from error

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls.from_dict(parse_config(text))


def parse_config(text: str) -> dict[str, Any]:
    """The plain values of a configuration that `to_json` wrote."""
    try:
        value = json_value(text)
    except ValueError as error:
        raise ConfigurationError(f"the model configuration is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigurationError("the model configuration is not a JSON object")
    return value


def _check_type(name: str, value: object, annotation: str) -> None:
    if annotation.endswith("| None") and value is None:
        return
    base = annotation.removesuffix("| None").strip()
    if base.startswith("tuple"):
        if not isinstance(value, tuple):
            raise ConfigurationError(f"{name} must be a list, not {value!r}")
        for item in value:
            _check_type(f"each of {name}", item, base.removeprefix("tuple[").removesuffix(", ...]"))
        return
    wanted: tuple[type, ...] = {"int": (int,), "float": (float, int), "bool": (bool,)}.get(base, (str,))
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        raise ConfigurationError(
            f"{name} must be {base if base in ('int', 'float', 'bool') else 'text'}, not {value!r}"
        )
