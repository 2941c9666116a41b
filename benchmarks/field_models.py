"""MiniROAD, LSTR and TeSTra at their published sizes: MACs and microseconds per frame, one thread.

    python benchmarks/field_models.py [--json] [--rounds 20]

The official way of LSTR and TeSTra computes every frame from all frames of its memories (our windowed reference, in
batches of 4 frames); MiniROAD's runs its GRU over a whole video, 512 frames here. Ours is one step; `steps` in chunks
of 64 frames; and a step of 8 streams in one batch. Times are those that the processor spends on the one thread, which
other programs disturb little; what is compared runs in turn, and a number is the median over all rounds. Weights are
random.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from pipelines.checkpoints.projects.lstr_keys import TABLE, key_table
from pipelines.checkpoints.projects.lstr_reference import LstrReference
from pipelines.costs.counting import count_macs
from pipelines.model.base_config import BaseConfig
from pipelines.model.continual_model import ContinualModel
from pipelines.model.kinds import make_model
from pipelines.model.lstr.config import LstrConfig
from pipelines.model.recurrent_config import RecurrentConfig

LSTR = LstrConfig(
    input_width=3072,
    width=1024,
    heads=16,
    feed_forward=1024,
    classes=22,
    long_samples=512,  # 512 s at 4 frames per second, every fourth frame
    long_rate=4,
    work_samples=32,  # 8 s
    work_rate=1,
    encoder_queries=(16, 32),
    encoder_layers=(1, 2),
    encoder_norms=(True, True),
    decoder_layers=2,
    long_positions=True,
)
TESTRA = replace(LSTR, long_positions=False, include_work=True)
MODELS: dict[str, BaseConfig] = {
    "MiniROAD": RecurrentConfig(input_width=3072, embedding=2048, width=1024, layers=1, classes=22),
    "LSTR": LSTR,
    "TeSTra, box": TESTRA,
    "TeSTra, decay 0.97": replace(TESTRA, decay=0.97),
}
Timed = Callable[[], object]
OFFICIAL_BATCH = 4  # windows at once
VIDEO = 512  # frames
CHUNK = 64
STREAMS = 8
WARM = 64  # frames before a step is timed; what a step costs does not depend on how full the long memory is


def official(model: ContinualModel) -> tuple[Callable[[int], Timed], int]:
    """What makes the official computation for so many frames, and how many frames it is timed with."""
    config = model.config
    if not isinstance(config, LstrConfig):

        def whole(frames: int) -> Timed:
            tokens = torch.randn(1, frames, config.input_width)
            return lambda: model.steps(tokens, model.initial_state(1))

        return whole, VIDEO
    state = model.state_dict()
    weights = {theirs: state[ours] for theirs, ours in key_table(config).items()}
    weights[TABLE] = weights[TABLE].unsqueeze(1)
    reference = LstrReference(weights, config)

    def windowed(frames: int) -> Timed:
        windows = torch.randn(frames, config.window, config.input_width)
        return lambda: reference(windows, 0)

    return windowed, OFFICIAL_BATCH


def stepping(model: ContinualModel, streams: int) -> Timed:
    """A function that takes one step of streams."""
    tokens = torch.randn(streams, WARM, model.config.input_width)
    _, state = model.steps(tokens, model.initial_state(streams))
    newest = tokens[:, -1]

    def step() -> Tensor:
        nonlocal state
        logits, state = model.step_(newest, state)
        return logits

    return step


def medians(functions: dict[str, Timed], rounds: int) -> dict[str, float]:
    """Median processor time of a call in microseconds, the functions taking turns."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.process_time()
            function()
            times[name].append(time.process_time() - start)
    return {name: statistics.median(values) * 1e6 for name, values in times.items()}


def measure(name: str, rounds: int) -> dict[str, object]:
    """One row of the table."""
    torch.manual_seed(0)
    model = make_model(MODELS[name]).eval()
    regular, frames = official(model)
    step = stepping(model, 1)
    chunk = torch.randn(1, CHUNK, model.config.input_width)
    # `steps` leaves the state alone, so every call begins at the same frame.
    _, state = model.steps(torch.randn(1, WARM, model.config.input_width), model.initial_state(1))
    times = medians(
        {
            "official": regular(frames),
            "step": step,
            "chunk": lambda: model.steps(chunk, state),
            "batch": stepping(model, STREAMS),
        },
        rounds,
    )
    return {
        "model": name,
        "official_macs": count_macs(regular(1)).total,
        "step_macs": count_macs(step).total,
        "official_us": times["official"] / frames,
        "step_us": times["step"],
        "chunk_us": times["chunk"] / CHUNK,
        "batch_us": times["batch"] / STREAMS,
        "state_bytes": model.initial_state(1).nbytes,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--rounds", type=int, default=20, help="of each measurement")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with torch.inference_mode():
        rows = [measure(name, options.rounds) for name in MODELS]
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    header = ("model", "official MACs", "step MACs", "official µs", "step µs", "steps of 64", "batch of 8", "state MiB")
    print("| " + " | ".join(header) + " |")
    print("|" + " --- |" * len(header))
    for row in rows:
        macs = [f"{float(str(row[key])) / 1e6:,.2f} M" for key in ("official_macs", "step_macs")]
        times = [f"{float(str(row[key])):,.0f}" for key in ("official_us", "step_us", "chunk_us", "batch_us")]
        print(f"| {row['model']} | {' | '.join(macs + times)} | {float(str(row['state_bytes'])) / 2**20:.1f} |")


if __name__ == "__main__":
    main()
