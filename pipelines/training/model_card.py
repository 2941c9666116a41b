"""The model card of a run: README.md, what somebody who is given the model wants to know."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pipelines.features.spec import FeatureSpec
from pipelines.model.base_config import BaseConfig
from pipelines.training.fitting.validation import METRICS, Scores
from pipelines.training.run_place import BEST
from pipelines.training.samples.opening import TrainingData

Confusion = NDArray[np.int64]  # (classes, classes): truth by answer
WHOLE_TABLE = 12  # classes: with more, the commonest mistakes are listed instead
MISTAKES = 12
NAMES = {
    "accuracy": "accuracy, by the last row",
    "accuracy_mean": "accuracy, by the mean of all rows",
    "accuracy_vote": "accuracy, by a vote of all rows",
    "map": "mean average precision of frames",
}


def model_card(
    data: TrainingData,
    config: BaseConfig,
    scores: Scores | None,
    single_rows: float | None,
    confusion: Confusion | None,
    commands: Sequence[str],
) -> str:
    """The card in Markdown. single_rows: the score of the best classifier without memory.

    commands: the one that began the run, and those that went on with it.
    """
    names = data.dataset.class_names
    sections = [
        f"# {data.dataset.root.name or data.dataset.name}: {len(names)} classes\n",
        f"A continual transformer that names, row by row, one of: {', '.join(names)}.\n",
        f"    cotrans stream FILE --model {BEST}\n",
        "## Data\n",
        f"{_trained_on(data)}, {_count(len(data.validation))} to validate on; dataset "
        f"`{data.dataset.name}`, folder `{data.dataset.root.name}`. (Say where they come from.)\n",
        "## Scores\n",
        _scores(scores, single_rows),
        *(["## Confusion\n", _confusion(confusion, names)] if confusion is not None else []),
        "## Features and model\n",
        _features(data.spec, data.width),
        f"One answer for each row, from the last {config.window} rows.\n",
        "## How it was made\n",
        "".join(f"    {command}\n" for command in commands),
        "The whole recipe is in `config.toml`, versions and machine in `environment.json`.\n",
        "## Limits\n",
        "It knows its classes and nothing else. The scores are of recordings like those it was trained on: other "
        "places, people and devices may do worse.\n",
        "## Licence\n",
        "(Fill in: of the data, of the feature network's weights, and of this model.)\n",
    ]
    return "\n".join(sections)


def _trained_on(data: TrainingData) -> str:
    """Recordings, and apart from them the changed copies that were made of them."""
    changed = {item.name for item in data.dataset.items if item.copy_of is not None}
    copies = sum(recording.name in changed for recording in data.train)
    made = f" (and {copies} changed cop{'y' if copies == 1 else 'ies'} of them)" if copies else ""
    return f"{_count(len(data.train) - copies)} to train on{made}"


def _count(recordings: int) -> str:
    return f"{recordings} recording" + "s" * (recordings != 1)


def _scores(scores: Scores | None, single_rows: float | None) -> str:
    if scores is None:
        return "There was nothing to validate on.\n"
    lines = ["| score on the validation recordings | |", "| --- | --- |"]
    for name in METRICS:
        value = getattr(scores, name)
        if value is not None:
            lines.append(f"| {NAMES[name]} | {100 * value:.1f} % |")
    if single_rows is not None:
        lines.append(f"| a classifier of single rows, for comparison | {100 * single_rows:.1f} % |")
    lines.append(f"| loss | {scores.loss:.3f} |")
    return "\n".join(lines) + "\n"


def _confusion(confusion: Confusion, names: Sequence[str]) -> str:
    if len(names) <= WHOLE_TABLE:
        lines = [f"| truth \\ answer | {' | '.join(names)} |", f"| --- |{' ---: |' * len(names)}"]
        lines += [f"| {name} | {' | '.join(map(str, row))} |" for name, row in zip(names, confusion, strict=True)]
        return "\n".join(lines) + "\n"
    wrong = confusion.copy()
    np.fill_diagonal(wrong, 0)
    order = np.argsort(wrong, axis=None, kind="stable")[::-1][:MISTAKES]
    pairs = [divmod(int(place), len(names)) for place in order]
    listed = [f"- {names[truth]} taken for {names[answer]}: {wrong[truth, answer]}" for truth, answer in pairs]
    kept = [line for line, (truth, answer) in zip(listed, pairs, strict=True) if wrong[truth, answer]]
    return "\n".join(["The commonest mistakes:\n", *(kept or ["- none"])]) + "\n"


def _features(spec: FeatureSpec | None, width: int) -> str:
    if spec is None:
        return f"Rows of {width} numbers from feature files that do not say what they hold. (Say how they were made.)\n"
    parts = []
    for part in spec.parts:
        weights = "" if part.weights is None else f", weights {part.weights[:8]}"
        parts.append(f"`{part.name}` ({part.width} wide{weights})")
    return f"{' + '.join(parts)}, a row every {spec.hop:g} s.\n"
