"""What a shell is told when it asks for completions."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cotrans_cli.arguments.completion import TABLE
from tests.docs.command_line import all_commands

EXPECTED = {
    ("stream", "--model", "s"): "sound-events",
    ("stream", "--format", ""): "jsonl",
    ("evaluate", "--dataset", "g"): "gtzan",
    ("train", "--dataset", "fo"): "folder",
    ("extract", "--features", "log"): "logmel",
    ("extract", "--features", "logmel+mus"): "logmel+musicnn",
    ("weights", "get", "vgg"): "vggish-audioset",
    ("data", "get", "d"): "digits",
}
# Bash asks with the words in the environment; one process answers for all of them.
PROGRAM = """
import os, sys
from cotrans_cli.main import main
sys.argv[0] = "cotrans"
for line in sys.stdin:
    words = line.rstrip("\\n").split("\\t")
    os.environ.update(COMP_WORDS=" ".join(("cotrans", *words)), COMP_CWORD=str(len(words)))
    try:
        main()
    except SystemExit:
        print("\\t", flush=True)
"""


@pytest.fixture(scope="module")
def completions() -> dict[tuple[str, ...], list[str]]:
    """What bash gets for the last of some words, from a real process."""
    questions = "".join("\t".join(words) + "\n" for words in EXPECTED)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=questions,
        env={**os.environ, "_COTRANS_COMPLETE": "complete_bash"},
        capture_output=True,
        text=True,
        check=True,
    )
    answers = done.stdout.split("\t")[:-1]
    return {words: answer.split() for words, answer in zip(EXPECTED, answers, strict=True)}


@pytest.mark.parametrize(("words", "expected"), EXPECTED.items(), ids=str)
def test_values_are_completed(
    completions: dict[tuple[str, ...], list[str]], words: tuple[str, ...], expected: str
) -> None:
    assert expected in completions[words]


def test_every_row_of_the_table_belongs_to_a_command() -> None:
    commands = all_commands()
    for command, name in TABLE:
        chosen = commands.values() if command == "*" else [commands[command]]
        named = {word for each in chosen for parameter in each.params for word in (*parameter.opts, parameter.name)}
        assert name in named, (command, name)
