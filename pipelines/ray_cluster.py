"""Tasks on the machines of a Ray cluster: spread out, tried again where a worker is lost, given back as they end."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pipelines import __version__
from pipelines.errors import InputError, UsageError
from pipelines.packages import require

TRIES_AGAIN = 3  # of a task whose worker was lost; a file that kills every worker must not do so for ever
AHEAD = 4  # tasks for each processor that are handed to Ray: a cluster that grows finds some waiting
FEWEST_AHEAD = 64
PATIENCE = 5.0  # seconds that the head of a cluster has to answer

# What all tasks share, and the task -> its result. Both are pickled, and so is the function: by its name.
Work = Callable[[Any, Any], Any]


class LostTaskError(Exception):
    """Every worker that took a task was lost."""


@contextmanager
def ray_cluster(address: str | None) -> Iterator[RayCluster]:
    """The cluster at `address` (HOST:PORT, or auto for the one of this machine).

    Without an address: the one that RAY_ADDRESS names or `ray start` has started here, or else the processors of this
    machine alone.
    """
    require("--engine ray", "ray", extra="ray")
    import ray

    if ray.is_initialized():  # by whoever called us, who also ends it
        yield RayCluster()
        return
    _require_answer(address)
    try:
        # Workers must not talk into the summary.
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        where = f"at {address}" if address else "here"
        reason = str(error).split("\n")[0]
        raise InputError(f"there is no Ray cluster {where} ({reason}): start one with `ray start --head`") from error
    try:
        yield RayCluster()
    finally:
        ray.shutdown()


def _require_answer(address: str | None) -> None:
    """Ray itself tries for minutes to reach a machine that is not there."""
    if address is None or address == "auto":
        return
    host, colon, port = address.rpartition(":")
    if "://" in address or not colon or not host or not port.isdigit():
        raise UsageError(f"--address {address}: give HOST:PORT of the cluster's head, such as 10.0.0.1:6379, or auto")
    try:
        socket.create_connection((host, int(port)), PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"nothing answers at --address {address} ({error}): start the head there with `ray start --head`"
        ) from error


class RayCluster:
    """A cluster that is connected."""

    def map(self, work: Work, shared: Any, tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Index and result of every task as they end, in any order; LostTaskError where all its workers were lost."""
        import ray
        from ray.exceptions import RayError, RayTaskError

        remote = ray.remote(num_cpus=1, max_retries=TRIES_AGAIN)(_run)
        given = ray.put((__version__, os.getcwd(), shared))  # noqa: PTH109
        waiting = iter(enumerate(tasks))
        pending: dict[Any, int] = {}
        try:
            while True:
                room = max(FEWEST_AHEAD, AHEAD * int(ray.cluster_resources().get("CPU", 1)))
                for index, task in waiting:
                    pending[remote.remote(work, given, task)] = index
                    if len(pending) >= room:
                        break
                if not pending:
                    return
                (ready, *_), _ = ray.wait(list(pending), num_returns=1)
                index = pending.pop(ready)
                try:
                    yield index, ray.get(ready)
                except RayTaskError as error:  # raised by the task itself: trying again would not help
                    raise error.cause from error
                except RayError as error:
                    yield index, LostTaskError(f"its worker was lost {TRIES_AGAIN + 1} times ({type(error).__name__})")
        finally:
            for reference in pending:
                ray.cancel(reference, force=True)


def _run(work: Work, given: tuple[str, str, Any], task: Any) -> Any:
    """On a worker."""
    version, folder, shared = given
    if version != __version__:
        raise InputError(
            f"{socket.gethostname()} has cotrans {__version__}, the machine that asks has {version}: install the same"
        )
    try:
        os.chdir(folder)  # names of files are as the user gave them
    except OSError as error:
        raise InputError(
            f"{socket.gethostname()} cannot enter {folder} ({error.strerror}): all machines must see the same folders"
        ) from error
    return work(shared, task)
