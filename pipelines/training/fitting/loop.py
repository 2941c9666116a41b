"""The training loop: deterministic, resumable between any two steps, the same on one process and on several."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pipelines.errors import CheckpointError, ConfigurationError
from pipelines.model.continual_model import ContinualModel
from pipelines.training.artifacts import ModelDescription, RunFolder
from pipelines.training.events import EpochDone, Observer, Remark, StepDone, nobody
from pipelines.training.fitting.distributed import Processes
from pipelines.training.fitting.objective import Objective
from pipelines.training.fitting.schedules import LearningRate
from pipelines.training.fitting.validation import Scores, Validator
from pipelines.training.page import RunState
from pipelines.training.recipes.recipe import OptimizerOptions, Recipe
from pipelines.training.samples.batching import BatchLoader
from pipelines.training.samples.sampling import STEP_STREAM, SamplingPlan
from pipelines.training.samples.statistics import folded
from pipelines.training.stopping import StopRequest, stop_request

NAMED_SAMPLES = 4  # of a bad batch, in a message


@dataclass(frozen=True, eq=False)
class Problem:
    """What a model is trained on."""

    loader: BatchLoader
    plan: SamplingPlan
    objective: Objective
    validator: Validator | None
    metric: str  # that `best` is chosen by
    described: ModelDescription

    def batches(self, seed: int, epoch: int) -> list[Any]:
        return self.plan.batches([len(recording) for recording in self.loader.recordings], seed, epoch)


class TrainingInterrupted(KeyboardInterrupt):
    """Somebody pressed Ctrl-C or sent SIGTERM; everything is saved."""

    def __init__(self, epoch: int, step: int, signal: int) -> None:
        self.epoch, self.step, self.signal = epoch, step, signal
        super().__init__(f"stopped in epoch {epoch} after step {step}")


class Trainer:
    """One run. All that it knows between two steps is in `state()`."""

    def __init__(
        self,
        model: ContinualModel,
        problem: Problem,
        recipe: Recipe,
        folder: RunFolder,
        processes: Processes | None = None,
        observer: Observer = nobody,
    ) -> None:
        self.processes = processes or Processes()
        self.model = model.to(self.processes.device)
        self.problem, self.recipe, self.folder, self.observer = problem, recipe, folder, observer
        self.optimizer = make_optimizer(recipe.optimizer, self.model)
        self.rate = LearningRate(recipe.schedule, recipe.optimizer.learning_rate, recipe.training.epochs)
        self.average = copy.deepcopy(self.model).requires_grad_(False) if recipe.training.ema else None
        self.history: list[EpochDone] = []
        self.epoch, self.step, self.steps = 0, 0, 0  # finished epochs, steps of this epoch, steps in all
        self._sums = _Sums()
        self._best, self._best_loss, self._best_epoch = float("-inf"), float("inf"), 0
        self._patience_from = 0  # the epoch that early stopping counts from at the earliest

    @property
    def judged(self) -> ContinualModel:
        """The model that is validated and saved: the moving average, where there is one."""
        return self.model if self.average is None else self.average

    @property
    def best_scores(self) -> Scores | None:
        return next((epoch.scores for epoch in reversed(self.history) if epoch.best), None)

    def run(self) -> None:
        """Train until the last epoch. Raises TrainingInterrupted on Ctrl-C, with everything saved."""
        try:
            with stop_request(self._announce_stop) as request, torch.random.fork_rng(devices=self._cuda()):
                while self.epoch < self.recipe.training.epochs and not self._should_stop_early():
                    self._run_epoch(request)
        except TrainingInterrupted:
            self._write_page("stopped")
            raise
        if self.processes.main:
            self.folder.write_curves(self.history, self.problem.metric)
        self._write_page("finished")
        self.processes.wait()

    def _write_page(self, state: RunState) -> None:
        if self.processes.main:
            self.folder.write_page(self.history, self.problem.metric, self.recipe.training.epochs, state)

    def _announce_stop(self) -> None:
        if self.processes.main:
            self.observer(Remark("stopping after this step, to save everything (Ctrl-C again: at once)"))

    def state(self) -> dict[str, Any]:
        """Everything that the rest of the run depends on. Random numbers depend on seed, epoch and step alone."""
        return {
            "model": self.model.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "rate": self.rate.state(),
            "epoch": self.epoch,
            "step": self.step,
            "steps": self.steps,
            "sums": self._sums.state(),
            "history": [epoch.row() for epoch in self.history],
            "best": self._best,
            "best_loss": self._best_loss,
            "best_epoch": self._best_epoch,
            "epochs": self.recipe.training.epochs,
            "patience_from": self._patience_from,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from `state()`."""
        try:
            self.model.load_state_dict(state["model"])
            if self.average is not None:
                self.average.load_state_dict(state["average"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.rate.restore(state["rate"])
            self.epoch, self.step, self.steps = int(state["epoch"]), int(state["step"]), int(state["steps"])
            self._sums = _Sums(**state["sums"])
            self.history = [EpochDone.from_row(row) for row in state["history"]]
            if min(self.epoch, self.step, self.steps) < 0 or (self.epoch > 0 and not self.history):
                raise ValueError("it stands at no epoch of a run")
            self._best, self._best_epoch = float(state["best"]), int(state["best_epoch"])
            self._best_loss = float(state.get("best_loss", "inf"))  # of runs that were begun before there was one
            # Who asks for more epochs wants them, also where the run had ended early.
            longer = self.recipe.training.epochs > int(state.get("epochs", self.recipe.training.epochs))
            self._patience_from = self.epoch if longer else int(state.get("patience_from", 0))
        except (KeyError, ValueError, TypeError, RuntimeError, AttributeError) as error:
            reason = str(error).split("\n")[0]
            raise CheckpointError(f"the saved state does not fit this run: {reason}") from error

    # ---- one epoch -----------------------------------------------------------------------------------------

    def _run_epoch(self, request: StopRequest) -> None:
        seed, epoch = self.recipe.training.seed, self.epoch
        batches = self.problem.batches(seed, epoch)
        began = time.perf_counter()
        frames_before = self._sums.frames
        for step in range(self.step, len(batches)):
            self._train_step(batches[step], epoch, step, len(batches))
            if self.processes.any(request.wanted):
                self.save_state()
                self.processes.wait()
                raise TrainingInterrupted(self.epoch + 1, self.step, request.signal)
        trained = max(time.perf_counter() - began, 1e-9)
        frames_per_second = (self._sums.frames - frames_before) / trained
        self._finish_epoch(began, frames_per_second)

    def _train_step(self, samples: Sequence[Any], epoch: int, step: int, steps: int) -> None:
        problem, processes = self.problem, self.processes
        torch.manual_seed(_step_seed(self.recipe.training.seed, epoch, step, processes.rank))
        self.model.train()
        rate = self.rate.at(epoch, step, steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("times", 1.0)  # see `make_optimizer`
        self.optimizer.zero_grad(set_to_none=True)
        mine = processes.share(len(samples))
        loss = torch.zeros((), device=processes.device)
        weights = torch.zeros(2, dtype=torch.float64)
        batch = None
        if mine:
            batch = problem.loader.load(samples, epoch, step, mine).to(processes.device)
            weights = problem.objective.weights(batch)
        weights = processes.sum(weights)
        if batch is not None:
            loss = problem.objective.loss_of(self.model, batch, weights)
            self._check_finite(loss, "loss", batch.names, epoch, step)
            loss.backward()  # type: ignore[no-untyped-call]
        (total,) = processes.sum_gradients(self.model, [loss])
        norm = self._clip()
        if batch is not None:
            self._check_finite(norm, "gradient", batch.names, epoch, step)
        self.optimizer.step()
        self._update_average()
        self._sums = self._sums.plus(total, float(norm), float(weights[0]))
        self.step += 1
        self.steps += 1
        if processes.main:
            self.observer(StepDone(epoch + 1, self.recipe.training.epochs, self.step, steps, total, rate))

    def _clip(self) -> Tensor:
        limit = self.recipe.optimizer.gradient_clip
        return nn.utils.clip_grad_norm_(self.model.parameters(), limit or float("inf"))

    def _check_finite(self, value: Tensor, what: str, names: Sequence[str], epoch: int, step: int) -> None:
        if bool(torch.isfinite(value)):
            return
        listed = ", ".join(names[:NAMED_SAMPLES])
        more = f" and {len(names) - NAMED_SAMPLES} more" if len(names) > NAMED_SAMPLES else ""
        raise ConfigurationError(
            f"the {what} is {value.item()} in epoch {epoch + 1}, step {step + 1}, on the batch {listed}{more}: look "
            "at these features, or lower optimizer.learning_rate; the last good checkpoint is kept"
        )

    @torch.no_grad()
    def _update_average(self) -> None:
        if self.average is None:
            return
        # Early on, the average of few steps must not be dominated by the random beginning.
        decay = min(self.recipe.training.ema, (1 + self.steps) / (10 + self.steps))
        for mine, theirs in zip(self.average.parameters(), self.model.parameters(), strict=True):
            mine.lerp_(theirs, 1 - decay)

    def _finish_epoch(self, began: float, frames_per_second: float) -> None:
        options = self.recipe.training
        sums, last_rate = self._sums, float(self.optimizer.param_groups[0]["lr"])
        self.epoch += 1
        final = self.epoch == options.epochs
        scores = None
        if self.problem.validator is not None and (final or self.epoch % options.validate_every == 0):
            scores = self.problem.validator.score(self.judged, self.processes)
        best = False
        if scores is not None:
            value = scores.value(self.problem.metric)
            self.rate.epoch_done(value)
            # Of epochs that score the same, the one with the smaller loss knows more: few recordings tie often.
            best = (value, -scores.loss) > (self._best, -self._best_loss)
            if best:
                self._best, self._best_loss, self._best_epoch = value, scores.loss, self.epoch
        elif self.problem.validator is None:
            best, self._best_epoch = True, self.epoch  # without validation the last is the best there is
        done = EpochDone(
            epoch=self.epoch,
            steps=self.steps,
            learning_rate=last_rate,
            train_loss=sums.loss / max(sums.steps, 1),
            gradient_norm=sums.norm / max(sums.steps, 1),
            scores=scores,
            best=best,
            seconds=time.perf_counter() - began,
            frames_per_second=frames_per_second,
        )
        self.history.append(done)
        self.step, self._sums = 0, _Sums()
        if self.processes.main:
            self.save(best)
            self.observer(done)
        self.processes.wait()

    def _should_stop_early(self) -> bool:
        patience = self.recipe.training.early_stop
        since = max(self._best_epoch, self._patience_from)
        stop = bool(patience and self.problem.validator and self.epoch - since >= patience)
        if stop and self.processes.main:
            self.observer(Remark(f"no better {self.problem.metric} for {patience} epochs: stopping early"))
        return stop

    # ---- files ---------------------------------------------------------------------------------------------

    def save(self, best: bool) -> None:
        """Checkpoints, metrics and state of the epoch that has ended."""
        model = self.judged
        loader = self.problem.loader
        if loader.standardize and loader.statistics is not None:
            model = folded(model, loader.statistics)
        provenance: dict[str, Any] = {"epoch": self.epoch, "steps": self.steps}
        scores = self.history[-1].scores
        if scores is not None:
            provenance["validation"] = {name: value for name, value in vars(scores).items() if value is not None}
        for path in [self.folder.last, *([self.folder.best] if best else [])]:
            self.folder.write_model(path, model, self.problem.described, provenance)
        self.folder.write_history(self.history)
        self._write_page("running")
        self.save_state()

    def save_state(self) -> None:
        """The state for --resume alone."""
        if self.processes.main:
            self.folder.write_state(self.state())

    def _cuda(self) -> list[torch.device]:
        return [self.processes.device] if self.processes.device.type == "cuda" else []


@dataclass(frozen=True)
class _Sums:
    """Of the steps of an epoch so far."""

    loss: float = 0.0
    norm: float = 0.0
    frames: float = 0.0
    steps: int = 0

    def plus(self, loss: float, norm: float, frames: float) -> _Sums:
        return _Sums(self.loss + loss, self.norm + norm, self.frames + frames, self.steps + 1)

    def state(self) -> dict[str, Any]:
        return dict(vars(self))


def make_optimizer(options: OptimizerOptions, model: nn.Module) -> torch.optim.Optimizer:
    parameters: Any = [parameter for parameter in model.parameters() if parameter.requires_grad]
    aged = {parameter for name, parameter in model.named_parameters() if name.endswith("age_bias")}
    if aged and options.age_rate != 1.0:
        # Adam moves a number by about the rate at each step, and a few hundred steps of that are nothing for a score.
        rest = [parameter for parameter in parameters if parameter not in aged]
        biases = [parameter for parameter in parameters if parameter in aged]
        parameters = [{"params": rest}, {"params": biases, "times": options.age_rate, "weight_decay": 0.0}]
    rate, decay = options.learning_rate, options.weight_decay
    if options.name == "sgd":
        return torch.optim.SGD(parameters, lr=rate, momentum=options.momentum, weight_decay=decay)
    kind = torch.optim.AdamW if options.name == "adamw" else torch.optim.Adam
    return kind(parameters, lr=rate, betas=(options.momentum, 0.999), weight_decay=decay)


def _step_seed(seed: int, epoch: int, step: int, rank: int) -> int:
    """A seed for dropout that depends on nothing that came before."""
    return int(np.random.SeedSequence([seed, STEP_STREAM, epoch, step, rank]).generate_state(1, np.uint64)[0] >> 1)
