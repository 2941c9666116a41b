"""Kill workers of a Ray cluster while they extract: nothing is lost, and nothing that was finished is done again.

`python tests/robustness/ray_kills.py --kills 100 --seed 0` kills a hundred, at random moments, in as many runs as that
takes, and prints a line of JSON after each; `tests/features/test_extraction_ray.py` kills one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from pipelines.features.extraction.run import ExtractionOptions, extract
from pipelines.features.request import FeatureRequest
from tests.features.made_recordings import write_sound

OPTIONS = ExtractionOptions(FeatureRequest("musicnn"))
MEMORY = 80_000_000  # bytes that the objects of a node may take: ours are small
STARTS = 3
os.environ.setdefault("RAY_raylet_start_wait_time_s", "300")  # a node may take long to come up beside other work
EVERY = 0.01  # seconds between two looks at who is at work


@dataclass
class Killer:
    """Kills workers that hold the lock of a recording, up to `most`; notes what was finished by then."""

    out: Path
    most: int
    generator: random.Random

    def __post_init__(self) -> None:
        self.killed: list[str] = []
        self.finished: dict[Path, int] = {}  # the manifests that were there at the last kill, and their inodes
        self._over = threading.Event()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _run(self) -> None:
        while len(self.killed) < self.most and not self._over.wait(EVERY):
            holders = lock_holders(self.out)
            if not holders:
                continue
            time.sleep(self.generator.uniform(0.0, 0.1))
            finished = {path: path.stat().st_ino for path in self.out.rglob("*.json")}
            path, process = self.generator.choice(sorted(holders.items()))
            # It may have gone on with another recording; whose it is does not matter, but that it is at one does.
            if process in lock_holders(self.out).values() and process != os.getpid():
                os.kill(process, signal.SIGKILL)
                self.killed.append(path.name)
                self.finished = finished


def lock_holders(folder: Path) -> dict[Path, int]:
    """The processes of this machine that hold the lock of a recording."""
    owners = {}
    for line in Path("/proc/locks").read_text().splitlines():
        words = line.split()
        if words[1] == "FLOCK":
            owners[int(words[5].split(":")[2])] = int(words[4])
    holders = {}
    for path in folder.rglob(".*.lock"):
        try:
            owner = owners.get(path.stat().st_ino)
        except OSError:
            continue  # it is over already
        if owner is not None and owner > 0:
            holders[path] = owner
    return holders


def tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def extract_with_kills(
    sources: Path,
    out: Path,
    whole: dict[str, bytes],
    address: str,
    kills: int,
    generator: random.Random,
    options: ExtractionOptions = OPTIONS,
) -> list[str]:
    """One run in which workers are killed; `whole`: what a run without any left. The locks under which they died."""
    killer = Killer(out, kills, generator)
    with killer.at_work():
        options = replace(options, engine="ray", address=address)
        summary = extract([str(sources)], out, options)
    assert summary.ok, summary.problems
    assert {outcome.status for outcome in summary.outcomes} == {"done"}
    assert tree(out) == whole, "the files are not those of an undisturbed run"
    again = [str(path) for path, inode in killer.finished.items() if path.stat().st_ino != inode]
    assert not again, f"finished recordings were extracted again: {again}"
    return killer.killed


@contextmanager
def two_nodes() -> Iterator[str]:
    """The address of a cluster of two nodes with one processor each, on this machine."""
    cluster = _started()
    try:
        cluster.add_node(num_cpus=1, object_store_memory=MEMORY)
        yield str(cluster.address)
    finally:
        cluster.shutdown()


def _started() -> Any:
    """A cluster with its head. Ray gives it 30 s to come up, which a busy machine may not have."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "object_store_memory": MEMORY, "include_dashboard": False}
    for _ in range(STARTS - 1):
        try:
            return Cluster(initialize_head=True, head_node_args=head)
        except Exception as error:  # Ray raises just that
            print(f"Ray did not start, once more ({error})", file=sys.stderr)  # noqa: T201
    return Cluster(initialize_head=True, head_node_args=head)


def kill_workers(kills: int, seed: int, report: Callable[[int, int], None]) -> None:
    """So many kills, in as many runs as that takes. report: is told the kills and runs so far."""
    generator = random.Random(seed)
    killed, runs = 0, 0
    # Without PyTorch, which a new worker would have to import first.
    options = ExtractionOptions(FeatureRequest("logmel"))
    with tempfile.TemporaryDirectory() as name, two_nodes() as address:
        sources = Path(name) / "in"
        for number in range(8):
            write_sound(sources / f"{number}.wav", 60.0, seed=number)
        extract([str(sources)], Path(name) / "whole", options)
        whole = tree(Path(name) / "whole")
        while killed < kills:
            most, out = min(generator.randint(2, 4), kills - killed), Path(name) / f"{runs}"
            killed += len(extract_with_kills(sources, out, whole, address, most, generator, options))
            shutil.rmtree(out)
            runs += 1
            report(killed, runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    began = time.monotonic()

    def report(killed: int, runs: int) -> None:
        seconds = round(time.monotonic() - began, 1)
        line = {"kills": killed, "runs": runs, "lost": 0, "done_again": 0, "seconds": seconds}
        print(json.dumps(line), flush=True)  # noqa: T201

    kill_workers(arguments.kills, arguments.seed, report)


if __name__ == "__main__":
    main()
