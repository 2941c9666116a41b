"""The long proof of reliability: `make soak`, or parts of it with other sizes.

    python -m tests.robustness.soak --fuzz 100000 --kills 100 --pickles 200 --steps 1000000 --json soak.json
    python -m tests.robustness.soak --only fuzz --fuzz 20000

Ends with a table and, where anything was found, exit code 1. Inputs that break a reader are kept in `seeds/`.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from pipelines.errors import CotransError

ROOT = Path(__file__).parents[2]


@dataclass
class Section:
    """One part of the proof."""

    name: str
    tried: int = 0
    seconds: float = 0.0
    found: list[str] = field(default_factory=list)
    note: str = ""


def fuzz_section(folder: Path, count: int) -> Section:
    """Mutated files in every reader, as many in all."""
    from tests.robustness.fuzzing import fuzz
    from tests.robustness.parsers import all_parsers

    parsers = all_parsers(folder)
    each = -(-count // len(parsers))
    section = Section("fuzzed inputs", note=f"{each:,} for each of {len(parsers)} readers")
    for name, parser in parsers.items():
        section.found += [str(finding) for finding in fuzz(name, parser, range(each), folder, keep=True)]
        section.tried += each
    return section


def guided_section(folder: Path, count: int) -> Section:
    """Inputs that are led by the code they reach, as many for each reader; none where atheris is not installed."""
    from tests.robustness.fuzzing import SEEDS
    from tests.robustness.guided import KINDS, SKIPPED

    section = Section("guided inputs", note=f"in the readers of {', '.join(KINDS)}")
    for kind in KINDS:
        place = folder / kind
        place.mkdir()
        command = [sys.executable, "-m", "tests.robustness.guided", kind, str(place), str(count)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        if done.returncode == SKIPPED:
            section.note = f"skipped: {done.stderr.strip()}"
            break
        section.tried += count
        if done.returncode:
            section.found.append(f"{kind}: {done.stderr[-300:]}")
        for path in place.glob("found-*"):
            (SEEDS / f"{kind}-{path.name}.bin").write_bytes(path.read_bytes())
    return section


def pickle_section(folder: Path, count: int) -> Section:
    """Hostile pickles in every reader of pickles, as many for each."""
    from tests.robustness.hostile_pickles import hostile_pickles
    from tests.robustness.test_readers import PICKLES

    section = Section("hostile pickles", note=f"in {len(PICKLES)} readers")
    canary = folder / "was-run"
    for kind, (write, read) in PICKLES.items():
        for what, program in list(hostile_pickles(canary))[:count]:
            section.tried += 1
            try:
                read(write(program, folder / "hostile.pth"))
                section.found.append(f"{kind}: {what}: was read")
            except CotransError:
                pass
            except Exception as error:
                section.found.append(f"{kind}: {what}: {type(error).__name__}: {error}")
            if canary.exists():
                section.found.append(f"{kind}: {what}: WAS RUN")
                canary.unlink()
    return section


def cost_section(folder: Path, _: int) -> Section:
    """What files below a megabyte cost at the most."""
    from tests.robustness.bombs import write_bombs
    from tests.robustness.costs import MOST_MEGABYTES, MOST_SECONDS

    section = Section("files that ask for much")
    worst = [0.0, 0.0]
    for kind, files in write_bombs(folder).items():
        command = [sys.executable, "-m", "tests.robustness.costs", kind, *map(str, files)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode or len(lines) < len(files):
            section.found.append(f"{kind}: ended with {done.returncode}: {done.stderr[-200:]}")
        for path, (_, seconds, megabytes) in zip(files, lines, strict=False):
            section.tried += 1
            worst = [max(worst[0], seconds), max(worst[1], megabytes)]
            if seconds > MOST_SECONDS or megabytes > MOST_MEGABYTES:
                section.found.append(f"{kind} {path.name}: {seconds} s, {megabytes} MB")
    section.note = f"at most {worst[0]:.1f} s of processor time and {worst[1]:.0f} MB"
    return section


def kill_section(folder: Path, count: int, chosen: Sequence[str] = ()) -> Section:
    """Kills at random moments, as many for each command: a tenth of them through the real command line."""
    from tests.robustness.kills import kill_and_go_on, undisturbed, victims
    from tests.robustness.launching import command_line, forked

    section, names = Section("kills"), []
    with victims(folder) as commands:
        for name, victim in commands.items():
            if chosen and name not in chosen:
                continue
            for launch, numbers in ((command_line, range(count // 10)), (forked, range(count // 10, count))):
                place = folder / f"{name.replace(' ', '-')}-{launch.__name__}"
                place.mkdir()
                undisturbed(victim, place, launch)  # the first run fills caches, and is longer
                expected, seconds = undisturbed(victim, place, launch)
                for number in numbers:
                    section.tried += 1
                    if problem := kill_and_go_on(victim, place, expected, seconds, number, launch):
                        section.found.append(f"{name}: {problem}")
                        print(f"    {name}: {problem}", flush=True)
                print(f"    {name}: {len(numbers)} kills within {seconds:.2f} s, {launch.__name__}", flush=True)
            names.append(name)
    section.note = f"{count} each: {', '.join(names)}"
    return section


def ray_section(_: Path, count: int) -> Section:
    """Kills of workers of a Ray cluster of two nodes that extract."""
    from tests.robustness.ray_kills import kill_workers

    section = Section("kills of Ray workers")

    def report(killed: int, runs: int) -> None:
        section.tried, section.note = killed, f"in {runs} runs on two nodes"
        print(f"    {killed} kills {section.note}", flush=True)

    try:
        kill_workers(count, 0, report)
    except AssertionError as error:
        section.found.append(str(error)[:300])
    return section


def step_section(_: Path, count: int) -> Section:
    """Steps through rows that join and leave, and a tenth as many of a model of two blocks, which take longer."""
    from tests.robustness.long_stream import CHECK_EVERY, ROWS, run_steps

    section, largest = Section("steps"), [0.0]

    def report(step: int, worst: float) -> None:
        largest[0] = max(largest[0], worst)
        if step % (20 * CHECK_EVERY) == 0:
            print(f"    step {step:,}: at most {worst:.1e} from the regular model", flush=True)

    for blocks, steps in ((1, count), (2, count // 10)):
        section.found += run_steps(steps, blocks, report=report)
        section.tried += steps
    section.note = f"through {ROWS} rows that join and leave, at most {largest[0]:.1e} from the regular model"
    return section


SECTIONS: dict[str, Callable[[Path, int], Section]] = {
    "fuzz": fuzz_section,
    "guided": guided_section,
    "pickles": pickle_section,
    "costs": cost_section,
    "steps": step_section,
    "kills": kill_section,
    "ray": ray_section,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="The long proof of reliability.")
    parser.add_argument("--fuzz", type=int, default=100_000, help="mutated files in all")
    parser.add_argument("--guided", type=int, default=20_000, help="inputs for each reader that atheris leads")
    parser.add_argument("--pickles", type=int, default=300, help="hostile pickles for each reader")
    parser.add_argument("--kills", type=int, default=100, help="kills of each command")
    parser.add_argument("--steps", type=int, default=1_000_000, help="steps of the long stream")
    parser.add_argument("--only", action="append", choices=[*SECTIONS], help="this part alone; may be repeated")
    parser.add_argument("--command", action="append", default=[], help="of the kills, this command alone; as --only")
    parser.add_argument("--json", type=Path, help="write the table there too")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    os.environ["OMP_NUM_THREADS"] = "1"
    done = []
    for name in options.only or SECTIONS:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="cotrans-soak-") as folder:
            os.environ["COTRANS_CACHE"] = f"{folder}/cache"
            os.environ["COTRANS_CONFIG"] = f"{folder}/config.toml"
            run = partial(kill_section, chosen=options.command) if name == "kills" else SECTIONS[name]
            section = run(Path(folder), getattr(options, "kills" if name == "ray" else name, 0))
        section.seconds = round(time.monotonic() - begin, 1)
        done.append(section)
        counts = f"{section.tried:>9,}  {section.seconds:>8.1f} s  {len(section.found)} found"
        print(f"{section.name:24} {counts}  {section.note}")
        for problem in section.found[:20]:
            print(f"    {problem}")
        sys.stdout.flush()
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(section) for section in done], indent=2) + "\n")
    return 1 if any(section.found for section in done) else 0


if __name__ == "__main__":
    sys.exit(main())
