"""Every command and every piece of Python that the pages and model cards show is run, on small stand-ins."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import traceback
from pathlib import Path
from typing import Any

import pytest

from cotrans_cli.main import run
from tests.docs.apart import APART, REAL_OUTPUT, ROUNDING, SHORTENED
from tests.docs.command_line import parse_arguments
from tests.docs.pages import PAGES, ROOT, Shown, everything, page_name
from tests.docs.preambles import PREAMBLES
from tests.docs.stand_ins import build

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("stand-ins"))


@pytest.fixture
def scratch(stand_ins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh copy of the stand-ins as the working folder, with no settings of this machine's user."""
    folder = tmp_path / "scratch"
    shutil.copytree(stand_ins, folder, symlinks=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COTRANS_CACHE", str(stand_ins.parent / "cache"))
    monkeypatch.setenv("COTRANS_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("COTRANS_DATA", raising=False)
    return folder


@pytest.mark.parametrize("page", [page for page in PAGES if everything(page)], ids=page_name)
def test_page(page: Path, scratch: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """In the order of the page, in one folder and one Python: what one piece makes, the next may use."""
    failures = []
    names: dict[str, Any] = {}
    exec(PREAMBLES.get(page_name(page), ""), names)
    for shown in everything(page):
        apart = APART.get(shown.text)
        if apart is not None and apart.exit_code is None:
            parse(shown)
            continue
        code = interpret(shown, names) if shown.language == "python" else execute(shown)
        output = "".join(capfd.readouterr())
        if code != (apart.exit_code if apart else 0) or (apart and apart.says not in output):
            failures.append(f"{shown.where}: {shown.text}\n  exit code {code}\n{output[-2000:]}")
        if shown.text in REAL_OUTPUT:
            failures += [f"{shown.where}: not in the output: {line}\n{output}" for line in untrue_lines(shown, output)]
    assert not failures, "\n".join(failures)


def test_no_stale_entries() -> None:
    """Commands that are treated apart are all still shown somewhere."""
    shown = {command.text for page in PAGES for command in everything(page)}
    named = {*APART, *SHORTENED, *REAL_OUTPUT}
    assert named <= shown, sorted(named - shown)
    assert set(PREAMBLES) <= {page_name(page) for page in PAGES if everything(page)}


def untrue_lines(shown: Shown, output: str) -> list[str]:
    """The shown lines that the real output has not, or not in this order; … stands for lines that are left out."""
    real = iter([comparable(line) for line in output.splitlines()])
    return [line for line in shown.output if line.strip() not in ("", "…") and comparable(line) not in real]


def comparable(line: str) -> str:
    return " ".join(re.sub(ROUNDING, "", line).split())


def interpret(shown: Shown, names: dict[str, Any]) -> int:
    """Run a block of Python. Line numbers in its traceback are those of the page."""
    try:
        exec(compile("\n" * (shown.line - 1) + shown.text, shown.page, "exec"), names)
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def execute(shown: Shown) -> int:
    """Run the line and return its exit code: in this process where it is a plain `cotrans` command."""
    card = shown.page.startswith("weights/") and shown.text.startswith("cotrans train")
    text = shortened(shown.text, "--epochs 1" if card else SHORTENED.get(shown.text, ""))
    if shown.needs_shell or not text.startswith("cotrans "):
        return subprocess.run(["bash", "-c", f"set -o pipefail; {text}"], timeout=300).returncode
    return run(Shown(shown.page, shown.line, text).words[1:])


def shortened(command: str, options: str) -> str:
    """The command with other options; what it says itself for the same ones is taken out, since each is given once."""
    for flag in re.findall(r"(--[a-z][\w-]*)", options):
        command = re.sub(rf" {flag}[ =]\S+", "", command)
    return f"{command} {options}".strip()


def parse(shown: Shown) -> None:
    """Fail where the line names a command, an option, a target or a script that does not exist."""
    words = shown.words
    if words[0] == "make":
        targets = (ROOT / "Makefile").read_text()
        assert all(f"\n{target}:" in targets for target in words[1:]), shown
    elif words[0] == "python":
        assert (ROOT / words[1]).is_file(), shown
    elif words[0] == "torchrun":
        parse_arguments(words[words.index("cotrans_cli") + 1 :])
    else:
        assert words[0] == "cotrans", f"{shown.where}: how is '{shown.text}' to be checked?"
        parse_arguments(words[1:])
