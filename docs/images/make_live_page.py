"""Takes live-page.png again: the live page of `cotrans stream --serve`, drawn by Chromium while two sources play.

python docs/images/make_live_page.py weights/demo/demo.ogg garden.wav        needs chromium and playwright

garden.wav: clips of ESC-10 one after the other (dog, rooster, sea_waves, crying_baby; CC BY). The sources play in real
time, so the machine should have nothing else to do: the page says how far it is behind.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(__file__).with_name("live-page.png")
MOMENT = 20.0  # seconds of sound on the picture
FLAGS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"


def take_picture(address: str) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS.split())
        page = browser.new_page(viewport={"width": 1280, "height": 660})
        page.goto(address)
        page.wait_for_timeout(MOMENT * 1000)
        page.screenshot(path=TARGET)
        browser.close()
    picture = Image.open(TARGET).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    picture.save(TARGET, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", type=Path)
    sources = [str(path.resolve()) for path in parser.parse_args().sources]
    program = [sys.executable, "-m", "cotrans_cli", "stream", *sources, "--model", "sound-events", "--serve", "0"]
    with subprocess.Popen([*program, "--plain"], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as stream:
        assert stream.stderr is not None
        for line in stream.stderr:
            if address := re.search(rb"http://\S+", line):
                take_picture(address[0].decode())
                break
        stream.terminate()


if __name__ == "__main__":
    main()
