"""What a shell completes and a help page lists: names of models, datasets, formats, features, weights and recipes.

The values come from the tables that the commands themselves go by, by the name of the option or argument, so that a
new command has them without a line of its own, and a new value is completed and listed without one either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any


def _models() -> Iterable[str]:
    from pipelines.checkpoints.builtin import builtin_names

    return builtin_names()


def _presets() -> Iterable[str]:
    from pipelines.model.presets import PRESETS

    return PRESETS


def _datasets() -> Iterable[str]:
    from pipelines.datasets.opening import MODULES

    return MODULES


def _homes() -> Iterable[str]:
    from pipelines.datasets.published.homes import known_homes

    return known_homes()


def _formats() -> Iterable[str]:
    from pipelines.streaming.output.formats import FORMATS

    return FORMATS


def _weights() -> Iterable[str]:
    from pipelines.features.weights.registry import known_weights

    return known_weights()


def _extractors() -> Iterable[str]:
    from pipelines.features.stream_factory import EXTRACTORS

    return EXTRACTORS


PLACE = "{values}"  # in the help of an option
Values = Callable[[], Iterable[str]]
# Command and option or argument; a star stands for every command.
TABLE: dict[tuple[str, str], Values] = {
    ("stream", "--model"): _models,
    ("evaluate", "--model"): _models,
    ("extract", "--model"): _models,
    ("info", "file"): _models,
    ("export", "model"): _models,
    ("export", "--format"): lambda: ("onnx", "torch-export"),
    ("train", "--model"): _presets,
    ("train", "--init"): _models,
    ("flops", "--model"): _presets,
    ("*", "--dataset"): _datasets,
    ("stream", "--format"): _formats,
    ("*", "--features"): _extractors,
    ("*", "--weights"): _weights,
    ("weights get", "name"): _weights,
    ("weights path", "name"): _weights,
    ("weights add", "name"): _weights,
    ("data get", "name"): _homes,
    ("*", "--device"): lambda: ("auto", "cpu", "cuda"),
}


def complete_values(command: str, parameters: Iterable[Any]) -> None:
    """Tell the parameters of a command ("data get") what they may be."""
    for parameter in parameters:
        values = _values_of(command, parameter)
        if values is not None:
            parameter._custom_shell_complete = _matching(values)


def list_values(command: str, parameters: Iterable[Any]) -> None:
    """Put the values that there are in the place of {values} in the help of a command's parameters."""
    for parameter in parameters:
        text = getattr(parameter, "help", None) or ""
        values = _values_of(command, parameter) if PLACE in text else None
        if values is not None:
            parameter.help = text.replace(PLACE, ", ".join(_families(values())))


def _families(values: Iterable[str]) -> Iterator[str]:
    """The values; of those that are called FAMILY:NAME, one stands for all."""
    before = ""
    for value in values:
        family, colon, _ = value.partition(":")
        if not colon:
            yield value
        elif family != before:
            yield f"{value} (and others)"
        before = family


def _values_of(command: str, parameter: Any) -> Values | None:
    names = [*parameter.opts, parameter.name]
    return next((TABLE[key] for name in names for key in ((command, name), ("*", name)) if key in TABLE), None)


def _matching(values: Values) -> Callable[[Any, Any, str], list[str]]:
    def complete(context: Any, parameter: Any, incomplete: str) -> list[str]:
        *before, last = incomplete.split("+")  # features are joined by +
        return ["+".join([*before, value]) for value in values() if value.startswith(last)]

    return complete
