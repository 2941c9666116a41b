"""The folder of a run: what a person reads, what other commands load, and what a resumed run goes on from.

| file | what it holds |
| --- | --- |
| config.toml | the whole recipe, as it was run |
| environment.json | versions, machine, seed, the command that began the run and those that went on with it |
| metrics.csv | one row for each epoch |
| curves.png | the same as a picture |
| report.html | the same as a page, written anew after every epoch |
| extractor.safetensors, extractor.json | of --finetune-extractor: the feature network and its scores |
| best.safetensors, last.safetensors | checkpoints that `stream`, `evaluate` and `flops` take |
| state.pt | optimiser, averages and counters, for --resume |
| summary.json | the result |
| README.md | the model card: data, scores, confusion, features, commands |

Every file is written beside its place and then moved there, so the last good one survives whatever happens.
"""

from __future__ import annotations

import csv
import io
import json
import os
import platform
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch

from pipelines import __version__
from pipelines.checkpoints.checkpoint import save_checkpoint
from pipelines.errors import CheckpointError, InputError
from pipelines.features.spec import FeatureSpec
from pipelines.files import atomic_write, unwritable, write_text
from pipelines.metrics.probabilities import ScoreKind
from pipelines.model.continual_model import ContinualModel
from pipelines.training.events import EpochDone
from pipelines.training.page import RunProgress, RunState, write_run_page
from pipelines.training.recipes.recipe import Recipe
from pipelines.training.recipes.recipe_file import parse_recipe, recipe_text
from pipelines.training.run_place import BEST, ENVIRONMENT, STATE, launch, require_free
from pipelines.untrusted.torch_file import read_torch_file

STATE_VERSION = 1


@dataclass(frozen=True)
class ModelDescription:
    """What the checkpoints of a run say beside their weights."""

    class_names: tuple[str, ...]
    features: FeatureSpec | None
    provenance: Mapping[str, Any]
    score_kind: ScoreKind
    smoothing: float = 0.0  # seconds, of a stream
    least: float = 0.0  # seconds of a stretch of a stream


@dataclass(frozen=True)
class RunFolder:
    """The files of one run."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.toml"

    @property
    def extractor(self) -> Path:
        """Fine-tuned weights of the feature network, where stage 1 was part of the run."""
        return self.path / "extractor.safetensors"

    @property
    def best(self) -> Path:
        return self.path / BEST

    @property
    def last(self) -> Path:
        return self.path / "last.safetensors"

    @property
    def state(self) -> Path:
        return self.path / STATE

    @property
    def summary(self) -> Path:
        return self.path / "summary.json"

    def begin(self, recipe: Recipe, environment: Mapping[str, Any], again: bool = False) -> None:
        """Start a run here; a folder that holds one already is refused, unless it is that one, `again`."""
        before = self.commands() if again else ()
        if not again:
            require_free(self.path)
        with self.writing():
            write_text(self.config, recipe_text(recipe))
            write_text(self.path / ENVIRONMENT, _json(environment))
            self._keep_commands(before, str(environment["command"]))

    def go_on(self, command: str) -> None:
        """The run goes on by another command: that is kept, too."""
        with self.writing():
            self._keep_commands(self.commands(), command)

    def commands(self) -> tuple[str, ...]:
        """The command that began the run, and those that went on with it."""
        environment = self._environment()
        later = environment.get("resumed", [])
        commands = (environment.get("command"), *(later if isinstance(later, list) else []))
        return tuple(command for command in commands if isinstance(command, str))

    def _keep_commands(self, before: tuple[str, ...], command: str) -> None:
        """A worker that begins again says the same once more: that is no other command."""
        first, *later = before if command in before[-1:] else (*before, command)
        values = {**self._environment(), "command": first, **({"resumed": later} if later else {})}
        write_text(self.path / ENVIRONMENT, _json(values))

    def _environment(self) -> dict[str, Any]:
        """environment.json; empty where it is not there, or not what we wrote: nothing depends on it."""
        try:
            values = json.loads((self.path / ENVIRONMENT).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return values if isinstance(values, dict) else {}

    def extend(self, recipe: Recipe) -> None:
        """The run goes on with more or fewer epochs than it was begun with: it is not finished any more."""
        with self.writing():
            write_text(self.config, recipe_text(recipe))
            self.summary.unlink(missing_ok=True)

    def recipe(self) -> Recipe:
        """The recipe that the run was started with."""
        if not self.config.is_file():
            raise InputError(f"{self.path} is not the folder of a training run: there is no config.toml in it")
        try:
            text = self.config.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{self.config} is not a text file in UTF-8: start again in another folder") from error
        return parse_recipe(text, str(self.config))

    def write_model(
        self,
        path: Path,
        model: ContinualModel,
        described: ModelDescription,
        provenance: Mapping[str, Any],
    ) -> None:
        """Write a checkpoint; what stood there before stays whole if this fails. provenance: of this epoch."""
        with self.writing():
            save_checkpoint(
                path,
                model,
                described.class_names,
                described.features,
                {**described.provenance, **provenance},
                described.score_kind,
                smoothing=described.smoothing,
                least=described.least,
            )

    def write_state(self, state: Mapping[str, Any]) -> None:
        # Into memory first: torch reports a full disk as an internal error that does not say so.
        buffer = io.BytesIO()
        torch.save({"version": STATE_VERSION, **state}, buffer)
        with self.writing(), atomic_write(self.state) as temporary:
            temporary.write_bytes(buffer.getbuffer())

    def read_state(self) -> dict[str, Any] | None:
        """What `write_state` wrote; never runs code from the file. None: the run ended before its first epoch did."""
        if not self.state.is_file():
            if self.summary.is_file() or not self.config.is_file():
                raise InputError(
                    f"nothing to resume in {self.path}: there is no state.pt in it; start again in another folder"
                )
            return None
        try:
            state = read_torch_file(self.state)
        except CheckpointError as error:
            raise CheckpointError(f"{error}: start again in another folder") from error
        if not isinstance(state, dict) or state.get("version") != STATE_VERSION:
            raise CheckpointError(f"{self.state} was not written by this version of cotrans: start again")
        return state

    def write_history(self, history: Sequence[EpochDone]) -> None:
        """metrics.csv."""
        rows = [epoch.row() for epoch in history]
        if not rows:
            return
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        with self.writing():
            write_text(self.path / "metrics.csv", text.getvalue())

    def write_curves(self, history: Sequence[EpochDone], metric: str) -> None:
        """Draw the losses and the validation metric over the epochs."""
        if history:
            from pipelines.training.curves import draw_curves

            with self.writing(), atomic_write(self.path / "curves.png") as temporary:
                draw_curves(history, metric, temporary)

    def write_page(self, history: Sequence[EpochDone], metric: str, epochs: int, state: RunState) -> None:
        """report.html: the run so far, of so many epochs."""
        if history:
            with self.writing():
                write_run_page(self.path / "report.html", RunProgress(self.path.name, history, metric, epochs, state))

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        with self.writing():
            write_text(self.summary, _json(summary))

    def write_recordings(self, rows: Iterable[tuple[str, str, str]]) -> None:
        """Split, name and label of each recording: which of them were kept for validation."""
        table = io.StringIO()
        csv.writer(table, lineterminator="\n").writerows([("split", "name", "label"), *rows])
        with self.writing():
            write_text(self.path / "recordings.csv", table.getvalue())

    def write_card(self, text: str) -> None:
        with self.writing():
            write_text(self.path / "README.md", text)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turn errors of the disk into one line."""
        try:
            yield
        except OSError as error:
            kept = f"; the last good checkpoint is {self.last}" if self.last.exists() else ""
            raise InputError(f"{unwritable(self.path, error)}{kept}") from error


def describe_environment(seed: int, device: torch.device, processes: int) -> dict[str, Any]:
    """What a run depends on beside its recipe."""
    return {
        "cotrans": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "processes": processes,
        "seed": seed,
        "command": command_line(),
        "launch": launch(),
    }


def command_line() -> str:
    """What a person would type to get the same run again."""
    return shlex.join(["cotrans", *sys.argv[1:]])


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
