"""From media to labels: what a user waits for, for every built-in model, each command in a process of its own.

    python benchmarks/end_to_end.py [--json] [--only fast|start|live] [--seconds S] [--repeats R] [--sources N]
                                    [--models NAME ...] [--against CHECKOUT]

fast: `stream --fast` on a long recording with one thread: the real-time factor from open media to the last label, the
processor time of a second of media, and the peak of memory. start: from the command to its first prediction on the
demo clip, `cotrans --help`, and how soon an absent file is told. live: N recordings in real time, all processors:
latency and what was dropped, and the processor time of one stream, from which follows how many a core carries. The
tables are those of docs/capacity.md, as they stand there.

--against: the same commands in a checkout of another revision, in turn with ours, and how far their scores differ. Both
run the model files of that checkout, with this Python and its packages. The median of the repeats counts. On a machine
that does other things too, processor times say more than the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from made_video import write_video

ROOT = Path(__file__).parents[1]
DEMO = "weights/demo/demo.ogg"
RATE = 22_050  # Hz
SOUND = ("spoken-digits", "sound-events", "music-genre")
VIDEO = ("golf-swing", "objects")
VIDEO_SHARE = 10  # videos are so many times shorter than sound
FAST = ["--fast", "--threads", "1"]
MOST_LAG = 10  # rows, of any built-in model
SHORT = 1.0  # seconds of media, for what a command takes before it gets going
ENTRY = "import sys; from cotrans_cli.main import main; sys.argv[0] = 'cotrans'; sys.exit(main())"


@dataclass(frozen=True)
class Run:
    """How a command went."""

    seconds: float  # until it ended
    first_line: float | None  # seconds until it had written its first line
    processor: float  # seconds of processor time, of all its threads
    memory: float  # MB at its peak
    code: int  # that it ended with; of a killed one, the signal below 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--only", choices=("fast", "start", "live"), help="one of the three")
    parser.add_argument("--seconds", type=float, default=600.0, help="of sound; videos have a tenth of it")
    parser.add_argument("--live-seconds", type=float, default=20.0, help="of each recording in real time")
    parser.add_argument("--sources", type=int, default=64, help="recordings in real time")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--models", nargs="*", default=[*SOUND, *VIDEO], help="built-in models")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="compare with another revision's checkout")
    arguments = parser.parse_args()
    checkouts = {"cotrans": ROOT, **({"against": arguments.against.resolve()} if arguments.against else {})}
    result: dict[str, Any] = {"processors": os.cpu_count()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.only in (None, "fast"):
            result["fast"] = fast(folder, checkouts, arguments.models, arguments.seconds, arguments.repeats)
        if arguments.only in (None, "start"):
            result["start"] = start(folder, checkouts, arguments.repeats)
        if arguments.only in (None, "live"):
            models = [model for model in arguments.models if model in SOUND]
            result["live"] = live(folder, models, arguments.live_seconds, arguments.sources)
    if arguments.json:
        print(json.dumps(result, indent=2))
    else:
        _print(result)


def fast(folder: Path, checkouts: dict[str, Path], models: list[str], seconds: float, repeats: int) -> dict[str, Any]:
    """Real-time factors of `stream --fast` by model, on one thread."""
    rows: dict[str, Any] = {}
    files = checkouts.get("against", ROOT) / "weights" / "models"
    for model in models:
        length = seconds / VIDEO_SHARE if model in VIDEO else seconds
        media = write_video(folder / "video.mp4", length) if model in VIDEO else write_sound(folder / "ten.wav", length)
        file = files / f"{model}.safetensors"
        runs: dict[str, list[tuple[dict[str, Any], Run]]] = {name: [] for name in checkouts}
        loading: dict[str, list[float]] = {name: [] for name in checkouts}  # processor seconds
        for _ in range(repeats):  # in turns, so that a busy machine is busy for both
            for name, checkout in checkouts.items():
                _, short = _stream(checkout, media, file, folder / "short.jsonl", [*FAST, "--duration", f"{SHORT:g}"])
                loading[name].append(short.processor)
                runs[name].append(_stream(checkout, media, file, folder / f"{name}.jsonl", FAST))
        factors = {name: statistics.median(each["real_time_factor"] for each, _ in of) for name, of in runs.items()}
        processor = {
            name: (statistics.median(run.processor for _, run in of) - statistics.median(loading[name]))
            / (length - SHORT)
            for name, of in runs.items()
        }
        rows[model] = {
            "media_seconds": length,
            "real_time_factor": factors["cotrans"],
            "processor_ms_per_second": 1e3 * processor["cotrans"],
            "memory_mb": statistics.median(run.memory for _, run in runs["cotrans"]),
        }
        if "against" in checkouts:
            rows[model] |= {
                "against_real_time_factor": factors["against"],
                "times_faster": factors["cotrans"] / factors["against"],
                "times_less_processor": processor["against"] / processor["cotrans"],
                "largest_difference": _difference(folder / "cotrans.jsonl", folder / "against.jsonl"),
            }
    return rows


def start(folder: Path, checkouts: dict[str, Path], repeats: int) -> dict[str, Any]:
    """Seconds from a command to what it says first."""
    rows: dict[str, Any] = {}
    commands = {
        "first_prediction": ["stream", DEMO, "--fast", "--format", "jsonl", "--quiet"],
        "help": ["--help"],
        "absent_file": ["stream", str(folder / "absent.wav")],
    }
    for what, command in commands.items():
        times: dict[str, list[float]] = {name: [] for name in checkouts}
        processor: dict[str, list[float]] = {name: [] for name in checkouts}
        for _ in range(max(5, repeats)):
            for name, checkout in checkouts.items():
                run = _run(checkout, command, kill_after_first=what == "first_prediction")
                if what == "first_prediction" and run.first_line is None:
                    sys.exit(f"no prediction came in {checkout}: cotrans {' '.join(command)}")
                times[name].append(run.first_line if run.first_line is not None else run.seconds)
                processor[name].append(run.processor)
        medians = {name: statistics.median(of) for name, of in times.items()}
        spent = {name: statistics.median(of) for name, of in processor.items()}
        rows[what] = {"seconds": medians["cotrans"], "processor_seconds": spent["cotrans"]}
        if "against" in checkouts:
            rows[what] |= {
                "against_seconds": medians["against"],
                "times_faster": medians["against"] / medians["cotrans"],
                "times_less_processor": spent["against"] / spent["cotrans"],
            }
    return rows


def live(folder: Path, models: list[str], seconds: float, sources: int) -> dict[str, Any]:
    """Recordings in real time, side by side, on all processors."""
    recordings = folder / "live"
    recordings.mkdir()
    for number in range(sources):
        write_sound(recordings / f"{number:03d}.wav", seconds, seed=number)
    loading = _run(
        ROOT, ["stream", DEMO, "--fast", "--duration", "0.1", "--quiet", "--out", str(folder / "load.jsonl")]
    )
    rows: dict[str, Any] = {}
    for model in models:
        options = ["--at-once", str(sources), "--threads", "1", "--late", "drop"]
        summary, run = _stream(ROOT, recordings, model, folder / "live.jsonl", options)
        share = (run.processor - loading.processor) / (sources * seconds)  # of a processor, for one stream
        rows[model] = {
            "sources": sources,
            "hop_ms": 1e3 * summary["seconds"] / max(1, summary["frames"] + summary["dropped"]),
            "latency_p50_ms": summary["latency"]["p50_ms"],
            "latency_p95_ms": summary["latency"]["p95_ms"],
            "dropped": summary["dropped"],
            "processor_share": share,
            "cores": share * sources,
            "streams_per_core": 1 / share,
            "memory_mb": run.memory,
        }
    return rows


def _stream(
    checkout: Path, media: Path, model: str | Path, out: Path, options: list[str]
) -> tuple[dict[str, Any], Run]:
    """The summary of a stream with all scores in `out`."""
    summary = out.with_suffix(".summary.json")
    command = [
        "stream",
        str(media),
        "--model",
        str(model),
        *options,
        "--format",
        "jsonl",
        "--scores",
        "--out",
        str(out),
    ]
    summary.unlink(missing_ok=True)  # that of another model
    run = _run(checkout, [*command, "--quiet", "--summary", str(summary)])
    if run.code:
        sys.exit(f"ended with {run.code} in {checkout}: cotrans {' '.join(command)}")
    return json.loads(summary.read_text()), run


def _run(checkout: Path, arguments: list[str], kill_after_first: bool = False) -> Run:
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", ENTRY, *arguments],
        cwd=checkout,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    first = time.perf_counter() - begin if process.stdout.readline() else None
    if kill_after_first:
        process.kill()
    process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.stdout.close()
    spent = usage.ru_utime + usage.ru_stime
    code = os.waitstatus_to_exitcode(status)
    return Run(time.perf_counter() - begin, first, spent, usage.ru_maxrss / 1e3, code)


def _difference(ours: Path, theirs: Path) -> float:
    """Of the scores that both give, beside the largest of them: version 0.1 leaves the last rows of a lag open."""
    values = [
        np.array([json.loads(line)["scores"] for line in path.read_text().splitlines()]) for path in (ours, theirs)
    ]
    rows = min(map(len, values))
    assert max(map(len, values)) - rows <= MOST_LAG, "the two revisions give different numbers of rows"
    return float(np.abs(values[0][:rows] - values[1][:rows]).max() / np.abs(values[1]).max())


def write_sound(path: Path, seconds: float, seed: int = 0) -> Path:
    """Tones and noise that swell and fade, written piece by piece."""
    import soundfile

    generator = np.random.default_rng(seed)
    with soundfile.SoundFile(path, "w", RATE, 1, "PCM_16") as file:
        for begin in range(0, max(1, round(seconds)), 10):
            times = begin + np.arange(round(min(10.0, seconds - begin) * RATE)) / RATE
            tone = np.sin(2 * np.pi * (200 + 20 * np.sin(times)) * times)
            file.write((0.1 + 0.1 * np.sin(times)) * tone + 0.02 * generator.standard_normal(len(times)))
    return path


def _print(result: dict[str, Any]) -> None:
    """The tables of docs/capacity.md."""
    titles = {
        "fast": "`stream --fast`, one thread",
        "start": "From a command to its first words",
        "live": f"In real time, {result['processors']} cores",
    }
    for part, title in titles.items():
        rows = result.get(part)
        if rows:
            columns = list(next(iter(rows.values())))
            print(f"\n| {title} | " + " | ".join(column.replace("_", " ") for column in columns) + " |")
            print("| --- |" + " ---: |" * len(columns))
            for name, row in rows.items():
                print(f"| {name.replace('_', ' ')} | " + " | ".join(_figure(row[column]) for column in columns) + " |")


def _figure(value: float) -> str:
    """Three digits, and all of a whole number."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


if __name__ == "__main__":
    main()
