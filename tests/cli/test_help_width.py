"""Every help page at 80 columns: examples at the end, and option names that are never cut."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from cotrans_cli.main import app, run


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


ALL = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_at_80_columns(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run([*path, "--help"]) == 0
    page = capsys.readouterr().out
    assert all(len(line) <= 80 for line in page.splitlines())
    names = set(re.findall(r"(?<!\S)-{1,2}[\w-]+", page.replace("│", " ").replace(",", " ")))
    for parameter in ALL[path].params:
        if parameter.param_type_name == "option" and not getattr(parameter, "hidden", False):
            assert {*parameter.opts, *parameter.secondary_opts} <= names, parameter.opts
    assert not re.search(r"--[\w-]*…", page)
    if path:  # the first page names the commands instead
        assert "Examples:" in page and f"cotrans {' '.join(path)}" in page.split("Examples:")[1]
