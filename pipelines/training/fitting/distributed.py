"""Training on several processes: each takes its share of every global batch, and gradients are summed.

`torchrun` sets the environment; without it there is one process and nothing is communicated. Where it starts lost
workers again, the run goes on from its last checkpoint (`run_place.goes_on`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from pipelines.errors import InputError

T = TypeVar("T")
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Processes:
    """The processes of a run and which one this is."""

    rank: int = 0
    size: int = 1
    device: torch.device = CPU

    @property
    def main(self) -> bool:
        """Whether this process writes files and shows progress."""
        return self.rank == 0

    def share(self, count: int) -> list[int]:
        """The indices of a global batch that this process takes."""
        return list(range(self.rank, count, self.size))

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all processes."""
        if self.size == 1:
            return values
        values = values.to(self.device)
        with _together():
            torch.distributed.all_reduce(values)
        return values

    def any(self, value: bool) -> bool:
        """Whether it is true anywhere."""
        return value if self.size == 1 else bool(self.sum(torch.tensor(float(value))) > 0)

    def sum_gradients(self, model: nn.Module, values: Sequence[Tensor]) -> list[float]:
        """Sum the gradients of all processes in place and some numbers on the side, in one exchange."""
        if self.size == 1:
            return [float(value.detach()) for value in values]
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [cast(Tensor, parameter.grad) for parameter in parameters]
        side = [value.detach().to(self.device, gradients[0].dtype).reshape(1) for value in values]
        flat = torch.cat([*(gradient.flatten() for gradient in gradients), *side])
        with _together():
            torch.distributed.all_reduce(flat)
        begin = 0
        for gradient in gradients:
            gradient.copy_(flat[begin : begin + gradient.numel()].view_as(gradient))
            begin += gradient.numel()
        return [float(value) for value in flat[begin:]]

    def gather(self, value: T) -> list[T]:
        """The value of every process, in order of rank."""
        if self.size == 1:
            return [value]
        gathered: list[T | None] = [None] * self.size
        with _together():
            torch.distributed.all_gather_object(gathered, value)
        return cast("list[T]", gathered)

    def wait(self) -> None:
        """Until every process is here."""
        if self.size > 1:
            with _together():
                torch.distributed.barrier()


@contextmanager
def _together() -> Iterator[None]:
    """One line where another process is gone."""
    try:
        yield
    except RuntimeError as error:
        raise InputError(
            "another process of this run is gone: `torchrun --max-restarts N` starts all of them again, and they go on "
            "from the last checkpoint"
        ) from error


def launched_by_torchrun() -> bool:
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_main_process() -> bool:
    """Whether this process writes and shows what all processes do together."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def processes(device: torch.device) -> Iterator[Processes]:
    """The processes that `torchrun` started (gloo on CPU, nccl on GPU), or this one alone.

    Within itself it gives the same group again: one cannot be left and joined anew while others still leave it.
    """
    if not launched_by_torchrun():
        yield Processes(device=device)
        return
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    if torch.distributed.is_initialized():
        yield Processes(torch.distributed.get_rank(), torch.distributed.get_world_size(), device)
        return
    _join("nccl" if device.type == "cuda" else "gloo")
    try:
        yield Processes(torch.distributed.get_rank(), torch.distributed.get_world_size(), device)
        # Nobody leaves while another still talks to it: gloo's threads abort a process that does.
        torch.distributed.barrier()
    finally:
        torch.distributed.destroy_process_group()


def _join(backend: str) -> None:
    """Meet the other processes."""
    from pipelines.training.fitting.meeting import Meeting, agents_store

    store = agents_store()
    if store is None:
        torch.distributed.init_process_group(backend)
        return
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    with Meeting(store, rank) as place:
        torch.distributed.init_process_group(backend, store=place, rank=rank, world_size=size)
