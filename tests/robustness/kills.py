"""Commands that are killed at random moments: the next run ends with what an undisturbed one gives."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.file_server import file_server
from tests.robustness.launching import REGISTRY, Launch, command_line
from tests.robustness.small_run import train_arguments, write_clips
from tests.streaming.made_streams import write_model, write_rows, write_sound

Contents = dict[str, bytes]
WEIGHTS = 6 << 20  # bytes of the file that is fetched: several blocks of what a download reads at a time
PAUSE = 0.05  # seconds between two pieces of it


@dataclass(frozen=True)
class Victim:
    """A command: what it is first, what it is when it goes on, and what of its output must be the same."""

    arguments: Callable[[Path], list[str]]
    again: Callable[[Path], list[str]]
    result: Callable[[Path], Contents]
    at_once: bool = False  # whether files appear under their names only when they are whole and final
    variables: Callable[[Path], Mapping[str, str]] = lambda out: {}


@contextmanager
def victims(folder: Path) -> Iterator[dict[str, Victim]]:
    """By name of the command. Each takes a folder of its own for its output."""
    media = folder / "media"
    media.mkdir()
    for number in range(6):
        write_sound(media / f"{number}.wav", 4.0)
    clips = write_clips(folder / "clips")
    model, rows = write_model(folder / "model.safetensors"), folder / "rows.npy"
    write_rows(rows, 300)
    stream = ["stream", str(rows), "--model", str(model), "--fast", "--quiet"]
    content = random.Random(0).randbytes(WEIGHTS)

    def streamed(out: Path) -> list[str]:
        return [*stream, "--out", str(out / "o.jsonl"), "--snapshot", str(out / "state"), "--every", "0.05"]

    def stream_again(out: Path) -> list[str]:
        resume = ["--resume", str(out / "state")] if (out / "state").exists() else []
        return [*streamed(out), *resume]

    def extracted(out: Path) -> list[str]:
        return ["extract", str(media), "--features", "logmel", "--out", str(out / "features")]

    def trained(out: Path) -> list[str]:
        return [*train_arguments(clips, epochs=3), "--no-baseline", "--out", str(out / "run")]

    def train_again(out: Path) -> list[str]:
        begun = any((out / "run" / name).exists() for name in ("state.pt", "best.safetensors"))
        return ["train", "--resume", str(out / "run"), "--quiet"] if begun else trained(out)

    def converted(out: Path) -> list[str]:
        return ["convert", str(model), "--out", str(out / "converted.safetensors")]

    def convert_again(out: Path) -> list[str]:
        # It refuses to overwrite what it had finished when it was killed.
        return [*converted(out), *(["--force"] if (out / "converted.safetensors").exists() else [])]

    def fetched(_: Path) -> list[str]:
        return ["weights", "get", "noise"]

    with file_server(content, "noise.pth") as server:
        server.behaviour.pause = PAUSE
        registry = folder / "registry.toml"
        registry.write_text(
            f'[noise]\nfile = "noise.pth"\nlicence = "MIT"\ntrained_on = "noise"\nurl = "{server.url}"\n'
            f'sha256 = "{hashlib.sha256(content).hexdigest()}"\nsize = {len(content)}\n'
        )

        def own_cache(out: Path) -> Mapping[str, str]:
            return {"COTRANS_CACHE": str(out / "cache"), REGISTRY: str(registry)}

        yield {
            "extract": Victim(extracted, extracted, lambda out: _files(out / "features", "*.npy"), at_once=True),
            "train": Victim(trained, train_again, lambda out: _weights(out / "run" / "last.safetensors")),
            "stream --snapshot": Victim(streamed, stream_again, lambda out: _without_times(out / "o.jsonl")),
            "convert": Victim(converted, convert_again, lambda out: _weights(out / "converted.safetensors"), True),
            "weights get": Victim(fetched, fetched, lambda out: _files(out / "cache", "*.pth"), True, own_cache),
        }


def kill_and_go_on(
    victim: Victim, folder: Path, expected: Contents, longest: float, number: int, launch: Launch = command_line
) -> str | None:
    """Kill once, go on, compare; what is wrong, or None. longest: seconds after which it is killed at the latest."""
    out = folder / f"run-{number}"
    out.mkdir()
    errors = folder / f"run-{number}.txt"
    process = launch(victim.arguments(out), victim.variables(out), errors)
    time.sleep(random.Random(number).uniform(0.0, longest))
    process.kill()
    process.wait()
    if victim.at_once and not victim.result(out).items() <= expected.items():
        return f"kill {number}: a file stands under its name and is not what it should be"
    _made_older(out)
    code = launch(victim.again(out), victim.variables(out), errors).wait()
    if code:
        return f"kill {number}: the next run ended with {code}: {errors.read_text().strip()[-300:]}"
    if victim.result(out) != expected:
        return f"kill {number}: the result is another one"
    if left := [path.name for path in out.rglob("*.part")]:
        return f"kill {number}: left behind: {left}"
    shutil.rmtree(out)
    errors.unlink()
    return None


def undisturbed(victim: Victim, folder: Path, launch: Launch = command_line) -> tuple[Contents, float]:
    """What the command gives when nobody kills it, and the seconds that it takes."""
    out = folder / "whole"
    out.mkdir(exist_ok=True)
    begin = time.monotonic()
    code = launch(victim.arguments(out), victim.variables(out), folder / "whole.txt").wait()
    seconds = time.monotonic() - begin
    assert code == 0, (folder / "whole.txt").read_text()
    result = victim.result(out)
    shutil.rmtree(out)
    return result, seconds


def _made_older(folder: Path) -> None:
    """Half files as they are a minute later: younger ones may be of a run that has just begun, and stay."""
    earlier = time.time() - 60
    for path in folder.rglob("*.part"):
        os.utime(path, (earlier, earlier))


def _files(folder: Path, pattern: str) -> Contents:
    return {path.name: path.read_bytes() for path in folder.rglob(pattern) if path.is_file()}


def _weights(path: Path) -> Contents:
    """The tensors of a checkpoint, without the times and places in its header; none where there is none."""
    if not path.exists():
        return {}
    data = path.read_bytes()
    return {path.name: data[8 + int.from_bytes(data[:8], "little") :]}


def _without_times(path: Path) -> Contents:
    """Predictions without the latency, which no two runs share."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {path.name: json.dumps([[line["index"], line["label"], line["score"]] for line in lines]).encode()}
