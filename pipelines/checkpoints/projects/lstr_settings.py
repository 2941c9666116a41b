"""What a checkpoint of LSTR or TeSTra does not say: its YAML configuration, or the same from the command line."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.checkpoints.foreign_files.imported import Hints
from pipelines.errors import CheckpointError, ConfigurationError, UsageError
from pipelines.model.transformer.config import Activation
from pipelines.untrusted.yaml_file import load_yaml
from pipelines.wording import listed, one_line

FRAMES_PER_SECOND = {"THUMOS": 4, "TVSeries": 4}  # of the features that the official programs use
# Keys of the official configurations, with the value that stands where a file does not say it.
_DEFAULTS: dict[str, Any] = {
    "NUM_HEADS": 8,
    "DIM_FEEDFORWARD": 1024,
    "DROPOUT": 0.2,
    "ACTIVATION": "relu",
    "LONG_MEMORY_SECONDS": 0,
    "LONG_MEMORY_SAMPLE_RATE": 1,
    "WORK_MEMORY_SECONDS": 8,
    "WORK_MEMORY_SAMPLE_RATE": 1,
    "WORK_MEMORY_USE_PE": True,
    "LONG_MEMORY_INCLUDE_WORK": False,
    "ENC_ATTENTION_DECAY": 1.0,
    "ENC_MODULE": [[16, 1, True], [32, 2, True]],
    "DEC_MODULE": [-1, 2, True],
}
# Keys that TeSTra's program has and LSTR's has not: LSTR's own adds positions to the long memory without being asked.
_OF_TESTRA = ("LONG_MEMORY_INCLUDE_WORK", "LONG_MEMORY_INCLUDE_WORK2", "ENC_ATTENTION_DECAY", "WORK_MEMORY_USE_PE")
# Keys of either program that change nothing in a model that is not trained.
_OTHERS = (
    "LONG_MEMORY_USE_PE",
    "DROPOUT_CLS",
    "AGES_MEMORY_SECONDS",
    "AGES_MEMORY_SAMPLE_RATE",
    "ANTICIPATION_SAMPLE_RATE",
    "LOSS_ANTICIPATE_ONLY",
    "LOSS_WEIGHT_V",
    "LOSS_WEIGHT_N",
    "FUSION_WEIGHT_V",
    "FUSION_WEIGHT_N",
    "INFERENCE_MODE",
)
_COMPUTED = ("_LENGTH", "_NUM_SAMPLES")  # what the programs add themselves: a configuration that they wrote has it
# What changes the model in a way that is not supported: key, values that are, and what it is.
_UNSUPPORTED: tuple[tuple[str, tuple[object, ...], str], ...] = (
    ("ANTICIPATION_SECONDS", (0,), "an anticipation model, which predicts frames to come"),
    ("V_N_CLASSIFIER", (False,), "a model with verb and noun heads (EPIC-KITCHENS)"),
    ("LONG_MEMORY_INCLUDE_WORK2", (False,), "a model whose long memory includes the work memory"),
    ("ENC_ATTENTION_TYPE", ("dotproduct",), "a model with another kind of attention"),
    ("FC_NORM", (False,), "a model with a normalised classifier"),
)


@dataclass(frozen=True)
class Structure:
    """The layers, as the configuration says them; compared with those of the weights."""

    feed_forward: int
    encoder: tuple[tuple[int, int, bool], ...]  # queries (0: none), layers, norm, for each module
    decoder: tuple[int, bool]  # layers, norm
    feature_head: bool
    width: int  # of the feature heads, -1: as wide as their input
    classes: int | None  # None: not said


@dataclass(frozen=True)
class LstrSettings:
    """What has to be known beside the weights. Memories in frames."""

    heads: int
    long_frames: int
    long_rate: int
    work_frames: int
    work_rate: int
    long_positions: bool
    work_positions: bool
    include_work: bool
    decay: float
    activation: Activation
    dropout: float
    structure: Structure | None  # None: not said
    notes: tuple[str, ...]
    class_names: tuple[str, ...] | None = None


# The flags that take the place of a configuration: field of Hints, and what it is.
FLAGS = {
    "heads": "attention heads",
    "fps": "frames per second",
    "long_seconds": "seconds of long memory",
    "long_rate": "frames from one sample of the long memory to the next",
    "work_seconds": "seconds of work memory",
    "long_positions": "whether the long memory has positions: LSTR's has, TeSTra's has not",
    "include_work": "whether the decoder looks at the work memory beside the long one: TeSTra's does",
    "decay": "ENC_ATTENTION_DECAY, 1 for none",
}


def read_settings(path: Path, hints: Hints) -> LstrSettings:
    """The settings for the checkpoint `path`, from `hints.config` or from the flags."""
    if hints.config is not None:
        return _from_yaml(hints.config, hints)
    missing = [name for name in FLAGS if getattr(hints, name) is None]
    if missing:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in missing)
        raise UsageError(
            f"{path} is an LSTR or TeSTra, whose file does not say its memories: add --config with its YAML file, or "
            f"{flags} ({FLAGS[missing[0]]}{', …' * (len(missing) > 1)})"
        )
    given = {name: getattr(hints, name) for name in FLAGS}
    return LstrSettings(
        heads=given["heads"],
        long_frames=_frames("--long-seconds", given["long_seconds"], given["fps"]),
        long_rate=given["long_rate"],
        work_frames=_frames("--work-seconds", given["work_seconds"], given["fps"]),
        work_rate=hints.work_rate or 1,
        long_positions=given["long_positions"],
        work_positions=True,
        include_work=given["include_work"],
        decay=given["decay"],
        activation=hints.activation or "relu",
        dropout=_DEFAULTS["DROPOUT"],
        structure=None,
        notes=(),
    )


def _from_yaml(path: Path, hints: Hints) -> LstrSettings:
    others = [name for name in (*FLAGS, "work_rate", "activation") if getattr(hints, name) is not None]
    # The frame rate is not in the file but in the program's list of datasets.
    useless = [name for name in others if name != "fps"]
    if useless:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in useless)
        raise UsageError(f"{flags}: {path} says it already: leave {'them' if len(useless) > 1 else 'it'} out")
    document = load_yaml(path)
    model = _section(document, "MODEL", path)
    name = model.get("MODEL_NAME")
    if name not in (None, "", "LSTR"):
        raise CheckpointError(f"{path} is of a {one_line(str(name))}, not of an LSTR or TeSTra (MODEL_NAME)")
    given = _section(model, "LSTR", path)
    for key, fine, what in _UNSUPPORTED:
        if key in given and given[key] not in fine:
            raise CheckpointError(f"{path} is of {what} ({key}: {one_line(str(given[key]))}): not supported yet")
    values = {key: _typed(key, given.get(key, default), default, path) for key, default in _DEFAULTS.items()}
    data, head = _section(document, "DATA", path), _section(model, "FEATURE_HEAD", path)
    fps = _frame_rate(data, hints, path)
    positions, notes = _long_positions(document, given, path)
    classes, class_names = _classes(data, path)
    return LstrSettings(
        heads=values["NUM_HEADS"],
        long_frames=_frames("LONG_MEMORY_SECONDS", values["LONG_MEMORY_SECONDS"], fps),
        long_rate=values["LONG_MEMORY_SAMPLE_RATE"],
        work_frames=_frames("WORK_MEMORY_SECONDS", values["WORK_MEMORY_SECONDS"], fps),
        work_rate=values["WORK_MEMORY_SAMPLE_RATE"],
        long_positions=positions,
        work_positions=values["WORK_MEMORY_USE_PE"],
        include_work=values["LONG_MEMORY_INCLUDE_WORK"],
        decay=float(values["ENC_ATTENTION_DECAY"]),
        activation=_activation(values["ACTIVATION"], path),
        dropout=float(values["DROPOUT"]),
        structure=Structure(
            values["DIM_FEEDFORWARD"],
            tuple(_module("ENC_MODULE", module, path) for module in values["ENC_MODULE"]),
            _module("DEC_MODULE", values["DEC_MODULE"], path)[1:],
            _typed("LINEAR_ENABLED", head.get("LINEAR_ENABLED", True), True, path),
            _typed("LINEAR_OUT_FEATURES", head.get("LINEAR_OUT_FEATURES", 1024), 1024, path),
            classes,
        ),
        notes=notes + _unknown(given, path),
        class_names=class_names,
    )


def _section(document: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    section = document.get(name, {})
    if not isinstance(section, dict):
        raise CheckpointError(f"{path}: {name} is not a group of keys, so this is no configuration of LSTR or TeSTra")
    if name == "MODEL" and "LSTR" not in section:
        raise CheckpointError(f"{path} has no MODEL: LSTR, so this is no configuration of LSTR or TeSTra")
    return section


def _typed(key: str, value: object, default: object, path: Path) -> Any:
    """A value of the kind that the official program has there."""
    wanted = type(default)
    if (
        isinstance(value, str) and wanted is not str
    ):  # the programs evaluate words: 5e-2, which YAML does not call a number
        value = _literal(value)
    if wanted is list and isinstance(value, tuple):
        value = list(value)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not wanted:
        what = {int: "a whole number", float: "a number", bool: "True or False", str: "a word"}.get(wanted, "a list")
        raise CheckpointError(f"{path}: {key} must be {what}, not {one_line(repr(value))}")
    return value


def _literal(text: str) -> object:
    """The value that a word stands for, or the word."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _frame_rate(data: Mapping[str, Any], hints: Hints, path: Path) -> float:
    stated = data.get("FPS")
    if stated is None:
        stated = FRAMES_PER_SECOND.get(str(data.get("DATA_NAME")))
    if stated is None:
        if hints.fps is None:
            known = ", ".join(FRAMES_PER_SECOND)
            raise UsageError(f"{path} does not say its frames per second (it is not for {known}): add --fps")
        return hints.fps
    rate = float(_typed("FPS", stated, 1.0, path))
    if not 0 < rate < math.inf:
        raise CheckpointError(f"{path}: FPS must be above 0, not {rate:g}")
    if hints.fps not in (None, rate):
        raise UsageError(f"--fps {hints.fps:g}, but {path} is for {rate:g} frames per second: leave --fps out")
    return rate


def _classes(data: Mapping[str, Any], path: Path) -> tuple[int | None, tuple[str, ...] | None]:
    """How many classes there are and their names, where the file says so itself instead of the program's list."""
    names, stated = data.get("CLASS_NAMES"), data.get("NUM_CLASSES")
    count = None if stated is None else int(_typed("NUM_CLASSES", stated, 1, path))
    if names is None:
        return count, None
    names = tuple(str(name) for name in _typed("CLASS_NAMES", names, [], path))
    if count not in (None, len(names)):
        raise CheckpointError(f"{path} has {len(names)} CLASS_NAMES, but NUM_CLASSES is {count}: correct one of them")
    return len(names), names


def _unknown(given: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    """A note about keys that neither program has: a mistyped one would otherwise be a default without a word."""
    known = {*_DEFAULTS, *_OTHERS, *(key for key, _, _ in _UNSUPPORTED)}
    others = [key for key in map(str, given) if key not in known and not key.endswith(_COMPUTED)]
    return (f"{path} has keys that LSTR and TeSTra do not know, not looked at: {listed(others)}",) if others else ()


def _long_positions(document: Mapping[str, Any], given: Mapping[str, Any], path: Path) -> tuple[bool, tuple[str, ...]]:
    """Whether the long memory has positions: where nothing says so, it depends on whose program it is."""
    if "LONG_MEMORY_USE_PE" in given:
        return bool(_typed("LONG_MEMORY_USE_PE", given["LONG_MEMORY_USE_PE"], False, path)), ()
    data = document.get("INPUT")
    testra = any(key in given for key in _OF_TESTRA) or (isinstance(data, dict) and "OBJECT_FEATURE" in data)
    if testra:
        return False, ("no positions on the long memory: TeSTra's default (LONG_MEMORY_USE_PE is not said)",)
    return True, ("positions on the long memory: LSTR's own program always has them (LONG_MEMORY_USE_PE is not said)",)


def _activation(value: str, path: Path) -> Activation:
    if value == "relu":
        return "relu"
    if value == "gelu":
        return "gelu"
    raise CheckpointError(f"{path}: ACTIVATION is {one_line(value)}, but only relu and gelu are supported")


def _module(key: str, value: object, path: Path) -> tuple[int, int, bool]:
    """[queries, layers, norm], in which -1 queries means none."""
    if isinstance(value, list) and len(value) == 3:
        queries, layers, norm = value
        numbers = all(isinstance(number, int) and not isinstance(number, bool) for number in (queries, layers))
        if numbers and isinstance(norm, bool) and layers >= 1 and (queries >= 1 or queries == -1):
            return max(queries, 0), layers, norm
    raise CheckpointError(f"{path}: {key} has {one_line(repr(value))} instead of [queries, layers, norm]")


def _frames(name: str, seconds: float, fps: float) -> int:
    frames = seconds * fps
    if not math.isfinite(frames) or frames != int(frames):
        raise ConfigurationError(f"{name} {seconds:g} at {fps:g} frames per second is no whole number of frames")
    return int(frames)
