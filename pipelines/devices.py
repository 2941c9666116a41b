"""The device and the threads that a command runs on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pipelines.errors import MissingDependencyError, UsageError

if TYPE_CHECKING:
    import torch

MOST_PER_CORE, LEAST_BOUND = 32, 256  # threads and processes that anybody may want
DEVICES = ("auto", "cpu", "cuda")
THREADS = "OMP_NUM_THREADS"  # the environment variable that PyTorch looks at when it is imported


def check_device(name: str) -> None:
    """Refuse a device that is not there. PyTorch is asked about a GPU only."""
    if name not in DEVICES:
        raise _unknown(name)
    if name == "cuda":
        choose_device(name)


def choose_device(name: str) -> torch.device:
    """auto, cpu or cuda as a device that is there."""
    import torch

    if name not in DEVICES:
        raise _unknown(name)
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise MissingDependencyError("--device cuda: PyTorch sees no GPU here; use --device cpu")
    return torch.device("cuda" if available and name != "cpu" else "cpu")


def _unknown(name: str) -> UsageError:
    return UsageError(f"unknown device '{name}': choose from {', '.join(DEVICES)}")


def check_side_by_side(option: str, count: int) -> None:
    """Refuse a number of threads or processes that this machine cannot mean: the system refuses them one by one."""
    most = max(LEAST_BOUND, MOST_PER_CORE * (os.cpu_count() or 1))
    if not 1 <= count <= most:
        raise UsageError(f"{option} must be from 1 to {most} on this machine, not {count}")


def use_threads(count: int | None) -> None:
    """Let PyTorch and other runtimes work with that many threads; None: as many as they like."""
    if count is None:
        return
    check_side_by_side("--threads", count)
    os.environ[THREADS] = str(count)
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(count)


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch works with one thread meanwhile: for much small work in a row, whose threads would wait for another."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def thread_count() -> int:
    """Threads that a runtime beside PyTorch may work with, without importing PyTorch; 0: as many as it likes."""
    if "torch" in sys.modules:
        import torch

        return torch.get_num_threads()
    said = os.environ.get(THREADS, "").split(",")[0]
    return int(said) if said.isdecimal() else 0


def multiplies_bfloat16(device: torch.device) -> bool:
    """Whether a device has instructions for 16-bit products; without them they are slower than 32-bit ones."""
    import torch

    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
