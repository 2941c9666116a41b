"""The precisions that a model's weights can have while it runs. Activations and state are float32 in all of them."""

from __future__ import annotations

from typing import Literal, get_args

from pipelines.errors import UsageError
from pipelines.untrusted.parsing import choice_of

Precision = Literal["float32", "float16", "int8"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


def parse_precision(text: str) -> Precision:
    """A precision by its name."""
    try:
        return choice_of(text, PRECISIONS)
    except ValueError:
        raise UsageError(f"unknown --precision '{text}': choose from {', '.join(PRECISIONS)}") from None
