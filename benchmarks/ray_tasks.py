"""What Ray itself costs for each task: many tasks that do nothing, on a cluster of two nodes on this machine.

    python benchmarks/ray_tasks.py --tasks 300

Prints processor time per task, of the process that asks and of the cluster (workers and raylets), and wall time.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from pipelines.ray_cluster import ray_cluster
from tests.robustness.ray_kills import two_nodes

TICKS = os.sysconf("SC_CLK_TCK")


def nothing(shared: Any, task: Any) -> Any:
    return task


def processor_seconds(root: int) -> dict[int, float]:
    """Of a process and everything that it has started, by process."""
    parents, seconds = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        process = int(folder.name)
        parents[process] = int(fields[1])
        seconds[process] = (int(fields[11]) + int(fields[12])) / TICKS
    family = {root}
    while more := {process for process, parent in parents.items() if parent in family} - family:
        family |= more
    return {process: seconds[process] for process in family}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=300)
    count = parser.parse_args().tasks
    with two_nodes() as address, ray_cluster(address) as cluster:
        begun = time.monotonic()
        list(cluster.map(nothing, None, range(8)))  # workers start and import
        print(f"first tasks, with the start of workers: {time.monotonic() - begun:.1f} s", flush=True)
        before, begun = processor_seconds(os.getpid()), time.monotonic()
        assert sorted(index for index, _ in cluster.map(nothing, None, range(count))) == list(range(count))
        wall, after = time.monotonic() - begun, processor_seconds(os.getpid())
    spent = {process: value - before.get(process, 0.0) for process, value in after.items()}
    asking = spent.pop(os.getpid())
    each = [1000 * value / count for value in (asking, sum(spent.values()), wall)]
    print(
        f"{count} tasks; each: asking {each[0]:.2f} ms, cluster {each[1]:.2f} ms of a processor, wall {each[2]:.2f} ms"
    )


if __name__ == "__main__":
    main()
