"""Takes report.png again: the report of spoken digits, drawn by Chromium.

python docs/images/make_report.py        needs chromium and playwright

Recordings of the free spoken digit dataset (CC BY-SA 4.0, weights/samples), one after the other, as the built-in model
`spoken-digits` hears them, above the truth.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import soundfile
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "weights/samples/digits"
TARGET = Path(__file__).with_name("report.png")
SPOKEN = "3141592653589"  # π
SPEAKERS = ("george", "jackson", "lucas", "nicolas", "yweweler")
RATE = 8000  # Hz
PAUSE = 0.55  # seconds
MOMENT = 6.3  # seconds that the cursor stands at
FLAGS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"


def write_recording(folder: Path) -> None:
    """spoken-pi.wav, and truth.csv beside it."""
    pieces = [np.zeros(round(PAUSE * RATE))]
    lines = ["file,start,end,label"]
    for place, digit in enumerate(SPOKEN):
        samples, rate = soundfile.read(SAMPLES / f"{digit}_{SPEAKERS[place % len(SPEAKERS)]}_7.flac")
        assert rate == RATE
        start = sum(map(len, pieces)) / RATE
        lines.append(f"spoken-pi.wav,{start:.3f},{start + len(samples) / RATE:.3f},{digit}")
        pieces += [samples / np.abs(samples).max() * 0.8, np.zeros(round(PAUSE * RATE))]
    soundfile.write(folder / "spoken-pi.wav", np.concatenate(pieces), RATE)
    (folder / "truth.csv").write_text("\n".join(lines) + "\n")


def take_picture(page_file: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS.split())
        page = browser.new_page(viewport={"width": 1180, "height": 930})
        page.goto(page_file.as_uri())
        page.wait_for_selector("body[data-ready]")
        page.evaluate(f"report.view.seek({MOMENT})")
        page.evaluate(
            "report.view.choose(report.view.list.items.findIndex((item) => item.end > report.view.timeline.cursor))"
        )
        page.wait_for_timeout(500)
        page.screenshot(path=TARGET)
        browser.close()
    picture = Image.open(TARGET).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    picture.save(TARGET, optimize=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_recording(folder)
        program = [sys.executable, "-m", "cotrans_cli", "stream", str(folder / "spoken-pi.wav")]
        options = ["--model", "spoken-digits", "--quiet", "--plain"]
        report = ["--report", str(folder / "report.html"), "--truth", str(folder / "truth.csv")]
        subprocess.run([*program, *options, *report], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        take_picture(folder / "report.html")


if __name__ == "__main__":
    main()
