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
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
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


def kill_section(folder: Path, count: int) -> Section:
    """Kills at random moments, as many for each command."""
    from tests.robustness.kills import kill_and_go_on, undisturbed, victims

    commands = victims(folder)
    section = Section("kills", note=f"{count} each: {', '.join(commands)}")
    for name, victim in commands.items():
        place = folder / name.replace(" ", "-")
        place.mkdir()
        expected, seconds = undisturbed(victim, place)
        for number in range(count):
            section.tried += 1
            if problem := kill_and_go_on(victim, place, expected, seconds, number):
                section.found.append(f"{name}: {problem}")
    return section


def step_section(_: Path, count: int) -> Section:
    """Steps through rows that join and leave."""
    from tests.robustness.long_stream import ROWS, run_steps

    return Section("steps", tried=count, found=run_steps(count), note=f"through {ROWS} rows that join and leave")


SECTIONS: dict[str, Callable[[Path, int], Section]] = {
    "fuzz": fuzz_section,
    "pickles": pickle_section,
    "costs": cost_section,
    "steps": step_section,
    "kills": kill_section,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="The long proof of reliability.")
    parser.add_argument("--fuzz", type=int, default=100_000, help="mutated files in all")
    parser.add_argument("--pickles", type=int, default=300, help="hostile pickles for each reader")
    parser.add_argument("--kills", type=int, default=100, help="kills of each command")
    parser.add_argument("--steps", type=int, default=1_000_000, help="steps of the long stream")
    parser.add_argument("--only", action="append", choices=[*SECTIONS], help="this part alone; may be repeated")
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
            section = SECTIONS[name](Path(folder), getattr(options, name, 0))
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
