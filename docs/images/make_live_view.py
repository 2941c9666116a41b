"""Takes live-view.png again: the live view of `cotrans stream` on the demo clip, in tmux, drawn by Chromium.

python docs/images/make_live_view.py        needs tmux, chromium and an otherwise idle machine
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COLUMNS, LINES = 100, 24
MOMENT = 18.5  # media seconds that the picture is taken at
TITLE = "$ cotrans stream demo.ogg"
CHROMIUM = """chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync
--disable-background-networking --disable-component-update --hide-scrollbars"""


def capture() -> str:
    """The screen, with its colours, when the clip has come to MOMENT."""
    command = f"cd {ROOT / 'weights/demo'}; {sys.executable} -m cotrans_cli stream demo.ogg"
    session = ["tmux", "-L", "cotrans-picture"]
    subprocess.run(
        [
            *session,
            "new-session",
            "-d",
            "-x",
            str(COLUMNS),
            "-y",
            str(LINES),
            f"PYTHONPATH={ROOT}; export PYTHONPATH; {command}",
        ],
        check=True,
    )
    try:
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            screen = subprocess.run([*session, "capture-pane", "-e", "-p"], capture_output=True, text=True).stdout
            shown = re.search(r"(\d+):(\d\d\.\d) ", Text.from_ansi(screen).plain)
            if shown and 60 * int(shown[1]) + float(shown[2]) >= MOMENT:
                return screen.rstrip()
            time.sleep(0.05)
    finally:
        subprocess.run([*session, "kill-server"], check=False)
    raise SystemExit("the clip did not play")


def draw(screen: str, picture: Path) -> None:
    """A terminal window with that text, as PNG."""
    console = Console(width=COLUMNS, record=True, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(screen), end="")
    svg = console.export_svg(title=TITLE, theme=MONOKAI, font_aspect_ratio=0.602)
    # Without the network there is no web font; the terminal's own has the blocks that the bars are made of.
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL).replace("Fira Code", "DejaVu Sans Mono")
    found = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert found
    width, height = (round(float(number)) for number in found.groups())
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(f"<body style='margin:0;width:{width}px'>{svg}</body>", encoding="utf-8")
        size = [f"--window-size={width},{height}", f"--screenshot={picture}", "--default-background-color=00000000"]
        subprocess.run(
            [*CHROMIUM.split(), f"--user-data-dir={folder}/user", *size, page.as_uri()], check=True, timeout=300
        )


if __name__ == "__main__":
    draw(capture(), HERE / "live-view.png")
