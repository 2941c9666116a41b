"""What a worker of a Ray cluster does in tests of evaluation: the real work, slowly, after a note of it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from pipelines.evaluation.sharing.cluster_runs import Setup, Task, answer
from pipelines.running.runner import Run

LOG = "begun.txt"  # beside the model: a line for every task that was begun, and the process that did


def counted(setup: Setup, task: Task) -> Run:
    with (setup.path.parent / LOG).open("a") as log:
        log.write(f"{os.getpid()} {task.mode} {','.join(item.name for item in task.items)}\n")
    time.sleep(0.3)
    return answer(setup, task)


def begun(folder: Path) -> list[tuple[int, str]]:
    """Process and task of every line so far."""
    path = folder / LOG
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(process), what) for process, what in (line.split(" ", 1) for line in lines)]
