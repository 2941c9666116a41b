"""The same run with several seeds: mean and standard deviation instead of one lucky number."""

from __future__ import annotations

import statistics
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipelines.datasets.rows.feature_cache import OnItem
from pipelines.devices import choose_device
from pipelines.errors import CheckpointError, InputError, UsageError
from pipelines.files import write_text
from pipelines.metrics.rejection import Rejection
from pipelines.training.artifacts import RunFolder
from pipelines.training.events import Observer, SeedBegins, nobody
from pipelines.training.fitting.baseline import PerFrameScores
from pipelines.training.fitting.distributed import Processes, is_main_process, processes
from pipelines.training.fitting.validation import METRICS, Scores
from pipelines.training.recipes.recipe import Recipe
from pipelines.training.recipes.recipe_file import recipe_text
from pipelines.training.run import RunResult, train
from pipelines.training.run_place import SEEDS, goes_on, occupied, require_free
from pipelines.untrusted.parsing import json_value
from pipelines.untrusted.toml import load_toml


@dataclass(frozen=True)
class SeedsResult:
    """Runs that differ in their seed alone."""

    folder: Path
    runs: tuple[RunResult, ...]

    def values(self, metric: str, last: bool = False) -> list[float]:
        """The metric of each run, at its best epoch or at its last."""
        scores = [run.last_scores if last else run.scores for run in self.runs]
        return [float(value) for value in (getattr(score, metric, None) for score in scores) if value is not None]

    def mean_deviation(self, metric: str, last: bool = False) -> tuple[float, float] | None:
        """Mean and sample standard deviation; None where no run has the metric."""
        values = self.values(metric, last)
        if not values:
            return None
        return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0

    def to_dict(self) -> dict[str, Any]:
        table = {}
        for metric in ("loss", *METRICS):
            for last in (False, True):
                summary = self.mean_deviation(metric, last)
                if summary is not None:
                    key = f"{metric} at the last epoch" if last else metric
                    table[key] = {"mean": summary[0], "deviation": summary[1], "values": self.values(metric, last)}
        return {"folder": str(self.folder), "metrics": table, "runs": [run.to_dict() for run in self.runs]}


def train_runs(
    recipe: Recipe | None,
    out: Path,
    count: int = 1,
    resume: bool = False,
    device: str = "auto",
    observer: Observer = nobody,
    on_item: OnItem | None = None,
    epochs: int | None = None,
) -> RunResult | SeedsResult:
    """One run in `out`, or one for each seed in `out/seed-N`. With `resume`, the recipe is the one in `out`.

    epochs: of a resumed run, more or fewer in all than it was begun with.
    """
    with processes(choose_device(device)) as group:
        return _runs(recipe, out, count, resume, device, observer, on_item, epochs, group)


def _runs(
    recipe: Recipe | None,
    out: Path,
    count: int,
    resume: bool,
    device: str,
    observer: Observer,
    on_item: OnItem | None,
    epochs: int | None,
    group: Processes,
) -> RunResult | SeedsResult:
    folder = RunFolder(out)
    # One process decides for all: while the others look, it may have begun.
    restarted = group.gather(not resume and goes_on(out))[0]
    if resume:
        recipe = folder.recipe()
        seeds = out / SEEDS
        if seeds.is_file() and epochs is not None:
            raise UsageError(f"--epochs with --resume is for one run: name a seed's, such as {out / 'seed-0'}")
        if epochs is not None:
            # Who says how many means as many.
            folder.extend(recipe := replace(recipe, training=replace(recipe.training, epochs=epochs, least_steps=0)))
        if seeds.is_file():
            count = _count_in(seeds)
            with occupied(out) if is_main_process() else nullcontext():
                return train_seeds(recipe, out, count, True, device, observer, on_item)
        return train(recipe, out, True, device, observer, on_item)
    if recipe is None:
        raise UsageError("a run that is not resumed needs a recipe")
    if count < 1:
        raise UsageError(f"--seeds must be at least 1, not {count}")
    if count == 1:
        return train(recipe, out, restarted, device, observer, on_item)
    with occupied(out) if is_main_process() else nullcontext():
        if is_main_process():
            require_free(out)
            with folder.writing():
                write_text(folder.config, recipe_text(recipe))
                write_text(out / SEEDS, f"count = {count}\n")
        return train_seeds(recipe, out, count, restarted, device, observer, on_item)


def _count_in(seeds: Path) -> int:
    """How many runs the file in their folder says there are."""
    count = load_toml(seeds).get("count")
    if not isinstance(count, int) or count < 1:
        raise InputError(
            f"{seeds} was changed: it does not say how many seeds there are; start again in another folder"
        )
    return count


def train_seeds(
    recipe: Recipe,
    out: Path,
    count: int,
    resume: bool = False,
    device: str = "auto",
    observer: Observer = nobody,
    on_item: OnItem | None = None,
) -> SeedsResult:
    """Run seeds `recipe.training.seed` … + count - 1, each in its own folder `seed-N`.

    With `resume`, finished runs are kept and the one that was interrupted goes on.
    """
    runs = []
    for seed in range(recipe.training.seed, recipe.training.seed + count):
        folder = RunFolder(out / f"seed-{seed}")
        own = replace(recipe, training=replace(recipe.training, seed=seed))
        if resume and folder.summary.is_file():
            runs.append(read_result(folder))
            continue
        if is_main_process():
            observer(SeedBegins(seed, seed - recipe.training.seed + 1, count))
        going_on = resume and folder.config.is_file()
        runs.append(train(own, folder.path, going_on, device, observer, on_item))
    result = SeedsResult(out, tuple(runs))
    if is_main_process():
        RunFolder(out).write_summary(result.to_dict())
    return result


def read_result(folder: RunFolder) -> RunResult:
    """The result of a finished run, from its summary.json."""
    try:
        values = json_value(folder.summary.read_text(encoding="utf-8"))
        del values["checkpoint"]
        values.pop("below_baseline", None)
        if values.get("rejection") is not None:
            values["rejection"] = Rejection.from_dict(values["rejection"])
        if values.get("baseline") is not None:
            values["baseline"] = PerFrameScores(**values["baseline"])
        for name in ("scores", "last_scores"):
            values[name] = None if values[name] is None else Scores(**values[name])
        return RunResult(**{**values, "folder": folder.path})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{folder.summary} is damaged: remove it to run this seed again") from error
