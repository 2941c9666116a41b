"""How fast a model is evaluated: frames per second of the modes of `cotrans evaluate` on long recordings.

    python benchmarks/evaluation.py [--json] [--thumos]

One block at the audio size (n = 120, d = 192, 16 heads) and at the size of the paper's action detection (n = 64,
d = 1024, 8 heads, 3072 inputs), random weights and features. --thumos also runs cooadtr-b1 at full size over as many
frames as THUMOS14 has (413 videos, 428,585 frames) and scores them.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import torch

from pipelines.evaluation.scores.detection import score_detection
from pipelines.evaluation.scores.predictions import make_predictions
from pipelines.evaluation.scores.protocols import protocol_for
from pipelines.model import ContinualTransformer
from pipelines.model.presets import preset
from pipelines.running.agreement import compare_runs
from pipelines.running.runner import Mode, Recording, run_model, speed_of

SIZES = {"audio-b1": preset("cotrans-b1", feed_forward=384), "oad-b1": preset("cooadtr-b1")}
ROWS = {"stream": 1500, "chunk": 12_000, "window": 120}
ROUNDS = 3  # of each mode; the fastest counts, since other programs only ever slow one down
VIDEOS, FRAMES = 413, 428_585


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--thumos", action="store_true", help="run the whole of THUMOS14 too (minutes)")
    parser.add_argument("--threads", type=int, help="threads of torch (default: its own, as `cotrans evaluate` has)")
    arguments = parser.parse_args()
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    results: dict[str, dict[str, float]] = {}
    for name, config in SIZES.items():
        torch.manual_seed(0)
        results[name] = _modes(ContinualTransformer(config).eval())
    if arguments.thumos:
        torch.manual_seed(0)
        results["thumos14"] = _thumos(ContinualTransformer(SIZES["oad-b1"]).eval())
    if arguments.json:
        print(json.dumps({"threads": torch.get_num_threads(), **results}, indent=2))
        return
    print(f"{torch.get_num_threads()} threads")
    for name, row in results.items():
        print(name)
        for key, value in row.items():
            print(f"  {key:32} {value:14,.1f}" if value >= 1 else f"  {key:32} {value:14.1e}")


def _modes(model: ContinualTransformer) -> dict[str, float]:
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((max(ROWS.values()), model.config.input_width), dtype=np.float32)
    result: dict[str, float] = {}
    rates = {}
    modes: tuple[Mode, ...] = ("stream", "chunk", "window")
    for mode in modes:
        run_model(model, [Recording.of("warm-up", rows[:200])], mode)
        runs = [run_model(model, [Recording.of("recording", rows[: ROWS[mode]])], mode) for _ in range(ROUNDS)]
        speed = speed_of(min(runs, key=lambda run: run.seconds))
        rates[mode] = speed.frames_per_second
        result[f"{mode}_frames_per_second"] = speed.frames_per_second
        if speed.step_us_median is not None and speed.step_us_p95 is not None:
            result.update(step_us_median=speed.step_us_median, step_us_p95=speed.step_us_p95)
    result["chunk_over_stream"] = rates["chunk"] / rates["stream"]
    result["chunk_over_window"] = rates["chunk"] / rates["window"]
    same = [Recording.of("recording", rows[:300])]
    result["largest_relative_difference"] = compare_runs([run_model(model, same, mode) for mode in modes]).relative
    return result


def _thumos(model: ContinualTransformer) -> dict[str, float]:
    lengths = np.full(VIDEOS, FRAMES // VIDEOS)
    lengths[: FRAMES % VIDEOS] += 1
    # One block of random features serves all videos: 5 GB of them would measure the memory, not the model.
    block = np.random.default_rng(0).standard_normal((int(lengths.max()), 3072), dtype=np.float32)
    recordings = [Recording.of(f"video {index}", block[:length]) for index, length in enumerate(lengths)]
    begin = time.perf_counter()
    run = run_model(model, recordings, "chunk", workers=1)
    scores = np.concatenate([outputs.logits for outputs in run.outputs.values()])
    label = np.random.default_rng(1).integers(0, 22, len(scores))
    score_detection(make_predictions(scores, label, np.repeat(np.arange(VIDEOS), lengths)), protocol_for("thumos14"))
    return {"frames": run.frames, "model_seconds": run.seconds, "seconds": time.perf_counter() - begin}


if __name__ == "__main__":
    main()
