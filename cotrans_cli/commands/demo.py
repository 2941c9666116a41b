"""`cotrans demo`: a clip that ships with the project, streamed by the model that ships with it."""

from __future__ import annotations

import shutil
import sys
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from cotrans_cli.commands.stream import stream
from cotrans_cli.display.console import note, note_lines

NEXT = """
That was a continual transformer: four times a second, one token in and one prediction out. What to try next:
  cotrans stream YOUR_FILE.mp4                   or a URL, camera:0, mic:
  cotrans stream SONG.mp3 --model music-genre    `cotrans models` lists them
  cotrans stream YOUR_FILE.wav --fast --segments --out labels.csv
  cotrans convert oadtr.pth                      a regular model as a stream
  cotrans --help                                 everything else"""
NOT_ON_PATH = """
(The command is {program}; `. {folder}/activate` puts it on your path.)"""

EXAMPLES = """
Examples:

  cotrans demo

  cotrans demo --plain      lines instead of the live view
"""


def demo(
    fast: Annotated[bool, typer.Option("--fast", help="Do not wait for real time.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Lines instead of the live view.")] = False,
) -> int:
    """Play a short clip (clock, rain, helicopter) and show what the built-in model hears, live."""
    clip = Path(str(files("weights"))) / "demo" / "demo.ogg"
    note(f"Playing {clip.name}, 21 seconds from a synthesiser: a clock, rain, a helicopter.")
    code = stream([str(clip)], model="sound-events", fast=fast, plain=plain)
    if code == 0:
        note_lines(NEXT, indent=4)
        program = Path(sys.argv[0])
        if shutil.which("cotrans") is None and (program.parent / "activate").is_file():
            note_lines(NOT_ON_PATH.format(program=program, folder=program.parent))
    return code
