"""Errors and events are told apart by class and fields; the wording of a message decides nothing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from pipelines.errors import (
    CheckpointError,
    ConfigurationError,
    CotransError,
    InputError,
    NonFiniteInputError,
    OtherModelError,
    SourceError,
    UsageError,
)
from pipelines.features.media import DamagedMediaError, MissingTrackError
from pipelines.training.recipes.recipe import RecipeValueError, TrainingOptions
from pipelines.training.recipes.recipe_file import build_recipe

ROOT = Path(__file__).parents[1]
READING = {
    "startswith",
    "endswith",
    "removeprefix",
    "removesuffix",
    "partition",
    "rpartition",
    "find",
    "index",
    "count",
}
MATCHING = {"match", "search", "fullmatch", "sub", "subn", "findall", "finditer"}


def is_text_of(node: ast.AST, names: set[str]) -> bool:
    """str(error), or the text of an event: error.text."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str" and node.args:
        return isinstance(node.args[0], ast.Name) and node.args[0].id in names
    return isinstance(node, ast.Attribute) and node.attr == "text" and isinstance(node.value, ast.Name)


def readings(tree: ast.AST) -> list[int]:
    """Lines on which a decision is made on the text of an error or event."""
    names = {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.name}
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(isinstance(sign, (ast.In, ast.NotIn)) for sign in node.ops):
            lines += [node.lineno for part in node.comparators if is_text_of(part, names)]
        elif isinstance(node, ast.Compare):
            lines += [node.lineno for part in (node.left, *node.comparators) if is_text_of(part, names)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            read = node.func.attr in READING and is_text_of(node.func.value, names)
            matched = node.func.attr in MATCHING and any(is_text_of(argument, names) for argument in node.args)
            lines += [node.lineno] * (read or matched)
    return lines


@pytest.mark.parametrize("package", ["pipelines", "cotrans_cli"])
def test_no_behaviour_depends_on_the_wording_of_a_message(package: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for line in readings(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not wrong


@pytest.mark.parametrize(
    "line",
    [
        'if "another model" in str(error): pass',
        'str(error).startswith("connected")',
        're.sub(r"no track", "", str(error))',
        'str(error) == "no such file"',
        'event.text.startswith("seed ")',
    ],
)
def test_the_check_finds_what_it_looks_for(line: str) -> None:
    assert readings(ast.parse(f"try:\n    pass\nexcept ValueError as error:\n    {line}\n")) == [4]


@pytest.mark.parametrize(
    "error",
    [
        UsageError("wrong"),
        NonFiniteInputError([1, 2]),
        SourceError("a.wav", "is a folder"),
        DamagedMediaError("a.wav", "ends in the middle", 3.0),
        MissingTrackError("a.wav", "video"),
        RecipeValueError("training.epochs", "must be at least 1, not 0"),
    ],
)
def test_an_error_can_say_where_it_happened_whatever_its_constructor(error: CotransError) -> None:
    located = error.located("model.safetensors")
    assert type(located) is type(error) and str(located) == f"model.safetensors: {error}"
    assert located.exit_code == error.exit_code and vars(located) == vars(error)


def test_what_a_caller_needs_is_in_fields() -> None:
    missing = MissingTrackError("a.mp4", "audio", ", but the model's features need audio")
    assert (missing.source, missing.track) == ("a.mp4", "audio") and isinstance(missing, InputError)
    assert str(missing) == "a.mp4: has no audio track, but the model's features need audio"
    assert issubclass(OtherModelError, CheckpointError) and issubclass(RecipeValueError, ConfigurationError)


def test_an_option_is_called_as_the_user_called_it() -> None:
    with pytest.raises(UsageError, match=r"^--epochs must be at least 1, not 0$"):
        build_recipe(flags={"training.epochs": 0}, named={"training.epochs"})
    with pytest.raises(UsageError, match=r"^training\.epochs must be at least 1, not 0$"):
        build_recipe(flags={"training.epochs": 0})
    assert TrainingOptions().epochs >= 1
