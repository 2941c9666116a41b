"""Giving mutated files to the readers: each is read, or refused by an error of the family."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import CotransError
from tests.robustness.mutation import mutated
from tests.robustness.parsers import Parser

SEEDS = Path(__file__).parent / "seeds"  # inputs that once broke something: PARSER-NUMBER.bin


@dataclass(frozen=True)
class Finding:
    """An input that was answered with something else."""

    parser: str
    number: int
    error: str


def try_input(name: str, parser: Parser, data: bytes, folder: Path, number: int = -1) -> Finding | None:
    """Read one input; None: it was read or refused."""
    path = folder / f"input{parser.suffix}"
    path.write_bytes(data)
    try:
        parser.read(path)
    except CotransError as error:
        if "\n" in str(error):
            return Finding(name, number, f"a message of several lines: {error}")
    except Exception as error:
        return Finding(name, number, f"{type(error).__name__}: {error}"[:200])
    finally:
        shutil.rmtree(path.with_suffix(".out"), ignore_errors=True)
    return None


def fuzz(name: str, parser: Parser, numbers: Iterable[int], folder: Path, keep: bool = False) -> list[Finding]:
    """Read the inputs of these numbers. keep: those that break something are kept as seeds."""
    findings = []
    for number in numbers:
        data = mutated(parser.seeds, number)
        finding = try_input(name, parser, data, folder, number)
        if finding is not None:
            findings.append(finding)
            if keep:
                SEEDS.mkdir(exist_ok=True)
                (SEEDS / f"{name.replace(' ', '_')}-{number}.bin").write_bytes(data)
    return findings


def kept_seeds(name: str) -> list[Path]:
    """Inputs of a reader that once broke something."""
    return sorted(SEEDS.glob(f"{name.replace(' ', '_')}-*.bin"))
