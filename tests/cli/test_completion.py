"""What a shell is told when it asks for completions."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cotrans_cli.arguments.completion import TABLE
from tests.docs.command_line import all_commands


def completions(*words: str) -> list[str]:
    """What bash gets for the last of `words`, from a real process."""
    environment = {
        **os.environ,
        "_COTRANS_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("cotrans", *words)),
        "COMP_CWORD": str(len(words)),
    }
    code = "import sys; sys.argv[0] = 'cotrans'; from cotrans_cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("stream", "--model", "s"), "sound-events"),
        (("stream", "--format", ""), "jsonl"),
        (("evaluate", "--dataset", "g"), "gtzan"),
        (("train", "--dataset", "fo"), "folder"),
        (("extract", "--features", "log"), "logmel"),
        (("extract", "--features", "logmel+mus"), "logmel+musicnn"),
        (("weights", "get", "vgg"), "vggish-audioset"),
        (("data", "get", "d"), "digits"),
    ],
)
def test_values_are_completed(words: tuple[str, ...], expected: str) -> None:
    assert expected in completions(*words)


def test_every_row_of_the_table_belongs_to_a_command() -> None:
    commands = all_commands()
    for command, name in TABLE:
        chosen = commands.values() if command == "*" else [commands[command]]
        named = {word for each in chosen for parameter in each.params for word in (*parameter.opts, parameter.name)}
        assert name in named, (command, name)
