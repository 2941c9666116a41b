"""How `cotrans stream` keeps up: many sources in one batch, real time, a long run.

    python benchmarks/streaming.py [--json] [--only batch|clock|hour]

batch: eight feature files through one model of the paper's action detection (oad-b1: n = 64, d = 1024, 3072 inputs),
side by side and one after the other. clock: 20 s of sound in real time, with features computed on the fly. hour: an
hour of sound as fast as possible; memory and threads before and after.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pipelines.checkpoints.checkpoint import save_checkpoint
from pipelines.features.stream_factory import StreamFactory, StreamOptions
from pipelines.model import ContinualTransformer
from pipelines.model.config import ModelConfig
from pipelines.model.presets import preset
from pipelines.streaming import PlayOptions, Stream, StreamModel, find_sources, open_model

SOURCES, ROWS = 8, 240
ROUNDS = 3  # the fastest counts, since other programs only ever slow one down
RATE = 16_000  # Hz
HOP = 0.1  # seconds
PAGE = 4096  # bytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--only", choices=("batch", "clock", "hour"), help="one of the three")
    parser.add_argument("--seconds", type=float, default=3600.0, help="length of the long run")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    parts = {"batch": batch, "clock": clock, "hour": lambda folder: hour(folder, arguments.seconds)}
    results: dict[str, dict[str, float]] = {}
    for name, part in parts.items():
        if arguments.only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                results[name] = part(Path(folder))
    if arguments.json:
        print(json.dumps({"threads": arguments.threads, **results}, indent=2))
        return
    for name, row in results.items():
        print(name)
        for key, value in row.items():
            print(f"  {key:40} {value:12,.2f}")


def batch(folder: Path) -> dict[str, float]:
    """Eight sources side by side against eight runs in a row."""
    model = _model(folder, preset("cooadtr-b1"), None)
    generator = np.random.default_rng(0)
    paths = [folder / f"{index}.npy" for index in range(SOURCES)]
    for path in paths:
        np.save(path, generator.standard_normal((ROWS, model.model.config.input_width), dtype=np.float32))
    together, apart = float("inf"), float("inf")
    busy_together, busy_apart = float("inf"), float("inf")  # processor time, which other programs do not change
    for _ in range(ROUNDS):
        begin = time.process_time()
        together = min(together, _seconds(paths, model))
        middle = time.process_time()
        apart = min(apart, sum(_seconds([path], model) for path in paths))
        busy_together = min(busy_together, middle - begin)
        busy_apart = min(busy_apart, time.process_time() - middle)
    rows = SOURCES * ROWS
    return {
        "frames per second, one batch of 8": rows / together,
        "frames per second, 8 runs in a row": rows / apart,
        "ratio": apart / together,
        "ratio of processor time": busy_apart / busy_together,
    }


def clock(folder: Path, seconds: float = 20.0) -> dict[str, float]:
    """Real time by the clock, and how soon the first prediction comes."""
    model = _audio_model(folder)
    sound = _sound(folder / "sound.wav", seconds)
    fast = _seconds([sound], model)
    first = None
    with Stream(find_sources([str(sound)]), model, PlayOptions()) as stream:
        for _ in stream:
            first = stream.statistics.wall_seconds if first is None else first
    summary = stream.summary()
    return {
        "seconds of media": seconds,
        "seconds by the clock": summary.wall_seconds,
        "seconds with --fast": fast,
        "hop, ms": 1e3 * HOP,
        "first prediction after the start, ms": 1e3 * (first or 0.0),
        "latency p50, ms": summary.stages["latency"]["p50_ms"],
        "latency p95, ms": summary.stages["latency"]["p95_ms"],
        "dropped": float(summary.dropped),
    }


def hour(folder: Path, seconds: float = 3600.0) -> dict[str, float]:
    """A long run: memory, threads and the time of the last frame."""
    model = _audio_model(folder)
    sound = _sound(folder / "sound.wav", seconds)
    _seconds([_sound(folder / "short.wav", 60.0)], model)  # what is allocated once does not count
    threads, before, last, memory = threading.active_count(), _memory(), 0.0, []
    begin = time.monotonic()
    with Stream(find_sources([str(sound)]), model, PlayOptions(fast=True)) as stream:
        for prediction in stream:
            last = prediction.time
            if prediction.index % 1000 == 0:
                memory.append(_memory())
    return {
        "seconds of media": seconds,
        "seconds by the clock": time.monotonic() - begin,
        "time of the last frame, s": last,
        "memory before, MB": before,
        "memory at a tenth, MB": memory[len(memory) // 10],
        "memory at the end, MB": _memory(),
        "largest memory, MB": max(memory),
        "threads left": float(threading.active_count() - threads),
    }


def _seconds(paths: list[Path], model: StreamModel) -> float:
    """Of the stream as fast as possible, from the first source being open to the last prediction."""
    with Stream(find_sources([str(path) for path in paths]), model, PlayOptions(fast=True)) as stream:
        for _ in stream:
            pass
    return stream.summary().wall_seconds


def _audio_model(folder: Path) -> StreamModel:
    spec = StreamFactory(StreamOptions("logmel", hop=HOP)).prototype().spec
    return _model(folder, preset("cotrans-b1", input_width=spec.width), spec)


def _model(folder: Path, config: ModelConfig, features: Any) -> StreamModel:
    torch.manual_seed(0)
    save_checkpoint(folder / "model.safetensors", ContinualTransformer(config).eval(), features=features)
    return open_model(folder / "model.safetensors")


def _sound(path: Path, seconds: float) -> Path:
    """Noise that swells and fades, written piece by piece."""
    import soundfile

    generator = np.random.default_rng(0)
    with soundfile.SoundFile(path, "w", RATE, 1, "PCM_16") as file:
        for begin in range(0, round(seconds), 10):
            time_ = begin + np.arange(round(min(10.0, seconds - begin) * RATE)) / RATE
            file.write(0.2 * np.sin(time_) * generator.standard_normal(len(time_)))
    return path


def _memory() -> float:
    """Megabytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 1e6


if __name__ == "__main__":
    main()
