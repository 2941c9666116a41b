"""Recordings extracted in several processes: one pool and one wire format for `extract`, `train` and `evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pipelines.features.extraction.recording import Outcome, OutputError, Target
from pipelines.features.extraction.sources import Recording
from pipelines.features.extraction.worker_pool import FatalWorkerError, WorkerDiedError, WorkerPool
from pipelines.features.request import FeatureRequest
from pipelines.features.stream_factory import StreamFactory

WORKER_MODULE = "pipelines.features.extraction.worker"
# Index of the recording, media seconds done, media seconds in all where that is known.
OnSeconds = Callable[[int, float, float | None], None]


def extract_in_parallel(
    recordings: Sequence[Recording],
    target: Target,
    streams: StreamFactory,
    workers: int,
    wait: bool,
    on_seconds: OnSeconds | None = None,
) -> Iterator[tuple[int, Outcome]]:
    """Index and outcome of every recording, as they come; only a useless output folder raises.

    Without `wait`, a recording that another process is extracting is `busy`.
    """
    pool = WorkerPool(WORKER_MODULE, write_setup(target, streams), min(workers, len(recordings)))
    on_progress = None if on_seconds is None else lambda index, value: on_seconds(index, *value)
    try:
        for index, result in pool.map([write_task(recording, wait) for recording in recordings], on_progress):
            yield index, _outcome(recordings[index], result)
    except FatalWorkerError as error:
        raise OutputError(str(error)) from error


def write_setup(target: Target, streams: StreamFactory) -> dict[str, Any]:
    """What a worker is told once."""
    return {
        "target": {**asdict(target), "folder": str(target.folder)},
        "request": streams.request.to_dict(),
        "device": streams.device,
    }


def read_setup(setup: Mapping[str, Any]) -> tuple[Target, StreamFactory]:
    """The inverse of `write_setup`."""
    target = Target(**{**setup["target"], "folder": Path(setup["target"]["folder"])})
    return target, StreamFactory(FeatureRequest.from_dict(setup["request"]), setup["device"])


def write_task(recording: Recording, wait: bool) -> dict[str, Any]:
    """What a worker is told for each recording."""
    return {"path": str(recording.path), "name": recording.name, "wait": wait}


def read_task(task: Mapping[str, Any]) -> tuple[Recording, bool]:
    """The inverse of `write_task`."""
    return Recording(Path(task["path"]), task["name"]), task["wait"]


def _outcome(recording: Recording, result: Any) -> Outcome:
    if isinstance(result, WorkerDiedError):
        message = f"{recording.path}: the process that decoded it died ({result})"
        return Outcome(recording.name, recording.path.as_posix(), "failed", message=message)
    return Outcome(**result)
