"""`train`, `evaluate` and `data inspect` have the same options for the same datasets."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from cotrans_cli.main import app, run
from pipelines.datasets.opening import MODULES, dataset_options
from pipelines.datasets.options import DATASET_OPTIONS, OPTIONS_BY_NAME, recipe_options
from pipelines.training.recipes.recipe_file import parse_recipe
from tests.evaluation.evaluation_problems import write_clips

ROOT = typer.main.get_command(app)
COMMANDS = (("train",), ("evaluate",), ("data", "inspect"))


def flags(path: tuple[str, ...]) -> set[str]:
    command = ROOT
    for name in path:
        command = command.commands[name]  # type: ignore[attr-defined]
    return {name for parameter in command.params for name in parameter.opts}


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("dataset", MODULES)
def test_every_option_of_a_dataset_is_a_flag(path: tuple[str, ...], dataset: str) -> None:
    wanted = {f"--{key.replace('_', '-')}" for key in dataset_options(dataset)}
    assert wanted | {"--dataset", "--root", "--data"} <= flags(path)


@pytest.mark.parametrize("dataset", MODULES)
def test_every_option_of_a_dataset_is_declared_with_its_type(dataset: str) -> None:
    for name, default in dataset_options(dataset).items():
        declared = OPTIONS_BY_NAME[name]
        assert default is None or declared.typed(default) == default


def test_every_declared_option_is_one_of_a_dataset() -> None:
    taken = {name for dataset in MODULES for name in dataset_options(dataset)}
    assert {declared.name for declared in DATASET_OPTIONS} == taken


def test_every_declared_option_goes_from_the_flag_to_the_recipe_and_back(capsys: pytest.CaptureFixture[str]) -> None:
    texts = {str: "some", int: "3", float: "5.5", bool: None, Path: "a/b"}
    values = {str: "some", int: 3, float: 5.5, bool: True, Path: "a/b"}
    given = [word for each in DATASET_OPTIONS for word in (each.flag, texts[each.kind.flag]) if word is not None]
    assert run(["train", "--dataset", "folder", *given, "--write-recipe", "-"]) == 0
    recipe = parse_recipe(capsys.readouterr().out)
    for key, value in recipe_options({each.name: values[each.kind.flag] for each in DATASET_OPTIONS}).items():
        section, *table, name = key.split(".")
        content = getattr(recipe, section)
        assert (content.options[name] if table else getattr(content, name)) == value


def test_the_flags_reach_the_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    given = "--group _([a-z]+)_ --test-fold b --test 0.1 --multi-label --annotations a.csv --classes x,y --split-seed 3"
    more = "--feature-set kin --parts rgb,flow --passes 2 --seconds 9 --pitch 0.1 --one-voice"
    assert run(["train", "--dataset", "folder", *given.split(), *more.split(), "--write-recipe", "-"]) == 0
    assert parse_recipe(capsys.readouterr().out).data.options == {
        "group": "_([a-z]+)_",
        "test_fold": "b",
        "test": 0.1,
        "multi_label": True,
        "annotations": "a.csv",
        "classes": "x,y",
        "split_seed": 3,
        "feature_set": "kin",
        "parts": "rgb,flow",
        "passes": 2,
        "seconds": 9.0,
        "pitch": 0.1,
        "one_voice": True,
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ("data", "inspect"),
        ("train", "--out", "run"),
        ("evaluate", "-c", "music-genre"),
    ],
)
@pytest.mark.parametrize("flag", [("--split", "random"), ("--data", "split=random")])
def test_an_option_of_another_dataset_is_refused(
    arguments: tuple[str, ...],
    flag: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_clips(tmp_path / "clips")
    assert run([*arguments, "--dataset", "folder", "--root", "clips", *flag]) == 2
    assert "dataset folder has no option --split" in capsys.readouterr().err
