"""How `cotrans stream` keeps up: many sources in one batch, real time, a model that is too slow, a long run.

    python benchmarks/streaming.py [--json] [--only batch|clock|late|hour]

batch: eight feature files through one model of the paper's action detection (oad-b1: n = 64, d = 1024, 3072 inputs),
side by side and one after the other. clock: 20 s of sound, or of 30 pictures of 160 x 160 a second, in real time with
each built-in model, the features computed on the fly; the first prediction is that of a model which has just been
loaded. late: a model that is several times slower than real time, with `--late drop`; latency, memory and what was
dropped over the minutes. hour: an hour of sound as fast as possible; memory and threads before and after.
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
from made_video import write_video

from pipelines.checkpoints.builtin import builtin_names
from pipelines.checkpoints.checkpoint import save_checkpoint
from pipelines.features.request import FeatureRequest
from pipelines.features.stream_factory import StreamFactory
from pipelines.model import ContinualTransformer
from pipelines.model.presets import preset
from pipelines.model.transformer.config import ModelConfig
from pipelines.streaming import PlayOptions, Stream, StreamModel, find_sources, open_model

SOURCES, ROWS = 8, 240
ROUNDS = 3  # the fastest counts, since other programs only ever slow one down
RATE = 16_000  # Hz
HOP = 0.1  # seconds
PAGE = 4096  # bytes
SAMPLES = 12  # rows of the table of a long run
# Every step projects and attends anew in three blocks over 256 rows: a hundred times a second is too much for a laptop.
SLOW = {"width": 1024, "heads": 8, "feed_forward": 4096, "blocks": 3, "window": 256, "classes": 20}
LATE_HOP = 0.01  # seconds

Measured = dict[str, float | list[dict[str, float]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--only", choices=("batch", "clock", "late", "hour"), help="one of the four")
    parser.add_argument("--seconds", type=float, default=3600.0, help="length of the long run (hour)")
    parser.add_argument("--late-seconds", type=float, default=300.0, help="length of the run that is too slow (late)")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    parts = {
        "batch": batch,
        "clock": clock,
        "late": lambda folder: late(folder, arguments.late_seconds),
        "hour": lambda folder: hour(folder, arguments.seconds),
    }
    results: dict[str, Measured] = {}
    for name, part in parts.items():
        if arguments.only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                results[name] = part(Path(folder))
    if arguments.json:
        print(json.dumps({"threads": arguments.threads, **results}, indent=2))
        return
    for name, measured in results.items():
        print(name)
        for key, value in measured.items():
            if isinstance(value, list):
                print("".join(f"  {column:>14}" for column in value[0]))
                for row in value:
                    print("".join(f"  {cell:>14,.1f}" for cell in row.values()))
            else:
                print(f"  {key:52} {value:12,.2f}")


def batch(folder: Path) -> Measured:
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


def clock(folder: Path, seconds: float = 20.0) -> Measured:
    """Real time by the clock, and how soon the first prediction comes."""
    sound, video = _sound(folder / "sound.wav", seconds), write_video(folder / "video.mp4", seconds)
    measured: Measured = {"seconds of media": seconds}
    for name in builtin_names():
        model = open_model(name)
        watches = model.features is not None and any(part.kind == "video" for part in model.features.parts)
        source = video if watches else sound
        first = None
        with Stream(find_sources([str(source)]), model, PlayOptions()) as stream:
            for _ in stream:
                first = stream.statistics.wall_seconds if first is None else first
        summary = stream.summary()
        hop = model.features.hop if model.features else 0.0
        measured |= {
            f"{name}: seconds by the clock": summary.wall_seconds,
            f"{name}: hop, ms": 1e3 * hop,
            f"{name}: first prediction after the start, ms": 1e3 * (first or 0.0),
            f"{name}: … beyond one hop, ms": 1e3 * ((first or 0.0) - hop),
            f"{name}: latency p50, ms": summary.stages["latency"]["p50_ms"],
            f"{name}: latency p95, ms": summary.stages["latency"]["p95_ms"],
            f"{name}: dropped": float(summary.dropped),
            f"{name}: seconds with --fast": _seconds([source], model),
        }
    return measured


def late(folder: Path, seconds: float = 300.0) -> Measured:
    """A model that cannot keep up, with `--late drop`: latency, memory and what was dropped, over time."""
    spec = StreamFactory(FeatureRequest("logmel", hop=LATE_HOP)).prototype().spec
    model = _model(folder, ModelConfig(input_width=spec.width, **SLOW), spec)
    sound = _sound(folder / "sound.wav", seconds)
    samples: list[dict[str, float]] = []
    latencies: list[float] = []  # since the last sample, ms
    rows = round(seconds / LATE_HOP)
    options = PlayOptions(late="drop")
    with Stream(find_sources([str(sound)]), model, options) as stream:
        for prediction in stream:
            latencies.append(prediction.latency_ms)
            if prediction.time >= seconds * (len(samples) + 1) / SAMPLES or prediction.index == rows - 1:
                samples.append(
                    {
                        "media s": prediction.time,
                        "clock s": stream.statistics.wall_seconds,
                        "frames": float(stream.statistics.sources[0].frames),
                        "dropped": float(stream.statistics.sources[0].dropped),
                        "latency p50 ms": float(np.median(latencies)),
                        "latency max ms": max(latencies),
                        "memory MB": _memory(),
                    }
                )
                latencies.clear()
    summary = stream.summary()
    return {
        "seconds of media": seconds,
        "seconds by the clock": summary.wall_seconds,
        "hop, ms": 1e3 * LATE_HOP,
        "encoder p50, ms": summary.stages["encoder"]["p50_ms"],
        "encoder max, ms": summary.stages["encoder"]["max_ms"],
        "longest lag before dropping, ms": 1e3 * options.longest_lag,
        "rows": float(rows),
        "frames": float(summary.frames),
        "dropped": float(summary.dropped),
        "latency p50, ms": summary.stages["latency"]["p50_ms"],
        "latency p99, ms": summary.stages["latency"]["p99_ms"],
        "latency max, ms": summary.stages["latency"]["max_ms"],
        "samples": samples,
    }


def hour(folder: Path, seconds: float = 3600.0) -> Measured:
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
    spec = StreamFactory(FeatureRequest("logmel", hop=HOP)).prototype().spec
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
