"""The versions that `make lowest` installs are the lower bounds that pyproject.toml declares, all of them."""

from __future__ import annotations

import re
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from cotrans_cli.main import run
from pipelines.untrusted.toml import load_toml
from tests.docs.command_line import all_commands
from tests.lowest.smoke import lines

ROOT = Path(__file__).resolve().parents[1]


def declared() -> dict[str, Version]:
    """Lower bound of each dependency that is there on every Python."""
    project = load_toml(ROOT / "pyproject.toml")["project"]
    wanted = [Requirement(text) for text in project["dependencies"]]
    return {
        requirement.name: Version(next(bound.version for bound in requirement.specifier if bound.operator == ">="))
        for requirement in wanted
        if requirement.marker is None
    }


def installed() -> dict[str, Version]:
    text = (ROOT / "tests" / "lowest" / "versions.txt").read_text(encoding="utf-8")
    return {name: Version(version) for name, version in re.findall(r"^([\w-]+)==(\S+)$", text, re.MULTILINE)}


def test_make_lowest_installs_the_declared_bounds() -> None:
    assert installed() == declared()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "--requirement tests/lowest/versions.txt" in makefile and "tests/lowest/smoke.py" in makefile


def test_the_smoke_test_runs_every_command() -> None:
    ran = {word for line in lines(Path()) for word in line[:1]}
    needs_a_terminal_or_network = {"demo"}
    assert {name.split()[0] for name in all_commands()} - needs_a_terminal_or_network <= ran
    assert run(["--version"]) == 0
