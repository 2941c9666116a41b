"""One of the processes of `cotrans extract --workers N`, and of `train` and `evaluate` where they extract."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from pipelines.features.extraction.parallel import read_setup, read_task
from pipelines.features.extraction.recording import OutputError, extract_recording
from pipelines.features.extraction.worker_pool import serve, worker_channel

PROGRESS_EVERY = 0.2  # seconds


def main() -> None:
    tasks, out = worker_channel()
    target, streams = read_setup(next(tasks))

    def work(task: dict[str, Any], progress: Callable[[Any], None]) -> tuple[str, Any]:
        last = 0.0

        def on_seconds(done: float, total: float | None) -> None:
            nonlocal last
            if time.monotonic() - last >= PROGRESS_EVERY:
                last = time.monotonic()
                progress([done, total])

        recording, wait = read_task(task)
        try:
            outcome = extract_recording(recording, target, streams, on_seconds, wait)
        except OutputError as error:
            return "fatal", str(error)
        return "result", asdict(outcome)

    serve(work, tasks, out)


if __name__ == "__main__":
    main()
