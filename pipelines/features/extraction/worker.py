"""One of the processes of `cotrans extract --workers N`, and of `train` and `evaluate` where they extract.

What it does with a task is in `answer`, which the workers of a Ray cluster call too.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from pipelines.features.extraction.pieces import Piece, PieceResult, extract_piece
from pipelines.features.extraction.recording import OnSeconds, Outcome, OutputError, Target, extract_recording, guarded
from pipelines.features.extraction.sources import Recording
from pipelines.features.extraction.wire import read_setup, read_task
from pipelines.features.extraction.worker_pool import serve, worker_channel
from pipelines.features.stream_factory import StreamFactory

PROGRESS_EVERY = 0.2  # seconds


@lru_cache(maxsize=1)
def _set_up(setup: str) -> tuple[Target, StreamFactory]:
    """The networks are loaded once for all tasks of a run that a process gets."""
    return read_setup(json.loads(setup))


def answer(setup: str, task: dict[str, Any], on_seconds: OnSeconds | None = None) -> tuple[str, Any]:
    """Extract a recording or a piece of one -> ("result" or "fatal", what came of it). setup: JSON."""
    target, streams = _set_up(setup)
    recording, wait, piece = read_task(task)
    try:
        if piece is None:
            return "result", asdict(extract_recording(recording, target, streams, on_seconds, wait))
        return "result", asdict(_piece(recording, target, streams, piece, on_seconds))
    except OutputError as error:
        return "fatal", str(error)


def _piece(
    recording: Recording, target: Target, streams: StreamFactory, piece: Piece, on_seconds: OnSeconds | None
) -> PieceResult:
    result = guarded(recording, lambda: extract_piece(recording, target, streams, piece, on_seconds))
    # Whatever is wrong with the recording is said when it is extracted in one go.
    return PieceResult(usable=False) if isinstance(result, Outcome) else result


def main() -> None:
    tasks, out = worker_channel()
    setup = json.dumps(next(tasks))

    def work(task: dict[str, Any], progress: Callable[[Any], None]) -> tuple[str, Any]:
        last = 0.0

        def on_seconds(done: float, total: float | None) -> None:
            nonlocal last
            if time.monotonic() - last >= PROGRESS_EVERY:
                last = time.monotonic()
                progress([done, total])

        return answer(setup, task, on_seconds)

    serve(work, tasks, out)


if __name__ == "__main__":
    main()
