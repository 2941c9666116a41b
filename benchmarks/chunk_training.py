"""Labelled frames per second: chunk training against window sampling, the same model, the same gradient.

    python benchmarks/chunk_training.py [--json] [--threads N]

A step is the whole of it: loading, forward, loss, backward, clipping, optimiser. Both train CoOadTR-b1 shapes by
default; batches hold as many labelled frames as each way likes best within the recipe's defaults.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from typing import Any

import numpy as np
import torch
from torch import nn

from pipelines.model.presets import preset
from pipelines.model.transformer.model import ContinualTransformer
from pipelines.training.fitting.loop import make_optimizer
from pipelines.training.fitting.objective import Objective
from pipelines.training.recipes.recipe import AugmentationOptions, OptimizerOptions, Recipe, TrainingOptions
from pipelines.training.samples.batching import BatchLoader
from pipelines.training.samples.recordings import Recording
from pipelines.training.samples.sampling import sampling_plan

MODELS = {
    "cotrans-b1 size": {"input_width": 128, "width": 192, "heads": 16, "feed_forward": 192, "classes": 10},
    "cooadtr-b1 size": {"input_width": 3072, "width": 1024, "heads": 8, "feed_forward": 1024, "classes": 22},
}


def recordings(width: int, classes: int, length: int = 1500, count: int = 8) -> list[Recording]:
    generator = np.random.default_rng(0)
    return [
        Recording(
            f"stream-{i}",
            generator.normal(size=(length, width)).astype(np.float32),
            classes,
            targets=np.eye(classes, dtype=np.float32)[generator.integers(0, classes, length)],
        )
        for i in range(count)
    ]


def frames_per_second(name: str, mode: str, options: TrainingOptions, window: int, repeats: int) -> dict[str, Any]:
    sizes = MODELS[name]
    config = preset("cooadtr-b1", window=window, dropout=0.1, **sizes)
    torch.manual_seed(0)
    model = ContinualTransformer(config).train()
    recipe = Recipe(training=options)
    plan = sampling_plan(recipe, config, clips=False)
    assert plan.mode == mode
    data = recordings(sizes["input_width"], sizes["classes"])
    loader = BatchLoader(data, None, False, AugmentationOptions(), config.position_count, 0, 0)
    objective = Objective(plan.mode, "cross-entropy")
    optimizer = make_optimizer(OptimizerOptions(name="adam"), model)
    batches = plan.batches([len(recording) for recording in data], 0, 0)

    def step(number: int) -> tuple[float, float]:
        began = time.perf_counter()
        batch = loader.load(batches[number], 0, number)
        weights = objective.weights(batch)
        optimizer.zero_grad(set_to_none=True)
        objective.loss_of(model, batch, weights).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return time.perf_counter() - began, float(weights[0])

    step(0)
    measured = [step(1 + i % (len(batches) - 1)) for i in range(repeats)]
    rates = [frames / seconds for seconds, frames in measured]
    return {
        "model": name,
        "way": mode,
        "labelled_frames_per_step": statistics.fmean(frames for _, frames in measured),
        "milliseconds_per_step": 1000 * statistics.median(seconds for seconds, _ in measured),
        "labelled_frames_per_second": statistics.median(rates),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--window", type=int, default=64, help="n")
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows = []
    for name in MODELS:
        window = frames_per_second(
            name, "window", TrainingOptions(batch_size=128, sampling="window"), arguments.window, arguments.repeats
        )
        chunk = frames_per_second(
            name, "chunk", TrainingOptions(chunk=128, chunk_batch=8), arguments.window, arguments.repeats
        )
        ratio = chunk["labelled_frames_per_second"] / window["labelled_frames_per_second"]
        rows += [{**window, "ratio": 1.0}, {**chunk, "ratio": ratio}]
    if arguments.json:
        machine = {"processor": platform.processor() or platform.machine(), "threads": arguments.threads}
        print(json.dumps({"window": arguments.window, "torch": torch.__version__, **machine, "rows": rows}, indent=2))
        return
    print(f"n = {arguments.window}, {arguments.threads} threads, torch {torch.__version__}")
    print(f"{'model':16} {'way':7} {'frames/step':>11} {'ms/step':>9} {'frames/s':>10} {'ratio':>7}")
    for row in rows:
        print(
            f"{row['model']:16} {row['way']:7} {row['labelled_frames_per_step']:11.0f} "
            f"{row['milliseconds_per_step']:9.1f} {row['labelled_frames_per_second']:10.0f} {row['ratio']:6.1f}x"
        )


if __name__ == "__main__":
    main()
