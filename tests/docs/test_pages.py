"""The pages name things that exist: links, commands and options; and the help shows examples that work."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cotrans_cli.arguments.help_text import examples, joined
from cotrans_cli.main import run
from tests.docs.command_line import all_commands, option_names, parse_arguments, root_command
from tests.docs.pages import PAGES, ROOT, inline_code, links, page_name

# The commands whose options a page explains. Pages that are not here may name options of any command.
SUBJECTS = {
    "docs/convert.md": {"convert", "train"},
    "docs/datasets.md": {"data inspect", "data get", "train", "evaluate"},
    "docs/evaluate.md": {"evaluate", "train", "stream"},
    "docs/extract.md": {"extract", "weights list", "weights get", "weights add", "weights path"},
    "docs/flops.md": {"flops"},
    "docs/report.md": {"report", "stream", "train", "evaluate"},
    "docs/stream.md": {"stream", "models", "demo"},
    "docs/train.md": {"train", "data inspect", "convert"},
}


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        target, _, anchor = link.text.partition("#")
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{link.where}: {link.text}"
        if anchor:
            assert anchor in anchors(path), f"{link.where}: {link.text}"


def anchors(path: Path) -> set[str]:
    """The names by which headings of a page can be linked to."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_options_exist(page: Path) -> None:
    """Every `--option` of the text is one of the command that it stands with, or of the page's commands."""
    commands = all_commands()
    for code in inline_code(page):
        named = re.match(r"cotrans ((?:\w+ )?\w+)", code.text)
        subject = SUBJECTS.get(page_name(page), set(commands))
        if named:
            words = named[1].split()
            subject = {name for name in (" ".join(words), words[0]) if name in commands}
            assert subject or any(name.startswith(f"{words[0]} ") for name in commands), f"{code.where}: {code.text}"
        known = set().union(*(option_names(commands[name]) for name in subject if name in commands))
        if script := re.match(r"python (weights/\S+\.py)", code.text):  # has options of its own
            known = set(re.findall(r'"(--[a-z][\w-]*)"', (ROOT / script[1]).read_text(encoding="utf-8")))
        for option in re.findall(r"(?:^|\s)(--[a-z][\w-]*)", code.text):
            assert option in known | general_options(), f"{code.where}: {code.text}: no option {option}"


def general_options() -> set[str]:
    of_torchrun = {"--nproc-per-node", "--nnodes", "--rdzv-id", "--max-restarts"}
    return option_names(root_command()) | of_torchrun


def test_every_command_has_a_page() -> None:
    """README.md's table names each command with the page that explains it."""
    table = dict(
        re.findall(
            r"^\| (`cotrans [^|]+) \| ([^|]+) \|$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    for name in {name.split()[0] for name in all_commands()}:
        row = next((row for row in table if f"`cotrans {name}`" in row), None)
        assert row, f"README.md: no row for cotrans {name}"
        first = re.search(r"\]\(([^)]+)\)", table[row])
        assert first, f"README.md: no page for cotrans {name}"
        page = ROOT / first[1]
        text = page.read_text(encoding="utf-8") if page.is_file() else ""
        assert f"cotrans {name}" in text, f"{first[1]} does not speak of cotrans {name}"


@pytest.mark.parametrize("name", sorted(all_commands()))
def test_help_shows_examples_that_parse(name: str) -> None:
    command = all_commands()[name]
    lines = re.sub(r" \\\n *", " ", command.epilog or "").splitlines()
    shown = [line for line in lines if line.startswith(("cotrans ", "torchrun "))]
    assert any(line.startswith(f"cotrans {name}") for line in shown)
    assert all(len(line) <= 78 for line in (command.epilog or "").splitlines() if not line.startswith("["))
    for line in shown:
        words = line.split("cotrans_cli " if line.startswith("torchrun") else "cotrans ", 1)[1]
        if "…" not in words:
            import shlex

            parse_arguments(shlex.split(words))


def test_help_fits_eighty_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Paragraphs are filled: no line of the text ends early because the source's line ended there."""
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["convert", "--help"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    paragraph = text[text.index("The file is recognised") :].split("╭")[0].strip().splitlines()
    assert all(len(line.strip()) > 60 for line in paragraph[:-1]), paragraph


def test_paragraphs_and_examples() -> None:
    assert joined("One\n    two.\n\n    Three\n    four.\n") == "One two.\n\nThree four."
    long = "cotrans train " + " ".join(f"--option-{letter} value" for letter in "abcde")
    text = examples(f"\nExamples:\n\n  cotrans models      all [of] them\n\n  {long}\n")
    assert text.split("\n\n") == [
        "[bold]Examples:[/bold]",
        "[dim]# all [of] them[/dim]\ncotrans models",
        "cotrans train --option-a value --option-b value --option-c value \\\n  --option-d value --option-e value",
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["steam", "a.wav"], "Did you mean 'stream'?"),
        (["weights", "lst"], "Did you mean 'list'?"),
        (["train", "--epoch", "3"], "--epochs"),
        (["weights", "path", "musicnn-mds"], "did you mean 'musicnn-msd'?"),
        (["stream", "a.wav", "--modle", "x"], "--model"),
        (["--versoin"], "--version"),
    ],
)
def test_mistyped_names_get_a_suggestion(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    output = capsys.readouterr()
    assert output.out == "" and output.err.startswith("cotrans: error: ") and output.err.count("\n") == 1
    assert says in output.err


@pytest.mark.parametrize("words", [[], ["weights"], ["data"]])
def test_no_arguments_show_the_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    output = capsys.readouterr()
    assert "Usage: cotrans" in output.out + output.err and "error" not in output.err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    from pipelines import __version__

    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"cotrans {__version__}\n"


def test_completion_can_be_installed_and_completes(tmp_path: Path) -> None:
    """In a home folder of its own, as bash calls it."""
    import os
    import subprocess
    import sys

    environment: dict[str, Any] = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    # `-m cotrans_cli` has to be called cotrans, as the installed program is.
    program = [sys.executable, "-c", "import sys; sys.argv[0] = 'cotrans'; from cotrans_cli.main import main; main()"]
    subprocess.run(
        ["bash", "-c", '"$@"; exit $?', "bash", *program, "--install-completion"],
        env=environment,
        check=True,
        timeout=300,
    )
    assert "complete" in (tmp_path / ".bash_completions" / "cotrans.sh").read_text()
    words = {"_COTRANS_COMPLETE": "complete_bash", "COMP_WORDS": "cotrans stream --mod", "COMP_CWORD": "2"}
    done = subprocess.run(
        program, env={**environment, **words}, capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.split() == ["--model"]
