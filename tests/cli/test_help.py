"""Help pages read like manual pages: values by their names, flags without any, usage without braces."""

from __future__ import annotations

import re

import pytest

from cotrans_cli.main import app, run

COMMANDS = [(str(command.name),) for command in app.registered_commands]
GROUPED = [
    (str(group.name), str(command.name))
    for group in app.registered_groups
    if group.typer_instance is not None
    for command in group.typer_instance.registered_commands
]
GROUPS = [(str(group.name),) for group in app.registered_groups]


@pytest.mark.parametrize("command", [(), *COMMANDS, *GROUPS, *GROUPED], ids=" ".join)
def test_help_names_values_and_not_types(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run([*command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert not re.search(r"<(bool|int|float|str|path|list|file)\b", shown), shown
    usage = next(line for line in shown.splitlines() if "Usage:" in line)
    assert not re.search(r"[{}]|\.\.\.\.", usage)
    assert re.search(r"--help +-h +Show this message", shown)


def test_usage_of_stream(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stream", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Usage: cotrans stream [OPTIONS] SOURCE..." in shown
    assert re.search(r"--fast +As fast as possible", shown)
    assert re.search(r"--smooth +SECONDS +Average", shown)
