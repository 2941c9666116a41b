"""What the learning rate is multiplied by, as a value with a state that can be saved."""

from __future__ import annotations

import math
from typing import Any

from pipelines.training.recipes.recipe import ScheduleOptions


class LearningRate:
    """The factor of a step, and what the validation metric does to it."""

    def __init__(self, options: ScheduleOptions, base: float, epochs: int) -> None:
        self.options, self.base, self.epochs = options, base, epochs
        self.scale = 1.0  # what plateaus have left of it
        self._best = -math.inf
        self._waited = 0

    def at(self, epoch: int, step: int, steps: int) -> float:
        """The learning rate of a step; `epoch` and `step` count from 0, `steps` are those of the epoch."""
        options = self.options
        steps = max(steps, 1)
        done = epoch + step / steps  # epochs
        warm_up = options.warm_up_steps / steps if options.warm_up_steps else options.warm_up
        factor = self.scale
        if warm_up and done < warm_up:
            # The first step already moves: it counts as the end of its own share.
            return self.base * factor * (done + 1 / steps) / (warm_up + 1 / steps)
        if options.name == "step":
            factor *= options.factor**epoch
        elif options.name == "cosine":
            span = max(self.epochs - warm_up, 1e-9)
            place = min(max((done - warm_up) / span, 0.0), 1.0)
            factor *= options.factor + (1 - options.factor) * (1 + math.cos(math.pi * place)) / 2
        return self.base * factor

    def epoch_done(self, metric: float) -> None:
        """Take in the metric of an epoch, higher is better."""
        if self.options.name != "plateau":
            return
        if metric > self._best:
            self._best, self._waited = metric, 0
            return
        self._waited += 1
        if self._waited > self.options.patience:
            self.scale *= self.options.factor
            self._waited = 0

    def state(self) -> dict[str, Any]:
        return {"scale": self.scale, "best": self._best, "waited": self._waited}

    def restore(self, state: dict[str, Any]) -> None:
        self.scale, self._best, self._waited = float(state["scale"]), float(state["best"]), int(state["waited"])
