"""Who does the work of many recordings: processes of this machine, or a Ray cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pipelines.errors import UsageError
from pipelines.features.extraction.worker import answer
from pipelines.features.extraction.worker_pool import FatalWorkerError, OnProgress, WorkerDiedError, WorkerPool
from pipelines.ray_cluster import LostTaskError, RayCluster, ray_cluster

EngineName = Literal["local", "ray"]
ENGINES: tuple[EngineName, ...] = ("local", "ray")
WORKER_MODULE = "pipelines.features.extraction.worker"


def check_engine(name: str, address: str | None) -> None:
    """Refuse an engine that there is not, and an address without a cluster."""
    if name not in ENGINES:
        raise UsageError(f"unknown engine '{name}': choose from {', '.join(ENGINES)}")
    if name != "ray" and address is not None:
        raise UsageError("--address is that of a Ray cluster: add --engine ray")


class Engine(Protocol):
    """Runs tasks."""

    def map(self, setup: Any, tasks: Sequence[Any], on_progress: OnProgress | None = None) -> Iterator[tuple[int, Any]]:
        """(index, result) as tasks end, in any order; a result is a WorkerDiedError where all its workers were lost.

        FatalWorkerError: no task can succeed any more.
        """


@dataclass(frozen=True)
class LocalEngine:
    """Processes of this machine. A task whose worker dies is not tried again: here, the file itself killed it."""

    workers: int

    def map(self, setup: Any, tasks: Sequence[Any], on_progress: OnProgress | None = None) -> Iterator[tuple[int, Any]]:
        return WorkerPool(WORKER_MODULE, setup, self.workers).map(list(tasks), on_progress)


@dataclass(frozen=True)
class RayEngine:
    """Workers of a cluster. One may be lost for reasons of its own, so its task is tried again elsewhere."""

    cluster: RayCluster

    def map(self, setup: Any, tasks: Sequence[Any], on_progress: OnProgress | None = None) -> Iterator[tuple[int, Any]]:
        for index, said in self.cluster.map(answer, json.dumps(setup), tasks):
            if isinstance(said, LostTaskError):
                yield index, WorkerDiedError(str(said))
                continue
            kind, value = said
            if kind == "fatal":
                raise FatalWorkerError(value)
            yield index, value


@contextmanager
def open_engine(name: EngineName, workers: int, address: str | None) -> Iterator[Engine]:
    """The engine for as long as it is needed."""
    if name == "local":
        yield LocalEngine(workers)
        return
    with ray_cluster(address) as cluster:
        yield RayEngine(cluster)
