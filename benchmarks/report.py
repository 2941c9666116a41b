"""A report of ten hours in a real browser: how fast it opens, how smoothly it scrolls and zooms, how large it is.

    python benchmarks/report.py [--hours 10] [--rate 4] [--classes 30] [--json]

Opening is counted from the request for the page until its timeline is drawn. Frames per second are those of three
seconds in which every frame shows another stretch: panning at a close zoom, panning over hours, and zooming in and out.
Needs Chromium and the package playwright.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.pages.packing import as_bytes, packed_rows
from pipelines.pages.recording import Recording, ShownRule, write_recordings

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
SECONDS = 3.0  # of each movement
MOVEMENTS = {
    "pan, 2 minutes in sight": "(t, share) => t.setView(share * (t.last - 120), share * (t.last - 120) + 120)",
    "pan, 2 hours in sight": "(t, share) => t.setView(share * (t.last - 7200), share * (t.last - 7200) + 7200)",
    "zoom from all to 5 s": "(t, share) => t.setView(0.4 * t.last, 0.4 * t.last + t.last * (5 / t.last) ** share)",
}
MEASURE = """(move) => new Promise((resolve) => {
  const timeline = report.view.timeline, action = eval(move), times = [];
  const begin = performance.now();
  const frame = (now) => {
    times.push(now);
    const share = (now - begin) / (1000 * SECONDS);
    if (share >= 1) return resolve(times);
    action(timeline, Math.max(0, share)); // drawn before the next frame
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
})"""


def made_recording(hours: float, rate: float, classes: int, seed: int = 0) -> Recording:
    """Scores as a model of events gives them: a class at a time for seconds to minutes, others near nothing."""
    generator = np.random.default_rng(seed)
    rows = round(3600 * hours * rate)
    names = tuple(f"class {number}" for number in range(classes))
    logits = generator.normal(0, 0.6, (rows, classes)).astype(np.float32)
    segments = []
    row = 0
    while row < rows:
        length, index = int(generator.integers(8, 400)), int(generator.integers(classes))
        end = min(rows, row + length)
        logits[row:end, index] += 6 + generator.normal(0, 0.5, end - row)
        segments.append((row / rate, end / rate, names[index], 0.9))
        row = end
    scores = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    packed = packed_rows((np.arange(rows) / rate).tolist(), 1 / rate, as_bytes(scores))
    return Recording("ten hours", "long.ogg", names, ShownRule("softmax", 0.0, "0.00"), packed, segments)


def measure(path: Path) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        sys.exit("there is no Chromium on this machine: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS.split())
        # The policy of the page refuses `eval`, which the measuring script needs.
        page = browser.new_context(viewport={"width": 1280, "height": 900}, bypass_csp=True).new_page()
        page.goto("about:blank")
        begin = time.perf_counter()
        page.goto(path.as_uri())
        page.wait_for_selector("body[data-ready]")
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        opened = time.perf_counter() - begin
        rates, longest = {}, {}
        for name, move in MOVEMENTS.items():
            times = np.diff(page.evaluate(MEASURE.replace("SECONDS", str(SECONDS)), move))
            rates[name], longest[name] = 1e3 / float(np.mean(times)), float(np.percentile(times, 95))
        nodes = page.evaluate("document.querySelectorAll('*').length")
        version = browser.version
        browser.close()
    return {
        "open_s": opened,
        "frames_per_second": rates,
        "p95_frame_ms": longest,
        "elements": nodes,
        "chromium": version,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=4.0, help="rows a second")
    parser.add_argument("--classes", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        recording = made_recording(options.hours, options.rate, options.classes)
        write_recordings(path, [recording])
        result = {"bytes": path.stat().st_size, "segments": len(recording.segments), **measure(path)}
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print(f"{options.hours:g} h, {options.rate:g} rows a second, {options.classes} classes")
    print(f"size {result['bytes'] / 1e6:.2f} MB, {result['segments']:,} segments, {result['elements']} elements")
    print(f"opens in {result['open_s']:.2f} s")
    for name, rate in result["frames_per_second"].items():
        print(f"{name:26} {rate:5.1f} frames a second, p95 {result['p95_frame_ms'][name]:.1f} ms")


if __name__ == "__main__":
    main()
