"""Commands in processes of their own: through the real command line, or forked from one that has imported everything.

A fork costs milliseconds where a start costs seconds of importing, so that a hundred kills meet the work of a command
and not its imports.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Protocol

REGISTRY = "COTRANS_TEST_REGISTRY"  # a registry of weights instead of the one that ships, for the commands below
# What the commands import on their way; torch's parts are those that training loads late.
IMPORTS = (
    *("tests.robustness.launching", "cotrans_cli.main", "torch", "torch._dynamo", "av", "soundfile"),
    *("safetensors.torch", "pipelines.training.run", "pipelines.training.seeds", "pipelines.training.curves"),
    *("pipelines.streaming.run", "pipelines.streaming.several_models", "pipelines.datasets.own.folder"),
    *("pipelines.streaming.predicting.torch_engine", "pipelines.checkpoints.conversion", "pipelines.checkpoints.proof"),
    *("pipelines.features.extraction.run", "pipelines.features.weights.store", "pipelines.features.audio.logmel"),
    *("cotrans_cli.display.live_view", "matplotlib.backends.backend_agg", "matplotlib.figure", "urllib.request"),
    *("rich.progress", "pydantic"),
)


class Running(Protocol):
    """A command that was started."""

    def kill(self) -> None: ...

    def wait(self) -> int:
        """Its exit code, when it has ended."""
        ...


@dataclass
class _Forked:
    process: BaseProcess

    def kill(self) -> None:
        self.process.kill()

    def wait(self) -> int:
        self.process.join()
        assert self.process.exitcode is not None
        return self.process.exitcode


# arguments, variables of its environment, a file for what it says on standard error
Launch = Callable[[list[str], Mapping[str, str], Path], Running]


def command_line(arguments: list[str], variables: Mapping[str, str], errors: Path) -> Running:
    """`cotrans` as a user starts it."""
    module = "tests.robustness.launching" if REGISTRY in variables else "cotrans_cli"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    with errors.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments], env=environment, stdout=subprocess.DEVNULL, stderr=file
        )


def forked(arguments: list[str], variables: Mapping[str, str], errors: Path) -> Running:
    """The same code from a process that has imported all of it."""
    context = _fork_server()
    process = context.Process(target=_run, args=(arguments, dict(variables), str(errors)))
    process.start()
    return _Forked(process)


@functools.cache
def _fork_server() -> multiprocessing.context.ForkServerContext:
    os.environ["OMP_NUM_THREADS"] = "1"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*IMPORTS])
    return context


def _run(arguments: list[str], variables: dict[str, str], errors: str) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    said = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number, target in ((0, nowhere), (1, nowhere), (2, said)):
        os.dup2(target, number)
    os.environ.update(variables)
    sys.argv = ["cotrans", *arguments]
    main()


def main() -> None:
    """`cotrans`, whose weights are those of `REGISTRY` where that is set."""
    from cotrans_cli.entry import main
    from pipelines.features.weights import store
    from pipelines.features.weights.registry import read_registry

    if registry := os.environ.get(REGISTRY):
        store.known_weights = functools.partial(read_registry, Path(registry))  # type: ignore[assignment]
    main()


if __name__ == "__main__":
    main()
