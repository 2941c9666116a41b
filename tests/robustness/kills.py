"""Commands that are killed at random moments: the next run ends with what an undisturbed one gives."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.robustness.small_run import started, train_arguments, write_clips
from tests.streaming.made_streams import write_model, write_rows, write_sound

Contents = dict[str, bytes]


@dataclass(frozen=True)
class Victim:
    """A command: what it is first, what it is when it goes on, and what of its output must be the same."""

    arguments: Callable[[Path], list[str]]
    again: Callable[[Path], list[str]]
    result: Callable[[Path], Contents]


def victims(folder: Path) -> dict[str, Victim]:
    """By name of the command. Each takes a folder of its own for its output."""
    media = folder / "media"
    media.mkdir()
    for number in range(6):
        write_sound(media / f"{number}.wav", 4.0)
    clips = write_clips(folder / "clips")
    model, rows = write_model(folder / "model.safetensors"), folder / "rows.npy"
    write_rows(rows, 4000)
    stream = ["stream", str(rows), "--model", str(model), "--fast", "--quiet"]

    def streamed(out: Path) -> list[str]:
        return [*stream, "--out", str(out / "o.jsonl"), "--snapshot", str(out / "state"), "--every", "0.05"]

    def stream_again(out: Path) -> list[str]:
        resume = ["--resume", str(out / "state")] if (out / "state").exists() else []
        return [*streamed(out), *resume]

    def extracted(out: Path) -> list[str]:
        return ["extract", str(media), "--features", "logmel", "--out", str(out / "features")]

    def trained(out: Path) -> list[str]:
        return [*train_arguments(clips, epochs=6), "--out", str(out / "run")]

    def train_again(out: Path) -> list[str]:
        begun = any((out / "run" / name).exists() for name in ("state.pt", "best.safetensors"))
        return ["train", "--resume", str(out / "run"), "--quiet"] if begun else trained(out)

    def converted(out: Path) -> list[str]:
        return ["convert", str(model), "--out", str(out / "converted.safetensors")]

    return {
        "extract": Victim(extracted, extracted, lambda out: _files(out / "features", "*.npy")),
        "train": Victim(trained, train_again, lambda out: {"last": _weights(out / "run" / "last.safetensors")}),
        "stream --snapshot": Victim(streamed, stream_again, lambda out: {"lines": _without_times(out / "o.jsonl")}),
        "convert": Victim(converted, converted, lambda out: {"weights": _weights(out / "converted.safetensors")}),
    }


def kill_and_go_on(victim: Victim, folder: Path, expected: Contents, longest: float, number: int) -> str | None:
    """Kill once, go on, compare; what is wrong, or None. longest: seconds after which it is killed at the latest."""
    out = folder / f"run-{number}"
    out.mkdir()
    process = started(victim.arguments(out), stdout=subprocess.DEVNULL)
    time.sleep(random.Random(number).uniform(0.0, longest))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    again = started(victim.again(out), stdout=subprocess.DEVNULL)
    _, err = again.communicate(timeout=600)
    if again.returncode:
        return f"kill {number}: the next run ended with {again.returncode}: {err.strip()[-300:]}"
    if victim.result(out) != expected:
        return f"kill {number}: the result is another one"
    if left := [path.name for path in out.rglob("*.part") if time.time() - path.stat().st_mtime > 5]:
        return f"kill {number}: left behind: {left}"
    shutil.rmtree(out)
    return None


def undisturbed(victim: Victim, folder: Path) -> tuple[Contents, float]:
    """What the command gives when nobody kills it, and the seconds that it takes."""
    out = folder / "whole"
    out.mkdir()
    begin = time.monotonic()
    process = started(victim.arguments(out), stdout=subprocess.DEVNULL)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return victim.result(out), time.monotonic() - begin


def _files(folder: Path, pattern: str) -> Contents:
    return {path.name: path.read_bytes() for path in folder.rglob(pattern)}


def _weights(path: Path) -> bytes:
    """The tensors of a checkpoint, without the times and places in its header."""
    data = path.read_bytes()
    return data[8 + int.from_bytes(data[:8], "little") :]


def _without_times(path: Path) -> bytes:
    """Predictions without the latency, which no two runs share."""
    import json

    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return json.dumps([[line["index"], line["label"], line["score"]] for line in lines]).encode()
