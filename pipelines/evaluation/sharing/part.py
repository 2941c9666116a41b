"""A part of an evaluation: what the models say about one share of the recordings, and the JSON file that holds it.

    {"format": "cotrans-evaluation-part", "version": 1, "shard": "2/3", "request": …, "options": …, "models": [
        {"name": "cotrans-b1", "notes": [], "files": [
            {"path": "/runs/a/best.safetensors", "sha256": "…", "data": "…", "runs": [
                {"mode": "chunk", "outputs": {"blues.00000": {"logits": ARRAY}}, "damaged": {}, "seconds": 0.1}]}]}]}

An ARRAY is {"dtype": "<f4", "shape": [120, 10], "base64": "…"}: the very numbers, and nothing in it is run.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.source import OWN_KEYS, DataSource, FeatureOptions
from pipelines.errors import CotransError, InputError, UsageError
from pipelines.evaluation.comparison import ComparisonOptions
from pipelines.evaluation.data.data_request import DataRequest
from pipelines.features.request import FeatureRequest
from pipelines.files import unwritable, write_text
from pipelines.running.passes import Outputs
from pipelines.running.runner import MODES, Damage, Run
from pipelines.shard import Shard, parse_shard
from pipelines.untrusted.parsing import check_fields, read_document

FORMAT = "cotrans-evaluation-part"
VERSION = 1
DTYPES = ("<f4", "<f8")


@dataclass(frozen=True)
class ModelPart:
    """One checkpoint on one share of the recordings."""

    path: Path
    sha256: str
    data: str  # checksum of all recordings of which this is a share: their features and labels
    runs: tuple[Run, ...]  # one for each mode


@dataclass(frozen=True)
class ContenderPart:
    """One row of the table: a model, or several seeds of it."""

    name: str
    notes: tuple[str, ...]
    files: tuple[ModelPart, ...]


@dataclass(frozen=True)
class Part:
    """What one share gave, and what was asked for."""

    shard: Shard
    request: DataRequest
    options: ComparisonOptions
    contenders: tuple[ContenderPart, ...]


def write_part(path: Path, part: Part) -> None:
    """Write a part; an output that cannot be written is one clear line."""
    value = {
        "format": FORMAT,
        "version": VERSION,
        "shard": str(part.shard),
        "request": _request_values(part.request),
        "options": _option_values(part.options),
        "models": [
            {
                "name": contender.name,
                "notes": list(contender.notes),
                "files": [
                    {
                        "path": str(file.path),
                        "sha256": file.sha256,
                        "data": file.data,
                        "runs": [_run_values(run) for run in file.runs],
                    }
                    for file in contender.files
                ],
            }
            for contender in part.contenders
        ],
    }
    try:
        write_text(path, json.dumps(value) + "\n")
    except OSError as error:
        raise InputError(f"--out: {unwritable(path, error)}") from error


def read_parts(paths: Sequence[Path]) -> dict[Path, Part]:
    """The parts in some files, by file."""
    if not paths:
        raise UsageError("--merge: name the parts, such as part*.json")
    if len(set(paths)) < len(paths):
        raise UsageError(f"{max(paths, key=paths.count)} is given twice: give each part once")
    return {path: read_part(path) for path in paths}


def read_part(path: Path) -> Part:
    """Read what `write_part` wrote; anything else is an error."""
    value = read_document(path, FORMAT, VERSION, "a part of an evaluation, as --shard I/N --out FILE writes them")
    try:
        return _part(value)
    except (KeyError, TypeError, ValueError, AttributeError, CotransError) as error:
        raise InputError(f"{path} is a damaged part of an evaluation ({error}): make it again") from error


def _part(value: Mapping[str, Any]) -> Part:
    contenders = tuple(
        ContenderPart(
            str(contender["name"]),
            tuple(map(str, contender["notes"])),
            tuple(
                ModelPart(Path(file["path"]), str(file["sha256"]), str(file["data"]), tuple(map(_run, file["runs"])))
                for file in contender["files"]
            ),
        )
        for contender in value["models"]
    )
    if not contenders or not all(contender.files for contender in contenders):
        raise ValueError("it has no model")
    return Part(parse_shard(value["shard"]), _request(value["request"]), _options(value["options"]), contenders)


def _request_values(request: DataRequest) -> dict[str, Any]:
    source = request.source
    return {
        "dataset": source.dataset,
        "root": None if source.root is None else str(source.root),
        "options": dict(source.options),
        "features": source.features.to_values(),
        "part": request.part,
        "weights": dict(request.weights),
    }


def _request(value: Mapping[str, Any]) -> DataRequest:
    own = {"dataset": value["dataset"], "root": value["root"], "options": value["options"]}
    check_fields(DataSource, own)
    check_fields(DataRequest, {"part": value["part"], "weights": value["weights"]})
    features = dict(value["features"])
    check_fields(FeatureOptions, {name: features[name] for name in OWN_KEYS if name in features})
    check_fields(FeatureRequest, {name: given for name, given in features.items() if name not in OWN_KEYS})
    source = DataSource(
        value["dataset"],
        None if value["root"] is None else Path(value["root"]),
        value["options"],
        FeatureOptions.from_values(value["features"]),
    )
    return DataRequest(source, value["part"], value["weights"])


def _option_values(options: ComparisonOptions) -> dict[str, Any]:
    return {**asdict(options), "foreign": None if options.foreign is None else str(options.foreign)}


def _options(value: Mapping[str, Any]) -> ComparisonOptions:
    check_fields(ComparisonOptions, value)
    foreign = value["foreign"]
    return ComparisonOptions(
        **{**value, "modes": tuple(value["modes"]), "foreign": None if foreign is None else Path(foreign)}
    )


def _run_values(run: Run) -> dict[str, Any]:
    return {
        "mode": run.mode,
        "outputs": {name: _output_values(output) for name, output in run.outputs.items()},
        "damaged": {damage.name: damage.reason for damage in run.damaged},
        "seconds": run.seconds,
        "step_seconds": None if run.step_seconds is None else _array_values(run.step_seconds),
    }


def _run(value: Mapping[str, Any]) -> Run:
    outputs = {name: _output(output) for name, output in value["outputs"].items()}
    steps = value["step_seconds"]
    if value["mode"] not in MODES:
        raise ValueError("a mode that there is not")
    return Run(
        mode=value["mode"],
        outputs=outputs,
        damaged=tuple(Damage(name, str(reason)) for name, reason in value["damaged"].items()),
        frames=sum(len(output.logits) for output in outputs.values()),
        seconds=float(value["seconds"]),
        step_seconds=None if steps is None else _array(steps, 1),
    )


def _output_values(output: Outputs) -> dict[str, Any]:
    values: dict[str, Any] = {"logits": _array_values(output.logits)}
    if output.anticipation is not None:
        values["anticipation"] = _array_values(output.anticipation)
    if output.late is not None:
        values["late"] = _output_values(output.late)
    return values


def _output(value: Mapping[str, Any], late: bool = True) -> Outputs:
    return Outputs(
        _array(value["logits"], 2),
        _array(value["anticipation"], 3) if "anticipation" in value else None,
        _output(value["late"], late=False) if late and "late" in value else None,
    )


def _array_values(array: NDArray[Any]) -> dict[str, Any]:
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return {
        "dtype": little.dtype.str,
        "shape": list(array.shape),
        "base64": base64.b64encode(little.tobytes()).decode("ascii"),
    }


def _array(value: Mapping[str, Any], dimensions: int) -> NDArray[Any]:
    shape = tuple(int(size) for size in value["shape"])
    if value["dtype"] not in DTYPES or len(shape) != dimensions or min(shape, default=0) < 0:
        raise ValueError("an array of another kind")
    dtype = np.dtype(value["dtype"])
    try:
        data = base64.b64decode(value["base64"], validate=True)
    except binascii.Error as error:
        raise ValueError("an array that is no base64") from error
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise ValueError("an array that is not as long as it says")
    return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="))
