"""How the work of each kind of model is counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipelines.costs import lstr_work, per_frame_work, recurrent_work, transformer_modules
from pipelines.costs.block_work import Modules
from pipelines.costs.step_work import step_work
from pipelines.costs.window_work import window_work


@dataclass(frozen=True)
class Counts:
    """What is known of a kind's costs without its weights. Each takes the kind's own configuration."""

    step: Callable[[Any], Modules]  # work of a step in the steady state
    window: Callable[[Any], Modules]  # work of the regular model on a window
    module_name: Callable[[str], str]  # a parameter's key to the module that it is counted with
    module_order: Callable[[Any], list[str]]  # in which a token meets the modules


COUNTS: dict[str, Counts] = {
    "transformer": Counts(step_work, window_work, transformer_modules.module_name, transformer_modules.module_order),
    "recurrent": Counts(
        recurrent_work.step_work,
        recurrent_work.window_work,
        recurrent_work.module_name,
        recurrent_work.module_order,
    ),
    "per-frame": Counts(
        per_frame_work.step_work,
        per_frame_work.window_work,
        per_frame_work.module_name,
        per_frame_work.module_order,
    ),
    "lstr": Counts(lstr_work.step_work, lstr_work.window_work, lstr_work.module_name, lstr_work.module_order),
}
