"""Every command once, with whatever versions are installed: `make lowest` runs it with the lowest that are declared.

    python tests/lowest/smoke.py

Needs nothing but cotrans itself, so that no tool for development raises a version.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import av
import numpy as np
import soundfile

ROOT = Path(__file__).resolve().parents[2]
RATE = 16000
SMALL = ("model.width=16", "model.heads=2", "model.feed_forward=16", "training.batch_size=4")


def main() -> int:
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        write_media(folder)
        failed = [line for line in lines(folder) if not succeeds(line, folder)]
    print(f"{len(failed)} of {len(lines(folder))} commands failed" if failed else "all commands work")
    return 1 if failed else 0


def lines(folder: Path) -> list[list[str]]:
    """The commands, in an order in which each finds what it needs."""
    golden = ROOT / "tests" / "golden" / "oadtr_b1.pth"
    train = ["train", "--dataset", "folder", "--root", "clips", "--features", "logmel", "--hop", "0.1", "--window", "8"]
    settings = [word for setting in SMALL for word in ("--set", setting)]
    return [
        ["--help"],
        ["--version"],
        ["models"],
        *[
            [name, "--help"]
            for name in ("stream", "extract", "train", "convert", "evaluate", "flops", "info", "data", "export")
        ],
        ["info", "clips/dog/0.wav"],
        ["weights", "list"],
        ["extract", "clips", "video.mp4", "--out", "features", "--features", "logmel", "--hop", "0.1"],
        ["extract", "clips/dog", "--out", "mfcc", "--features", "librosa:mfcc+librosa:chroma"],
        ["extract", "clips/dog", "--out", "vggish", "--features", "vggish", "--random-weights"],
        ["extract", "video.mp4", "--out", "pictures", "--features", "efficientnet_lite0", "--fps", "2"],
        ["data", "inspect", "--dataset", "folder", "--root", "clips"],
        [*train, "--epochs", "2", "--validation", "0.3", *settings, "--out", "run", "-q"],
        [
            "evaluate",
            "--dataset",
            "folder",
            "--root",
            "clips",
            "--checkpoint",
            "run",
            "--mode",
            "all",
            "--plot",
            "c.png",
        ],
        ["evaluate", "--dataset", "folder", "--root", "clips", "--checkpoint", "run", "--csv", "-q"],
        ["stream", "clips/dog/0.wav", "--model", "run/best.safetensors", "--fast", "-q"],
        [
            "stream",
            "clips/dog/0.wav",
            "--model",
            "run/best.safetensors",
            "--fast",
            "--out",
            "0.jsonl",
            "--report",
            "0.html",
        ],
        ["report", "0.jsonl", "--media", "clips/dog/0.wav", "--embed", "--out", "again.html"],
        ["stream", "video.mp4", "--fast", "--overlay", "overlay.mp4", "-f", "jsonl"],
        ["stream", str(ROOT / "weights" / "demo" / "demo.ogg"), "--fast", "--segments", "-f", "csv"],
        ["convert", str(golden), "--no-class-token", "--out", "converted.safetensors"],
        ["info", "converted.safetensors"],
        ["flops", "--model", "cotrans-b1"],
        ["flops", "run/best.safetensors", "--json"],
    ]


def succeeds(words: list[str], folder: Path) -> bool:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    environment |= {"COTRANS_CACHE": str(folder / "cache"), "COTRANS_CONFIG": str(folder / "config.toml")}
    begin = time.monotonic()
    command = [sys.executable, "-m", "cotrans_cli", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=1800)
    traced = "Traceback" in done.stderr or not (done.stdout or done.stderr)
    good = done.returncode == 0 and not traced
    print(f"{'ok  ' if good else 'FAIL'} {time.monotonic() - begin:5.1f} s  cotrans {' '.join(words)}", flush=True)
    if not good:
        print(f"     exit code {done.returncode}\n{done.stdout[-500:]}{done.stderr[-1500:]}", flush=True)
    return good


def write_media(folder: Path) -> None:
    """Clips of two kinds of sound, and a video with sound."""
    generator = np.random.default_rng(0)
    times = np.arange(RATE) / RATE
    for label, pitch in (("dog", 300.0), ("rain", 3000.0)):
        (folder / "clips" / label).mkdir(parents=True)
        for number in range(6):
            sound = 0.3 * np.sin(2 * np.pi * pitch * times) + generator.normal(0, 0.05, RATE)
            soundfile.write(folder / "clips" / label / f"{number}.wav", sound, RATE)
    with av.open(str(folder / "video.mp4"), "w") as container:
        video = container.add_stream("mpeg4", rate=10)
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        audio = container.add_stream("aac", rate=RATE)
        for _ in range(10):
            picture = generator.integers(0, 255, (48, 64, 3), dtype=np.uint8)
            container.mux(video.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        for number in range(RATE // 1000):
            block = generator.normal(0, 0.1, (1, 1000)).astype(np.float32)
            frame = av.AudioFrame.from_ndarray(block, format="fltp", layout="mono")
            frame.sample_rate, frame.pts = RATE, 1000 * number
            container.mux(audio.encode(frame))
        container.mux(video.encode(None))
        container.mux(audio.encode(None))


if __name__ == "__main__":
    versions = json.loads(
        subprocess.run(
            [sys.executable, "-m", "pip", "list", "--format", "json"], capture_output=True, text=True, check=True
        ).stdout
    )
    print(", ".join(f"{entry['name']} {entry['version']}" for entry in versions))
    sys.exit(main())
