"""How long one step takes: cotrans in each precision, exported, the authors' library, the regular encoder, the floor.

One thread, batch 1.

    python benchmarks/step_latency.py [--json] [--quick]

The floor is the matrix–vector products of the same weights and nothing else. Needs `continual-inference==1.2.4`
(`make bench` installs it). All numbers of a row are measured in turn, round by round, so that a busy machine
disturbs all of them alike; a number is the median over all rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pipelines.checkpoints.checkpoint import save_checkpoint
from pipelines.exporting.exporter import export_model
from pipelines.exporting.runtime import OnnxStep
from pipelines.model import ContinualEncoder, ContinualTransformer, from_torch_encoder
from pipelines.model.linear.packing import packed_copy

Timed = Callable[[], object]


@dataclass(frozen=True)
class Size:
    """One row of the table."""

    window: int
    width: int
    heads: int
    feed_forward: int
    blocks: int


SIZES = {
    "audio-b1": Size(120, 192, 16, 384, 1),
    "oad-b1": Size(64, 1024, 8, 1024, 1),
    "audio-b2": Size(120, 192, 16, 384, 2),
    "oad-b2": Size(64, 1024, 8, 1024, 2),
}
CHUNK = 2048  # tokens of one call of `steps`
STREAMS = 64  # streams in one batch
GROWTH = (64, 128, 256, 512, 1024, 2048, 4096)  # windows


def medians(functions: dict[str, Timed], seconds: float, rounds: int = 10) -> dict[str, float]:
    """Median time of a call in microseconds, the functions taking turns."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(rounds):
        for name, function in functions.items():
            end = time.perf_counter() + seconds / rounds / len(functions)
            while True:
                start = time.perf_counter()
                function()
                now = time.perf_counter()
                times[name].append(now - start)
                if now > end:
                    break
    return {name: statistics.median(values) * 1e6 for name, values in times.items()}


def regular_encoder(size: Size) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(size.width, size.heads, size.feed_forward, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, size.blocks, enable_nested_tensor=False).eval()


def warm(encoder: ContinualEncoder, batch: int) -> Timed:
    """A function that takes one step of `batch` streams whose windows are full."""
    width = encoder.config.width
    state = encoder.initial_state(batch)
    for _ in range(encoder.config.window + 1):
        _, state = encoder.step_(torch.randn(batch, width), state)
    tokens = torch.randn(64, batch, width)
    place = 0

    def step() -> None:
        nonlocal place
        place = (place + 1) % 64
        encoder.step_(tokens[place], state)

    return step


def exported(encoder: ContinualEncoder) -> Timed:
    """One step of the same blocks in onnxruntime, state as inputs and outputs, between linear layers of width 1."""
    model = ContinualTransformer(replace(encoder.config, input_width=1, classes=1, final_norm=False))
    model.encoder.load_state_dict(encoder.state_dict())
    with TemporaryDirectory() as folder:
        save_checkpoint(Path(folder) / "model.safetensors", model.eval())
        step = OnnxStep(export_model(Path(folder) / "model.safetensors", Path(folder) / "step.onnx").path)
    token, state = np.ones((1, 1), np.float32), step.initial_state(1)
    for _ in range(encoder.config.window + 1):
        _, state = step(token, state)
    return lambda: step(token, state)


def library(size: Size) -> Timed:
    """One step of continual-inference with its window full."""
    import continual

    factory = continual.TransformerEncoderLayerFactory(
        d_model=size.width,
        nhead=size.heads,
        dim_feedforward=size.feed_forward,
        dropout=0.0,
        sequence_len=size.window,
    )
    encoder = continual.TransformerEncoder(factory, num_layers=size.blocks).eval()
    token = torch.randn(1, size.width)
    for _ in range(2 * size.window):
        encoder.forward_step(token)
    return lambda: encoder.forward_step(token)


def products_only(size: Size) -> Timed:
    """The matrix–vector products of one block (of all rows but the newest's, two blocks do matrix–matrix ones)."""
    d, f = size.width, size.feed_forward
    weights = [torch.randn(3 * d, d), torch.randn(d, d), torch.randn(f, d), torch.randn(d, f)]
    narrow, wide = torch.randn(d), torch.randn(f)
    inputs = [narrow, narrow, narrow, wide]
    if size.blocks == 1:
        return lambda: [torch.mv(weight, vector) for weight, vector in zip(weights, inputs, strict=True)]
    # Block 1: one projection, then n rows; block 2: keys and values of n rows, then one row.
    rows, wide_rows = torch.randn(size.window, d), torch.randn(size.window, f)
    second = [weight.clone() for weight in weights]

    def run() -> list[Tensor]:
        return [
            torch.mv(weights[0], narrow),
            rows @ weights[1].T,
            rows @ weights[2].T,
            wide_rows @ weights[3].T,
            rows @ second[0][d:].T,
            torch.mv(second[0][:d], narrow),
            torch.mv(second[1], narrow),
            torch.mv(second[2], narrow),
            torch.mv(second[3], wide),
        ]

    return run


def latencies(seconds: float) -> dict[str, dict[str, float]]:
    """Microseconds per prediction, by size."""
    table = {}
    for name, size in SIZES.items():
        reference = regular_encoder(size)
        window = torch.randn(1, size.window, size.width)
        encoder = from_torch_encoder(reference, size.window)
        measured = medians(
            {
                "cotrans_us": warm(encoder, 1),
                "cotrans_fp16_us": warm(packed_copy(encoder, "float16"), 1),
                "cotrans_int8_us": warm(packed_copy(encoder, "int8"), 1),
                "cotrans_onnx_us": exported(encoder),
                "continual_inference_us": library(size),
                "regular_us": lambda reference=reference, window=window: reference(window),
                "floor_us": products_only(size),
            },
            seconds,
        )
        table[name] = measured
    return table


def chunks(seconds: float) -> dict[str, dict[str, float]]:
    """Microseconds per token of `steps` on a chunk, against `step_` (in place) and `step` (state as a value)."""
    table = {}
    for name in ("audio-b1", "oad-b1"):
        encoder = from_torch_encoder(regular_encoder(SIZES[name]), SIZES[name].window)
        tokens = torch.randn(1, CHUNK, encoder.config.width)
        state = encoder.initial_state()
        value = encoder.steps(tokens, state)[1]
        token = tokens[:, 0]
        measured = medians(
            {
                "step_in_place_us": warm(encoder, 1),
                "step_us": lambda encoder=encoder, token=token, value=value: encoder.step(token, value),
                "steps_us": lambda encoder=encoder, tokens=tokens, state=state: encoder.steps(tokens, state),
            },
            seconds,
        )
        measured["steps_us"] /= CHUNK
        table[name] = measured
    return table


def batches(seconds: float) -> dict[str, float]:
    """Microseconds per stream and step of 64 streams in one batch, against one alone (oad-b1)."""
    encoder = from_torch_encoder(regular_encoder(SIZES["oad-b1"]), SIZES["oad-b1"].window)
    measured = medians({"alone_us": warm(encoder, 1), "batched_us": warm(encoder, STREAMS)}, seconds)
    measured["batched_us"] /= STREAMS
    return measured


def growth(seconds: float) -> dict[str, float]:
    """Microseconds per step of one block of width 192 over windows of growing length."""
    encoders = {str(n): warm(from_torch_encoder(regular_encoder(Size(n, 192, 16, 384, 1)), n), 1) for n in GROWTH}
    return medians(encoders, seconds)


def print_tables(result: dict[str, Any]) -> None:
    columns = {
        "cotrans": "cotrans_us",
        "float16": "cotrans_fp16_us",
        "onnx": "cotrans_onnx_us",
        "int8": "cotrans_int8_us",
        "library": "continual_inference_us",
        "regular": "regular_us",
        "floor": "floor_us",
    }
    print(f"{'µs per step':<11}" + "".join(f"{name:>9}" for name in columns) + "   ratios")
    for name, row in result["latency"].items():
        ours = row["cotrans_us"]
        ratios = (
            f"{row['continual_inference_us'] / ours:.1f}× the library, {row['regular_us'] / ours:.1f}× regular, "
            f"{ours / row['floor_us']:.2f} × floor; float16 {ours / row['cotrans_fp16_us']:.1f}×, "
            f"int8 {ours / row['cotrans_int8_us']:.1f}× float32"
        )
        print(f"{name:<11}" + "".join(f"{row[key]:>9.0f}" for key in columns.values()) + f"   {ratios}")
    print(f"\nsteps on {CHUNK} tokens, µs per token")
    for name, row in result["chunks"].items():
        chunk, value, in_place = row["steps_us"], row["step_us"], row["step_in_place_us"]
        ratios = f"step {value:.1f} ({value / chunk:.1f}×), in place {in_place:.1f} ({in_place / chunk:.1f}×)"
        print(f"{name:<10}{chunk:.1f}; {ratios}")
    alone, batched = result["batches"]["alone_us"], result["batches"]["batched_us"]
    print(
        f"\n{STREAMS} streams in one batch (oad-b1): {batched:.0f} µs each; alone {alone:.0f} ({alone / batched:.1f}×)"
    )
    print("\nwindow n    " + "".join(f"{n:>8}" for n in result["growth"]))
    print("µs per step " + "".join(f"{value:>8.0f}" for value in result["growth"].values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--quick", action="store_true", help="a tenth of the time, less exact")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    seconds = 2.0 if options.quick else 20.0
    with torch.inference_mode():
        result: dict[str, Any] = {
            "latency": latencies(seconds),
            "chunks": chunks(seconds / 2),
            "batches": batches(seconds / 2),
            "growth": growth(seconds / 2),
        }
    if options.json:
        flat = {**result.pop("latency"), **result, "torch": torch.__version__, "threads": 1}
        print(json.dumps(flat, indent=2))
    else:
        print_tables(result)


if __name__ == "__main__":
    main()
