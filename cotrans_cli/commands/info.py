"""`cotrans info`: what a file is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cotrans_cli.display.console import print_json
from cotrans_cli.display.facts import print_facts
from pipelines.wording import listed

if TYPE_CHECKING:
    from pipelines.checkpoints.description import Description
    from pipelines.features.spec import FeatureSpec

EXAMPLES = """
Examples:

  cotrans info model.safetensors

  cotrans info sound-events      a built-in model; the folder of a run works too

  cotrans info oadtr.pth      what cotrans convert will find in it

  cotrans info features/talk.npy

  cotrans info talk.mp4 --json
"""

EVIDENCE = {"both": "energy and clearness", "probability": "the highest probability"}  # what a rule looks at
MOST_NAMED = 40  # classes; --json has them all
# Of what the tracks of media say.
UNITS = {"audio": {"rate": " Hz", "duration": " s"}, "video": {"rate": " fps", "rotation": "°", "duration": " s"}}


def info(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|NAME",
            help="A checkpoint (ours or another project's), a built-in model, the folder of a run, an exported step, "
            "stream state, feature file or media.",
        ),
    ],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what a file is: model, classes, features and origin of a checkpoint; rows and rate of features; tracks."""
    from pipelines.checkpoints.description import describe
    from pipelines.exporting.runtime import SUFFIX

    if file.suffix == SUFFIX:
        from pipelines.exporting.step_file import describe_step

        description = describe_step(file)
    else:
        description = describe(file)
    if json:
        print_json(description.to_dict())
    else:
        print_facts(_facts(description))


def _facts(description: Description) -> Iterator[tuple[str, str]]:
    from pipelines.streaming.predicting.label_rule import BACKGROUND

    yield "file", str(description.path)
    yield "kind", description.kind
    yield "what", description.summary
    background = BACKGROUND in (description.details.get("class_names") or ())
    for name, value in description.details.items():
        text = _none_of_these(value, background) if name == "none_of_these" else _text(name, value)
        if text:
            yield name.replace("_", " "), text


def _text(name: str, value: Any) -> str:
    """A detail in one line; long ones are for --json."""
    from pipelines.features.spec import FeatureSpec

    if value is None or value in ({}, [], ""):
        return ""
    if name in ("smoothing", "least"):
        return f"{value:g} s, unless --{'smooth' if name == 'smoothing' else name} says otherwise" if value else ""
    if name == "class_names":
        return listed(value, most=MOST_NAMED)
    if name == "config":
        return ", ".join(_setting(key, inner) for key, inner in value.items() if inner not in (0, "none", None))
    if name == "tensors":
        return f"{len(value)} (--json lists them)"
    if name == "features":
        spec = FeatureSpec.from_dict(value)
        return f"{spec.name}, one row every {spec.hop:g} s{', RANDOM WEIGHTS' if spec.untrained else ''}"
    if name == "spec":
        return _spec(FeatureSpec.from_dict(value))
    if name == "provenance":
        return _provenance(value)
    if isinstance(value, dict):
        units = UNITS.get(name, {})
        shown = {key: inner for key, inner in value.items() if inner not in (None, {}, [])}
        return ", ".join(
            f"{key.replace('_', ' ')} {_number(inner)}{units.get(key, '')}" for key, inner in shown.items()
        )
    if name == "duration":
        return f"{_number(value)} s"
    if name == "size":
        return f"{value:,} bytes"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else _number(value)


def _spec(spec: FeatureSpec) -> str:
    """Each extractor with what was chosen for it."""
    parts = []
    for part in spec.parts:
        chosen = (f"{key.replace('_', ' ')} {_number(value)}" for key, value in part.options.items())
        weights = [f"weights {part.weights[:8]}"] if part.weights else []
        parts.append(f"{part.name} ({', '.join([f'{part.width} wide', *chosen, *weights])})")
    return f"{' + '.join(parts)}, hop {spec.hop:g} s, {spec.align}"


def _number(value: Any) -> str:
    """A value, with as many digits as a person reads; --json has all of them."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _setting(key: str, value: Any) -> str:
    """A part of a model that is there; what is not (0, none, no) is left out."""
    return key.replace("_", " ") + ("" if value is True else f" {_number(value)}")


def _none_of_these(rule: dict[str, Any] | None, background: bool) -> str:
    if rule is None and background:
        return "what the class background is for"
    if rule is None:
        return "never the answer: every row gets a class, unless --threshold is given"
    evidence = EVIDENCE.get(rule["statistic"], rule["statistic"])
    rows = f", the mean over {rule['over']} rows," if rule["over"] > 1 else ""
    text = f"where the evidence for the classes ({evidence}){rows} is below {rule['threshold']:.3g}"
    asking = sum(value > rule["threshold"] for value in rule["by_class"])
    return f"{text}; for {asking} of the classes it takes more" if asking else text


def _provenance(value: dict[str, Any]) -> str:
    """What is text, and of a training: seed, epoch and validation; the whole recipe is for --json."""
    parts = [f"{key.replace('_', ' ')} {inner}" for key, inner in value.items() if isinstance(inner, str)]
    recipe, scores = value.get("recipe"), value.get("validation")
    if isinstance(recipe, dict):
        parts.append(f"seed {recipe.get('training', {}).get('seed', 0)}, epoch {value.get('epoch', '?')}")
    if isinstance(scores, dict):
        parts.append("validation " + ", ".join(f"{key} {number:.4f}" for key, number in scores.items()))
    if isinstance(recipe, dict):
        parts.append("the recipe is in --json")
    return ", ".join(parts)
