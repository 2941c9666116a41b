"""`train` with plain arguments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.api.progress import OnProgress, Progress, on_item
from pipelines.datasets.options import recipe_options
from pipelines.training.events import EpochDone, Event, StepDone
from pipelines.training.recipes.own_data import plan_recipe
from pipelines.training.run import RunResult
from pipelines.training.seeds import SeedsResult, train_runs


def train(
    dataset: str,
    root: str | Path | None,
    out: str | Path,
    *,
    model: str | None = None,
    recipe: str | Path | None = None,
    features: str | None = None,
    settings: Mapping[str, Any] | None = None,
    seeds: int = 1,
    device: str = "auto",
    on_progress: OnProgress | None = None,
    **dataset_options: Any,
) -> RunResult | SeedsResult:
    """Train a model on a dataset into the folder `out`, which then holds checkpoints, metrics and the whole recipe.

        run = train("folder", "clips", "runs/mine", features="musicnn", settings={"training.epochs": 20})
        run.scores, run.best_epoch, run.history()       # the last one is a pandas frame

    dataset: "folder" for your own recordings, or "gtzan", "thumos14", …; root: its folder. model: a preset, such as
    "cotrans-b2". recipe: a file, one that ships, or "paper"; None: for your own recordings, what suits them. Any key of
    it is set by `settings`: {"training.epochs": 20}. features: extractors for media, such as "musicnn".
    dataset_options: those of the dataset, such as validation=0.2, and feature_dir=… and hop=… for features that exist.
    seeds: above 1, as many runs, and a SeedsResult of them.
    Ctrl-C raises KeyboardInterrupt with everything saved.
    """
    flags: dict[str, Any] = {
        "data.dataset": dataset,
        "data.root": None if root is None else str(root),
        "features.names": features,
        "model.preset": model,
        **recipe_options(dataset_options),
        **(settings or {}),
    }
    chosen = plan_recipe(recipe, flags).recipe

    def report(event: Event) -> None:
        if on_progress is None:
            return
        if isinstance(event, StepDone):
            done, text = event.epoch - 1 + event.step / event.steps, f"epoch {event.epoch}, loss {event.loss:.4f}"
            on_progress(Progress("training", done, event.epochs, text))
        elif isinstance(event, EpochDone) and event.scores is not None:
            text = f"epoch {event.epoch}, validation loss {event.scores.loss:.4f}"
            on_progress(Progress("training", event.epoch, chosen.training.epochs, text))

    return train_runs(chosen, Path(out), seeds, False, device, report, on_item(on_progress))
