"""Every help page at 60 and 80 columns: examples at the end, and option names that are never cut."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from cotrans_cli.arguments.help_text import examples
from cotrans_cli.main import app, run


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


ALL = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_nothing_is_cut(
    path: tuple[str, ...], width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert run([*path, "--help"]) == 0
    page = capsys.readouterr().out
    assert all(len(line) <= width for line in page.splitlines())
    names = set(re.findall(r"(?<!\S)-{1,2}[\w-]+", page.replace("│", " ").replace(",", " ")))
    for parameter in ALL[path].params:
        if parameter.param_type_name == "option" and not getattr(parameter, "hidden", False):
            assert {*parameter.opts, *parameter.secondary_opts} <= names, parameter.opts
            assert not parameter.metavar or parameter.metavar in page, parameter.opts
    assert not re.search(r"\w…", page) and not re.search(r"\[default: (True|False)", page)
    if path:  # the first page names the commands instead
        assert "Examples:" in page and f"cotrans {' '.join(path)}" in page.split("Examples:")[1]


def test_examples_are_broken_as_a_shell_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "cotrans stream song.mp3 --model music-genre --fast --segments"
    monkeypatch.setenv("COLUMNS", "60")
    assert examples(text) == "cotrans stream song.mp3 --model music-genre --fast \\\n  --segments"
    monkeypatch.setenv("COLUMNS", "200")
    assert examples(text) == text


def test_no_help_is_yellow(capsys: pytest.CaptureFixture[str]) -> None:
    """Which nobody reads on white."""
    from typer import rich_utils

    assert run(["stream", "--help"]) == 0
    styles = [getattr(rich_utils, name, "") for name in ("STYLE_TYPES", "STYLE_METAVAR", "STYLE_USAGE")]
    assert any(styles) and not any("yellow" in style for style in styles)
