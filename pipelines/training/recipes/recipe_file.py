"""Recipes as TOML: reading with unknown keys refused, layers of them, and writing."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from pipelines.datasets.source import OWN_KEYS, FeatureOptions
from pipelines.errors import ConfigurationError, InputError, UsageError
from pipelines.features.request import FeatureRequest
from pipelines.model.kinds import KINDS, settings_of
from pipelines.model.presets import get_preset
from pipelines.training.recipes.recipe import Recipe, RecipeValueError
from pipelines.untrusted.toml import load_toml, loads_toml, parse_pairs
from pipelines.wording import did_you_mean

FOLDER = Path(__file__).parent  # the defaults of presets
BUILT_IN = Path(str(files("weights"))) / "recipes"  # of the models that come with cotrans, and of results
PAPER = "paper"  # a name for the paper's recipe of whatever preset it is
# Beginning of a model preset's name -> the paper's recipe for it; the first that fits.
PAPER_RECIPES = {"oadtr-": "oad", "cooadtr": "oad", "oadtr": "oadtr", "deep": "oad", "miniroad": "miniroad"}
# The same for what we found to work better, in layers: later ones win. Others keep the paper's.
OWN_RECIPES = {
    "cooadtr-b1": ("detection", "detection-transformer", "detection-streaming"),
    "deep": ("detection", "detection-transformer", "detection-streaming"),
    "cooadtr": ("detection", "detection-transformer"),
    "oadtr": ("detection", "detection-transformer"),
    "miniroad": ("detection",),
    "per-frame": ("detection",),
}
OTHERWISE = "audio"
# Of the model configuration, what the data decide.
DECIDED_BY_DATA = ("input_width", "classes")
# What can be set in a model of any kind; that it can be in the kind at hand is checked when the model is known.
MODEL_KEYS = tuple(dict.fromkeys(name for kind in KINDS for name in settings_of(kind) if name not in DECIDED_BY_DATA))

Values = dict[str, dict[str, Any]]


def shipped_recipes() -> tuple[str, ...]:
    """Names of the recipes that come with cotrans."""
    return tuple(sorted(path.stem for folder in (FOLDER, BUILT_IN) for path in folder.glob("*.toml")))


def find_recipe(name: str) -> Path:
    """The file of a recipe: a path, or the name of one that comes with cotrans."""
    path = Path(name)
    if path.suffix == ".toml" or path.is_file():  # a folder may be called as a recipe is
        if not path.is_file():
            raise InputError(f"there is no recipe {path}")
        return path
    for folder in (FOLDER, BUILT_IN):
        if (shipped := folder / f"{name}.toml").is_file():
            return shipped
    raise UsageError(
        f"there is no recipe '{name}': give a .toml file or one of {', '.join((*shipped_recipes(), PAPER))}"
    )


def build_recipe(
    file: str | Path | None = None, flags: Mapping[str, Any] | None = None, named: Collection[str] = ()
) -> Recipe:
    """The recipe of a file, with what it leaves out from its preset's recipe, and what `flags` say on top.

    file: a path, the name of a recipe that comes with cotrans, or `paper`: the paper's numbers for the preset. flags:
    "section.key" to value; None values count as not given. named: those of them that the user gave as `--key`, which
    is what an error then calls them.
    """
    given = read_values(find_recipe(str(file))) if file not in (None, PAPER) else {}
    layer = flag_values(flags or {})
    preset = layer.get("model", {}).get("preset") or given.get("model", {}).get("preset") or "cotrans-b1"
    get_preset(preset)  # a wrong name is told now, not after the features have been extracted
    names = (paper_recipe(preset),) if file == PAPER else default_recipes(preset)
    base = merged(*(read_values(FOLDER / f"{name}.toml") for name in names), given)
    if "epochs" in layer.get("training", {}):
        layer["training"].setdefault("least_steps", 0)  # who says how many epochs means as many
    make_recipe(base)  # what the file has wrong is a wrong configuration; what the flags have, wrong usage
    try:
        return make_recipe(merged(base, layer, {"model": {"preset": preset}}))
    except RecipeValueError as error:
        option = f"--{error.key.partition('.')[2].replace('_', '-')}"
        raise UsageError(f"{option if error.key in named else error.key} {error.problem}") from error
    except ConfigurationError as error:
        raise UsageError(str(error)) from error


def default_recipes(preset: str) -> tuple[str, ...]:
    """The names of the recipes that a preset's defaults come from, later ones on top."""
    own = (recipes for name, recipes in OWN_RECIPES.items() if preset.startswith(name))
    return next(own, (paper_recipe(preset),))


def paper_recipe(preset: str) -> str:
    """The name of the paper's recipe for a preset."""
    return next((recipe for name, recipe in PAPER_RECIPES.items() if preset.startswith(name)), OTHERWISE)


def read_values(path: Path) -> Values:
    """Sections and keys of a TOML file, checked."""
    return checked(load_toml(path), str(path))


def parse_recipe(text: str, where: str = "the recipe") -> Recipe:
    """A complete recipe from the text that `recipe_text` wrote."""
    return make_recipe(checked(loads_toml(text, where), where))


def flag_values(flags: Mapping[str, Any]) -> Values:
    """Values by section from "section.key" to value."""
    values: Values = {}
    for key, value in flags.items():
        if value is None:
            continue
        section, _, name = key.partition(".")
        target = values.setdefault(section, {})
        *tables, last = name.split(".", 1) if section in ("data", "features") else (name,)
        for table in tables:
            target = target.setdefault(table, {})
        target[last] = value
    try:
        return checked(values, "the command line")
    except ConfigurationError as error:
        raise UsageError(str(error)) from error


def parse_settings(settings: Sequence[str]) -> dict[str, Any]:
    """Flags from "section.key=value" texts; the value is TOML, or text where it is not."""
    for setting in settings:
        if "." not in setting.partition("=")[0] or "=" not in setting:
            raise UsageError(f"--set takes SECTION.KEY=VALUE, such as training.epochs=20, not '{setting}'")
    return parse_pairs(settings, "--set")


def merged(*layers: Values) -> Values:
    """Layers on top of each other: the last one that has a key wins; tables are merged key by key."""
    result: Values = {}
    for layer in layers:
        for section, values in layer.items():
            target = result.setdefault(section, {})
            for key, value in values.items():
                both_tables = isinstance(value, dict) and isinstance(target.get(key), dict)
                target[key] = {**target[key], **value} if both_tables else value
    return result


def checked(values: Mapping[str, Any], where: str) -> Values:
    """Sections with known keys of the right type; model keys that differ from the preset go into `changes`."""
    known = {field.name: field for field in fields(Recipe)}
    result: Values = {}
    for section, content in values.items():
        if section not in known:
            raise ConfigurationError(f"{where}: unknown section [{section}]{_nearest(section, known)}")
        if not isinstance(content, Mapping):
            raise ConfigurationError(f"{where}: {section} is a section; write [{section}] and its keys below")
        types = _section_types(section)
        target: dict[str, Any] = {}
        result[section] = target
        for key, value in content.items():
            if section == "model" and key in MODEL_KEYS:
                target.setdefault("changes", {})[key] = value
            elif key not in types or (section == "model" and key == "changes"):
                names = [*types, *(MODEL_KEYS if section == "model" else ())]
                raise ConfigurationError(f"{where}: unknown key '{key}' in [{section}]{_nearest(key, names)}")
            else:
                target[key] = _typed(value, types[key], f"{where}: {section}.{key}")
    return result


def _section_types(section: str) -> dict[str, str]:
    """Type by key of a section of the file."""
    if section == "features":  # a request's keys stand in the section itself
        own = {field.name: str(field.type) for field in fields(FeatureOptions) if field.name in OWN_KEYS}
        return {**{field.name: str(field.type) for field in fields(FeatureRequest)}, **own}
    return {field.name: str(field.type) for field in fields(getattr(Recipe(), section))}


def make_recipe(values: Values) -> Recipe:
    """The recipe of values that `checked` has seen."""
    defaults = Recipe()
    sections = {name: type(getattr(defaults, name)) for name in values if name != "features"}
    made = {name: kind(**values[name]) for name, kind in sections.items()}
    return Recipe(**made, features=FeatureOptions.from_values(values.get("features", {})))


def recipe_values(recipe: Recipe) -> Values:
    """The opposite of `make_recipe`, in the form of the file: keys that are None are left out."""
    values: Values = {}
    for section, content in {**asdict(recipe), "features": recipe.features.to_values()}.items():
        if section == "model":
            changes = content.pop("changes")
            content = {**content, **changes}
        values[section] = {key: value for key, value in content.items() if value is not None and value != {}}
    return values


def recipe_text(recipe: Recipe) -> str:
    """The recipe as TOML: every key, so that the file alone gives the run again."""
    lines: list[str] = []
    for section, content in recipe_values(recipe).items():
        plain = {key: value for key, value in content.items() if not isinstance(value, dict)}
        lines += [f"[{section}]", *(f"{_key(key)} = {_toml(value)}" for key, value in plain.items()), ""]
        for key, value in content.items():
            if isinstance(value, dict):
                rows = (f"{_key(name)} = {_toml(item)}" for name, item in value.items())
                lines += [f"[{section}.{_key(key)}]", *rows, ""]
    return "\n".join(lines).rstrip() + "\n"


def _typed(value: Any, annotation: str, where: str) -> Any:
    base = annotation.removesuffix("| None").strip()
    if base.startswith(("dict", "Mapping")):
        if not isinstance(value, Mapping):
            raise ConfigurationError(f"{where} is a table, not {value!r}")
        return dict(value)
    wanted: tuple[type[Any], ...] = {"int": (int,), "float": (int, float), "bool": (bool,)}.get(base, (str,))
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        name = {"int": "a whole number", "float": "a number", "bool": "true or false"}.get(base, "text")
        raise ConfigurationError(f"{where} must be {name}, not {value!r}")
    return float(str(value)) if base == "float" else value


def _nearest(name: str, known: Collection[str]) -> str:
    return did_you_mean(name, known, otherwise=f"; there are {', '.join(known)}")


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else json.dumps(key)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, float):
        return repr(value)
    # A JSON string is a TOML string, apart from DEL, which no path or name here contains.
    return json.dumps(value, ensure_ascii=False)
