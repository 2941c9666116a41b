"""An evaluation on a Ray cluster: its workers run the models, one group of recordings at a time.

Recordings that one process would run side by side stay together, so the scores are those of one process, bit for bit.
Whatever is made of them (labels, tables, what is fitted) is made by the machine that asks, as without a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pipelines.datasets.item import Item
from pipelines.devices import choose_device
from pipelines.errors import InputError
from pipelines.evaluation.comparison import ComparisonOptions, RunOf
from pipelines.evaluation.data.contenders import load_contender
from pipelines.evaluation.data.prepared_model import PreparedModel
from pipelines.evaluation.model_evaluation import OnProgress, RunModes, recording_of
from pipelines.features.extraction.engines import Engine, RayEngine, check_engine
from pipelines.files import file_sha256
from pipelines.model.continual_model import ContinualModel
from pipelines.model.linear.packing import with_precision
from pipelines.model.precision import Precision
from pipelines.ray_cluster import LostTaskError, RayCluster, Work, ray_cluster
from pipelines.running.runner import (
    Mode,
    Recording,
    Run,
    join_runs,
    plan_groups,
    require_outputs,
    row_counter,
    run_groups,
)


@dataclass(frozen=True)
class Setup:
    """What all tasks of a model share."""

    path: Path
    sha256: str
    precision: Precision
    device: str  # auto, cpu or cuda, of the machine that has the task
    trim: int  # of the dataset


@dataclass(frozen=True)
class Task:
    """What one worker does at a time."""

    mode: Mode
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Evaluators:
    """Who does the work of an evaluation; None: this process, or this machine."""

    run_of: RunOf | None = None
    engine: Engine | None = None


@contextmanager
def open_evaluators(name: str, address: str | None, options: ComparisonOptions) -> Iterator[Evaluators]:
    """Those of an engine (local or ray), for as long as they are needed."""
    check_engine(name, address)
    if name == "local":
        yield Evaluators()
        return
    with ray_cluster(address) as cluster:
        yield Evaluators(cluster_runs(cluster, options), RayEngine(cluster))


def answer(setup: Setup, task: Task) -> Run:
    """On a worker: run the model on one group of recordings."""
    recordings = [recording_of(item, setup.trim) for item in task.items]
    return run_groups(_loaded(setup), [recordings], task.mode)


@lru_cache(maxsize=1)
def _loaded(setup: Setup) -> ContinualModel:
    """The model is loaded once for all tasks of it that a process gets."""
    if file_sha256(setup.path) != setup.sha256:
        raise InputError(f"{setup.path} is another file here than where the evaluation was started: share one folder")
    model = with_precision(load_contender(setup.path).model, setup.precision)
    return model.to(choose_device(setup.device))


def cluster_runs(cluster: RayCluster, options: ComparisonOptions, work: Work = answer) -> RunOf:
    """What runs the models of a comparison. work: what a worker does with a task."""

    def run_of(ready: PreparedModel, part: str) -> RunModes:
        items = {item.name: item for item in ready.dataset.split(part)}

        def run_modes(
            model: ContinualModel,
            recordings: Sequence[Recording],
            modes: Sequence[Mode],
            workers: int,
            on_progress: OnProgress | None,
        ) -> list[Run]:
            # A comparison of precisions runs the model of the file too.
            precision = "float32" if model is ready.checkpoint.model else options.precision
            setup = Setup(ready.path, file_sha256(ready.path), precision, options.device, ready.dataset.trim)
            return [_run_mode(cluster, work, setup, mode, recordings, items, model, on_progress) for mode in modes]

        return run_modes

    return run_of


def _run_mode(
    cluster: RayCluster,
    work: Work,
    setup: Setup,
    mode: Mode,
    recordings: Sequence[Recording],
    items: dict[str, Item],
    model: ContinualModel,
    on_progress: OnProgress | None,
) -> Run:
    plan = plan_groups(recordings, mode, model.config.input_width)
    count = row_counter(plan, plan.groups, None if on_progress is None else lambda *rows: on_progress(mode, *rows))
    tasks = [Task(mode, tuple(items[recording.name] for recording in group)) for group in plan.groups]
    runs: dict[int, Run] = {}
    for index, result in cluster.map(work, setup, tasks):
        if isinstance(result, LostTaskError):
            names = ", ".join(item.name for item in tasks[index].items[:3])
            raise InputError(f"{names}: {result}; run it again, or without --engine ray to see why")
        runs[index] = result
        count(plan.groups[index])
    unopened = Run(mode, {}, plan.damaged, 0, 0.0, None)
    run = join_runs([unopened, *(runs[index] for index in sorted(runs))], [recording.name for recording in recordings])
    require_outputs(run)
    return run
