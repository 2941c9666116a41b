"""Run a model over recordings: step by step, in chunks, or as the regular model on windows. The same numbers.

Recordings are anything of shape (rows, width) that can be sliced: arrays, or memory-mapped feature files. They are
opened when their turn comes, so a dataset may be larger than memory. A recording that cannot be read or holds NaN is
reported by name and left out; the others are not touched by it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from pipelines.errors import ConfigurationError, InputError, NonFiniteInputError
from pipelines.model.continual_model import ContinualModel
from pipelines.running.passes import Outputs, chunk_pass, late_pass, side_by_side, stream_pass, window_pass
from pipelines.shard import WHOLE, Shard

# stream: one step after the other. chunk: many steps at once. window: the regular model on the last n tokens.
Mode = Literal["stream", "chunk", "window"]
MODES: tuple[Mode, ...] = ("stream", "chunk", "window")

# Recordings side by side. Beyond 64 a step costs as much per recording as before; the regular model has full batches
# out of one recording, and fewer of them tell more often how far it is.
_BATCH: dict[Mode, int] = {"stream": 1, "chunk": 64, "window": 8}


class RowSource(Protocol):
    """Features (rows, width) that may stay on disk until some of their rows are asked for. An array is one."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, rows: slice, /) -> NDArray[Any]: ...


@dataclass(frozen=True)
class Recording:
    """A name and a way to its features."""

    name: str
    open: Callable[[], RowSource]

    @classmethod
    def of(cls, name: str, rows: RowSource) -> Recording:
        """A recording whose features are at hand."""
        return cls(name, lambda: rows)


@dataclass(frozen=True)
class Damage:
    """A recording that was left out, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """Which recordings run side by side, whoever runs them: other neighbours would change the last bits."""

    groups: tuple[tuple[Recording, ...], ...]
    lengths: dict[str, int]  # rows, by name of the recording
    damaged: tuple[Damage, ...]  # those that cannot be opened, or have no rows


@dataclass(frozen=True)
class Run:
    """What a mode gave and how long it took."""

    mode: Mode
    outputs: dict[str, Outputs]  # by name of the recording, in the order given; damaged ones are not there
    damaged: tuple[Damage, ...]
    frames: int
    seconds: float  # in the model; reading files is not in it
    step_seconds: NDArray[np.float64] | None  # (frames,) of each step, stream mode only


@dataclass(frozen=True)
class Speed:
    """What a run says about time."""

    frames_per_second: float
    step_us_median: float | None = None  # microseconds, stream mode only
    step_us_p95: float | None = None
    real_time_factor: float | None = None  # how many times faster than the recording plays


def run_model(
    model: ContinualModel,
    recordings: Sequence[Recording],
    mode: Mode,
    workers: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
    shard: Shard = WHOLE,
) -> Run:
    """Outputs of `model` for every row of every recording.

    workers: threads that read ahead; 0: read in between. on_progress: called with rows done and rows in all. shard: the
    share that is run; recordings that one run puts side by side stay together, so all shares give its very numbers.
    Stream mode takes one recording at a time, as a live stream would come; the others put recordings of similar
    length side by side.
    """
    plan = plan_groups(recordings, mode, model.config.input_width)
    groups = shard.of(plan.groups)
    run = run_groups(model, groups, mode, workers, row_counter(plan, groups, on_progress))
    ordered = {item.name: run.outputs[item.name] for item in recordings if item.name in run.outputs}
    run = replace(run, outputs=ordered, damaged=(*plan.damaged, *run.damaged))
    if shard == WHOLE:  # a share may be empty
        require_outputs(run)
    return run


def plan_groups(recordings: Sequence[Recording], mode: Mode, width: int) -> Plan:
    """How a mode divides recordings of features (rows, width)."""
    if mode not in MODES:
        raise ConfigurationError(f"unknown mode '{mode}': choose from {', '.join(MODES)}")
    if not recordings:
        raise InputError("there is no recording to run the model on")
    lengths, damaged = _lengths(recordings, width)
    by_name = {recording.name: recording for recording in recordings}
    groups = side_by_side(lengths, _BATCH[mode], width)
    return Plan(tuple(tuple(by_name[name] for name in group) for group in groups), lengths, tuple(damaged))


def row_counter(
    plan: Plan, groups: Sequence[Sequence[Recording]], on_progress: Callable[[int, int], None] | None
) -> Callable[[Sequence[Recording]], None]:
    """What to call with each group that is done: tells `on_progress` the rows so far, and those of all `groups`."""
    total = sum(plan.lengths[item.name] for group in groups for item in group)
    done = 0

    def count(group: Sequence[Recording]) -> None:
        nonlocal done
        done += sum(plan.lengths[item.name] for item in group)
        if on_progress is not None:
            on_progress(done, total)

    return count


def run_groups(
    model: ContinualModel,
    groups: Sequence[Sequence[Recording]],
    mode: Mode,
    workers: int = 0,
    on_group: Callable[[Sequence[Recording]], None] | None = None,
) -> Run:
    """Outputs of `model` for some groups of a plan, in their order."""
    outputs: dict[str, Outputs] = {}
    damaged: list[Damage] = []
    steps: list[float] = []
    seconds = 0.0
    model.eval()
    with torch.inference_mode():
        for group, loaded in _loaded(iter(groups), workers):
            members = [(item, rows) for item, rows in zip(group, loaded, strict=True) if not isinstance(rows, Damage)]
            damaged += [rows for rows in loaded if isinstance(rows, Damage)]
            while members:
                tokens = [torch.from_numpy(rows).to(model.device, model.dtype) for _, rows in members]
                begin = time.perf_counter()
                try:
                    results = _run_batch(model, tokens, mode, steps)
                except NonFiniteInputError as error:
                    for row in error.rows:
                        damaged.append(Damage(members[row][0].name, "its features hold NaN or infinity"))
                    members = [member for row, member in enumerate(members) if row not in error.rows]
                    continue
                seconds += time.perf_counter() - begin
                for (item, _), output in zip(members, results, strict=True):
                    if np.isfinite(output.logits).all():
                        outputs[item.name] = output
                    else:
                        damaged.append(Damage(item.name, "its features hold numbers too large for the model"))
                break
            if on_group is not None:
                on_group(group)
    frames = sum(len(output.logits) for output in outputs.values())
    timed = np.array(steps) if mode == "stream" else None
    return Run(mode, outputs, tuple(damaged), frames, seconds, timed)


def require_outputs(run: Run) -> None:
    """Refuse a run in which no recording could be used."""
    if not run.outputs:
        first = run.damaged[0]
        raise InputError(f"no recording could be used; the first, {first.name}: {first.reason}")


def join_runs(runs: Sequence[Run], names: Sequence[str]) -> Run:
    """The run that several shares of it make up; names: of all recordings, in their order."""
    outputs = {name: output for run in runs for name, output in run.outputs.items()}
    # What cannot be opened is seen by every share.
    damaged = {damage.name: damage for run in runs for damage in run.damaged}
    if len(outputs) < sum(len(run.outputs) for run in runs):
        raise InputError("the same recording is in several shares of a run: give each share once")
    if left := [name for name in names if name not in outputs and name not in damaged]:
        raise InputError(f"no share of the run has {left[0]}: give the shares of one and the same run")
    steps = [run.step_seconds for run in runs if run.step_seconds is not None]
    return Run(
        mode=runs[0].mode,
        outputs={name: outputs[name] for name in names if name in outputs},
        damaged=tuple(damaged.values()),
        frames=sum(run.frames for run in runs),
        seconds=sum(run.seconds for run in runs),
        step_seconds=np.concatenate(steps) if steps else None,
    )


def speed_of(run: Run, hop: float | None = None) -> Speed:
    """Frames per second and, for a stream, the time of a step. hop: seconds between rows of the recordings."""
    rate = run.frames / max(run.seconds, 1e-9)
    median = p95 = None
    if run.step_seconds is not None:
        # The first steps of a process pay for memory that later ones find there.
        settled = run.step_seconds[10:] if len(run.step_seconds) > 100 else run.step_seconds
        median, p95 = (1e6 * float(value) for value in np.percentile(settled, [50, 95]))
    return Speed(rate, median, p95, None if hop is None else rate * hop)


def _run_batch(model: ContinualModel, tokens: list[torch.Tensor], mode: Mode, steps: list[float]) -> list[Outputs]:
    if mode == "stream":
        outputs = [stream_pass(model, rows, steps) for rows in tokens]
    else:
        outputs = chunk_pass(model, tokens) if mode == "chunk" else window_pass(model, tokens)
    if not model.config.lag:
        return outputs
    return [replace(output, late=late) for output, late in zip(outputs, late_pass(model, tokens), strict=True)]


def _lengths(recordings: Sequence[Recording], width: int) -> tuple[dict[str, int], list[Damage]]:
    """Rows of each recording that can be opened. Files are closed again: thousands may not be open at once."""
    lengths: dict[str, int] = {}
    damaged = []
    for recording in recordings:
        if recording.name in lengths:
            raise InputError(f"two recordings have the name {recording.name}")
        try:
            shape = recording.open().shape
        except InputError as error:
            damaged.append(Damage(recording.name, str(error)))
            continue
        if len(shape) != 2 or shape[1] != width:
            actual = f"{shape[1]} numbers per row" if len(shape) == 2 else f"shape {shape}"
            raise ConfigurationError(
                f"{recording.name}: the features have {actual}, but the model takes {width}: give it the "
                "features that it was trained on (--features or --feature-dir)"
            )
        if shape[0] == 0:
            damaged.append(Damage(recording.name, "it has no rows"))
        else:
            lengths[recording.name] = shape[0]
    if not lengths:
        raise InputError(f"no recording could be used; the first, {damaged[0].name}: {damaged[0].reason}")
    return lengths, damaged


def _loaded(
    batches: Iterator[Sequence[Recording]], workers: int
) -> Iterator[tuple[Sequence[Recording], list[NDArray[np.float32] | Damage]]]:
    """Groups with their features, the next ones being read while the caller works."""
    if workers < 1:
        for group in batches:
            yield group, [_read(item) for item in group]
        return
    with ThreadPoolExecutor(workers) as pool:
        waiting: list[tuple[Sequence[Recording], list[Future[NDArray[np.float32] | Damage]]]] = []
        for group in batches:
            waiting.append((group, [pool.submit(_read, item) for item in group]))
            if len(waiting) > 1:
                ready, futures = waiting.pop(0)
                yield ready, [future.result() for future in futures]
        for ready, futures in waiting:
            yield ready, [future.result() for future in futures]


def _read(recording: Recording) -> NDArray[np.float32] | Damage:
    try:
        return np.array(recording.open()[:], dtype=np.float32)
    except (InputError, OSError) as error:
        return Damage(recording.name, str(error))
