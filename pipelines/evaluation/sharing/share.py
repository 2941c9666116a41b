"""Run one share of an evaluation, and join the parts of all shares into the table that one run gives.

What a part holds is what the models said. Labels, scores, costs and whatever is fitted to the training part are made
when the parts are joined, by the same code as without shares, from the same data; so nothing of the table is missing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.item import Item
from pipelines.datasets.rows.feature_cache import OnItem
from pipelines.devices import choose_device
from pipelines.errors import InputError, UsageError
from pipelines.evaluation.comparison import Comparison, ComparisonOptions, OnRows, compare_models, open_scored
from pipelines.evaluation.data.contenders import Contender
from pipelines.evaluation.data.data_request import DataRequest
from pipelines.evaluation.data.prepared_model import PreparedModel, prepare_model
from pipelines.evaluation.model_evaluation import OnProgress, RunModes, recordings_of, run_modes
from pipelines.evaluation.sharing.part import ContenderPart, ModelPart, Part
from pipelines.features.files.feature_files import describe_source
from pipelines.files import file_sha256
from pipelines.model.continual_model import ContinualModel
from pipelines.running.runner import Mode, Recording, Run, join_runs
from pipelines.shard import Shard


def run_share(
    contenders: Sequence[Contender],
    request: DataRequest,
    options: ComparisonOptions,
    shard: Shard,
    on_rows: OnRows | None = None,
    on_item: OnItem | None = None,
) -> Part:
    """What every contender says about one share of the recordings."""
    if options.precision != "float32":
        raise UsageError(
            f"--precision {options.precision} is compared with float32 in one run, and a share is of one model: leave "
            "--shard out"
        )
    data = open_scored(contenders, request, options, shard)
    device = choose_device(options.device)
    parts = []
    for contender in contenders:
        files = []
        for path in contender.files:
            ready = prepare_model(path, data, device, on_item)
            runs = run_modes(
                ready.checkpoint.model,
                recordings_of(ready.dataset, data.part),
                options.modes,
                options.workers,
                _of_model(on_rows, contender.name),
                shard,
            )
            digest = data_checksum(ready.dataset, data.part)
            files.append(ModelPart(path, file_sha256(path), digest, tuple(runs)))
        parts.append(ContenderPart(contender.name, contender.notes, tuple(files)))
    return Part(shard, request, options, tuple(parts))


def join_parts(parts: Mapping[Path, Part], on_item: OnItem | None = None) -> Comparison:
    """The table that one run gives, of the parts of all its shares (by the file that each came from)."""
    _require_whole(parts)
    first = next(iter(parts.values()))
    for path, part in parts.items():
        _require_same(first, part, path)
    contenders = [
        Contender(contender.name, tuple(file.path for file in contender.files), contender.notes)
        for contender in first.contenders
    ]
    shares = sorted(parts.values(), key=lambda part: part.shard.number)
    # The same file may be in the table twice, under two names: what it says is the same.
    of_model: dict[Path, list[ModelPart]] = {}
    for row, contender in enumerate(first.contenders):
        for place, file in enumerate(contender.files):
            of_model[file.path] = [share.contenders[row].files[place] for share in shares]

    def run_of(ready: PreparedModel, part: str) -> RunModes:
        models = of_model[ready.path]
        _require_unchanged(models[0], ready, part)

        def joined(
            model: ContinualModel,
            recordings: Sequence[Recording],
            modes: Sequence[Mode],
            workers: int,
            on_progress: OnProgress | None,
        ) -> list[Run]:
            names = [recording.name for recording in recordings]
            return [join_runs([model.runs[place] for model in models], names) for place in range(len(modes))]

        return joined

    return compare_models(contenders, first.request, first.options, None, on_item, run_of)


def data_checksum(dataset: Dataset, part: str) -> str:
    """Of everything that scores depend on beside the model: the recordings of a part, their features and labels."""
    digest = hashlib.sha256()
    rules = (dataset.name, part, dataset.class_names, dataset.hop, dataset.background, dataset.ignored)
    digest.update(json.dumps([*rules, dataset.label_rule, dataset.trim]).encode())
    for item in dataset.split(part):
        digest.update(json.dumps(_item_values(item)).encode())
    return digest.hexdigest()


def _item_values(item: Item) -> list[object]:
    segments = None if item.segments is None else [(each.start, each.end, each.label) for each in item.segments]
    files = (*item.features, *([item.targets] if item.targets else []))
    return [item.name, item.label, segments, [_fingerprint(path) for path in files]]


def _fingerprint(path: Path) -> str | None:
    try:
        return describe_source(path).fingerprint
    except InputError:
        return None  # what is wrong with it is said where the model runs


def _require_whole(parts: Mapping[Path, Part]) -> None:
    """Refuse parts of which one is missing or there twice."""
    counts = {part.shard.count: path for path, part in parts.items()}
    if len(counts) > 1:
        (count, path), (other, another), *_ = counts.items()
        raise UsageError(f"{path} is one of {count} shares, {another} one of {other}: give the parts of one run")
    owners: dict[int, Path] = {}
    for path, part in parts.items():
        if (owner := owners.setdefault(part.shard.number, path)) != path:
            raise UsageError(f"{owner} and {path} are both share {part.shard}: give each share once")
    (count,) = counts
    missing = [f"{number}/{count}" for number in range(1, count + 1) if number not in owners]
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise UsageError(f"the part of share {missing[0]} is missing{more}: run it with --shard {missing[0]}")


def _require_same(first: Part, part: Part, path: Path) -> None:
    """Refuse a part of another evaluation."""
    mine, others = _models(part), _models(first)
    if mine.keys() != others.keys():
        raise UsageError(f"{path} is of other models than the first part ({', '.join(mine)} and {', '.join(others)})")
    for name, files in mine.items():
        if [file.sha256 for file in files] != [file.sha256 for file in others[name]]:
            raise UsageError(f"{path}: its model {name} is another file than in the first part: run all shares on one")
        if [file.data for file in files] != [file.data for file in others[name]]:
            raise UsageError(
                f"{path} is of other data than the first part: run all shares on the same recordings, features and "
                "labels"
            )
    if _common(part.options) != _common(first.options):
        raise UsageError(f"{path} was made with other options than the first part: give all shares the same")


def _common(options: ComparisonOptions) -> ComparisonOptions:
    """What must be the same for all shares: how the work is done may differ."""
    return replace(options, workers=1, device="auto")


def _models(part: Part) -> dict[str, tuple[ModelPart, ...]]:
    return {contender.name: contender.files for contender in part.contenders}


def _require_unchanged(model: ModelPart, ready: PreparedModel, part: str) -> None:
    """Refuse a model or data that are not what the parts were made of any more."""
    if file_sha256(ready.path) != model.sha256:
        raise InputError("the model has changed since the parts were made: run all shares again")
    if data_checksum(ready.dataset, part) != model.data:
        raise InputError("the recordings, features or labels have changed since the parts were made: run all again")


def _of_model(on_rows: OnRows | None, name: str) -> OnProgress | None:
    return None if on_rows is None else lambda mode, done, total: on_rows(name, mode, done, total)
