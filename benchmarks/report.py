"""A report of ten hours in a real browser: how fast it opens, how smoothly it scrolls and zooms, how large it is.

    python benchmarks/report.py [--hours 10] [--rate 4] [--classes 30] [--json]

Opening is counted from the request for the page until its timeline is drawn. Frames per second are those of three
seconds in which every frame shows another stretch: panning at a close zoom, panning over hours, and zooming in. Both
suffer where other programs want the processor; the processor time of all of the browser's processes does not.
Needs Linux, Chromium and the package playwright.
"""

from __future__ import annotations

import argparse
import json
import os
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


def browser_seconds() -> float:
    """Processor time so far of all processes below this one: the browser's."""
    parents, spent = {}, {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, fields = int(status.parent.name), status.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[number], spent[number] = int(fields[1]), int(fields[11]) + int(fields[12])
    below = {os.getpid()}
    while children := {number for number, parent in parents.items() if parent in below} - below:
        below |= children
    return sum(spent[number] for number in below - {os.getpid()}) / os.sysconf("SC_CLK_TCK")


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
        begin, used = time.perf_counter(), browser_seconds()
        page.goto(path.as_uri())
        page.wait_for_selector("body[data-ready]")
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        opened, open_cpu = time.perf_counter() - begin, browser_seconds() - used
        moved = {}
        for name, move in MOVEMENTS.items():
            used = browser_seconds()
            times = np.diff(page.evaluate(MEASURE.replace("SECONDS", str(SECONDS)), move))
            moved[name] = {
                "frames_per_second": 1e3 / float(np.mean(times)),
                "p95_ms": float(np.percentile(times, 95)),
                "processor_ms": 1e3 * (browser_seconds() - used) / len(times),
            }
        nodes = page.evaluate("document.querySelectorAll('*').length")
        version = browser.version
        browser.close()
    return {"open_s": opened, "open_processor_s": open_cpu, "moved": moved, "elements": nodes, "chromium": version}


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
    print(f"opens in {result['open_s']:.2f} s ({result['open_processor_s']:.2f} s of processor time)")
    for name, values in result["moved"].items():
        rate, late, processor = values["frames_per_second"], values["p95_ms"], values["processor_ms"]
        print(f"{name:26} {rate:5.1f} frames a second, p95 {late:.1f} ms, {processor:.1f} ms of processor time each")


if __name__ == "__main__":
    main()
