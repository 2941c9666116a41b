"""`cotrans info`: what a file is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cotrans_cli.display.console import print_json
from cotrans_cli.display.facts import print_facts

if TYPE_CHECKING:
    from pipelines.checkpoints.description import Description

EXAMPLES = """
Examples:

  cotrans info model.safetensors

  cotrans info sound-events      a built-in model; the folder of a run works too

  cotrans info oadtr.pth      what cotrans convert will find in it

  cotrans info features/talk.npy

  cotrans info talk.mp4 --json
"""

# Of what the tracks of media say.
UNITS = {"audio": {"rate": " Hz", "duration": " s"}, "video": {"rate": " fps", "rotation": "°", "duration": " s"}}


def info(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|NAME",
            help="A checkpoint (ours or another project's), a built-in model, the folder of a run, stream state, "
            "feature file or media.",
        ),
    ],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what a file is: model, classes, features and origin of a checkpoint; rows and rate of features; tracks."""
    from pipelines.checkpoints.description import describe

    description = describe(file)
    if json:
        print_json(description.to_dict())
    else:
        print_facts(_facts(description))


def _facts(description: Description) -> Iterator[tuple[str, str]]:
    yield "file", str(description.path)
    yield "kind", description.kind
    yield "what", description.summary
    for name, value in description.details.items():
        text = _text(name, value)
        if text:
            yield name.replace("_", " "), text


def _text(name: str, value: Any) -> str:
    """A detail in one line; long ones are for --json."""
    if value is None or value in ({}, [], ""):
        return ""
    if name == "tensors":
        return f"{len(value)} (--json lists them)"
    if name == "features":
        return f"{'+'.join(part['name'] for part in value['parts'])}, one row every {value['hop']:g} s"
    if name == "provenance":
        return _provenance(value)
    if isinstance(value, dict):
        units = UNITS.get(name, {})
        shown = {key: inner for key, inner in value.items() if inner not in (None, {}, [])}
        return ", ".join(f"{key} {inner}{units.get(key, '')}" for key, inner in shown.items())
    if name in ("duration", "size"):
        return f"{value:,} {'s' if name == 'duration' else 'bytes'}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def _provenance(value: dict[str, Any]) -> str:
    """What is text, and of a training: seed, epoch and validation; the whole recipe is for --json."""
    parts = [f"{key} {inner}" for key, inner in value.items() if isinstance(inner, str)]
    recipe, scores = value.get("recipe"), value.get("validation")
    if isinstance(recipe, dict):
        parts.append(f"seed {recipe.get('training', {}).get('seed', 0)}, epoch {value.get('epoch', '?')}")
    if isinstance(scores, dict):
        parts.append("validation " + ", ".join(f"{key} {number:.4f}" for key, number in scores.items()))
    if isinstance(recipe, dict):
        parts.append("the recipe is in --json")
    return ", ".join(parts)
