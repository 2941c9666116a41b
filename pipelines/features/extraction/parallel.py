"""Recordings extracted by several workers: one way for `extract`, `train` and `evaluate`, whoever the workers are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.features.extraction.engines import Engine
from pipelines.features.extraction.pieces import PIECE_SECONDS, Piece, PieceResult, join_pieces, plan_pieces
from pipelines.features.extraction.recording import Outcome, OutputError, Target
from pipelines.features.extraction.sources import Recording
from pipelines.features.extraction.wire import write_setup, write_task
from pipelines.features.extraction.worker_pool import FatalWorkerError, WorkerDiedError
from pipelines.features.stream_factory import StreamFactory

# Index of the recording, media seconds done, media seconds in all where that is known.
OnSeconds = Callable[[int, float, float | None], None]


@dataclass(frozen=True)
class _Job:
    """What one worker does at a time."""

    index: int  # of the recording
    piece: Piece | None = None  # None: all of it


def _jobs(index: int, pieces: Sequence[Piece]) -> list[_Job]:
    return [_Job(index, piece) for piece in pieces] or [_Job(index)]


def extract_in_parallel(
    recordings: Sequence[Recording],
    target: Target,
    streams: StreamFactory,
    engine: Engine,
    wait: bool,
    on_seconds: OnSeconds | None = None,
    piece_seconds: float = PIECE_SECONDS,
) -> Iterator[tuple[int, Outcome]]:
    """Index and outcome of every recording, as they come; only a useless output folder raises.

    Without `wait`, a recording that another process is extracting is `busy`. Recordings of two times `piece_seconds`
    and more are divided among the workers.
    """
    pieces = {index: plan_pieces(recording, streams, piece_seconds) for index, recording in enumerate(recordings)}
    jobs = [job for index, planned in pieces.items() for job in _jobs(index, planned)]
    meter = _PieceMeter(on_seconds)
    results: dict[int, dict[Piece, PieceResult]] = {index: {} for index, planned in pieces.items() if planned}
    undivided: list[_Job] = []
    setup = write_setup(target, streams)

    def run(jobs: Sequence[_Job]) -> Iterator[tuple[_Job, Any]]:
        tasks = [write_task(recordings[job.index], wait, job.piece) for job in jobs]
        for place, result in engine.map(setup, tasks, lambda place, value: meter.move(jobs[place], *value)):
            yield jobs[place], result

    try:
        for job, result in run(jobs):
            if job.piece is None:
                yield job.index, _outcome(recordings[job.index], result)
                continue
            usable = PieceResult(usable=False) if isinstance(result, WorkerDiedError) else PieceResult(**result)
            meter.move(job, usable.seconds, usable.duration)
            parts = results[job.index]
            parts[job.piece] = usable
            if len(parts) < len(pieces[job.index]):
                continue
            planned = pieces[job.index]
            recording = recordings[job.index]
            outcome = join_pieces(recording, target, streams, planned, [parts[piece] for piece in planned], wait)
            if outcome is None:
                undivided.append(_Job(job.index))
            else:
                yield job.index, outcome
        for job, result in run(undivided) if undivided else ():
            yield job.index, _outcome(recordings[job.index], result)
    except FatalWorkerError as error:
        raise OutputError(str(error)) from error


class _PieceMeter:
    """Adds up what the pieces of a recording report."""

    def __init__(self, on_seconds: OnSeconds | None) -> None:
        self._on_seconds = on_seconds
        self._done: dict[int, dict[Piece | None, float]] = {}

    def move(self, job: _Job, done: float, total: float | None) -> None:
        if self._on_seconds is not None:
            pieces = self._done.setdefault(job.index, {})
            pieces[job.piece] = done
            self._on_seconds(job.index, sum(pieces.values()), total)


def _outcome(recording: Recording, result: Any) -> Outcome:
    if isinstance(result, WorkerDiedError):
        message = f"{recording.path}: the process that decoded it died ({result})"
        return Outcome(recording.name, recording.path.as_posix(), "failed", message=message)
    return Outcome(**result)
