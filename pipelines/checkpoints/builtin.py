"""The models that ship with cotrans, by name."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from pipelines.errors import CheckpointError, InputError, UsageError
from pipelines.features.spec import FeatureSpec
from pipelines.untrusted.parsing import json_value
from pipelines.wording import did_you_mean

SUFFIX = ".safetensors"
RECORDINGS = ".recordings.txt"
_LARGEST_HEADER = 100_000_000  # bytes, as in the safetensors library


@dataclass(frozen=True)
class BuiltinModel:
    """One line of `cotrans models`."""

    name: str
    path: Path
    size: int  # bytes
    class_names: tuple[str, ...]
    features: FeatureSpec | None
    window: int  # rows


def models_folder() -> Path:
    """Where built-in checkpoints lie: `weights/models/NAME.safetensors`."""
    return Path(str(files("weights"))) / "models"


def builtin_names() -> list[str]:
    """The names of all built-in models, sorted."""
    folder = models_folder()
    return sorted(path.stem for path in folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []


def builtin_recordings(path: Path) -> frozenset[str]:
    """The names, without endings, of the recordings that a built-in model was trained on; empty where none are listed.

    They stand in `weights/models/NAME.recordings.txt`, one a line.
    """
    listed = path.with_suffix(RECORDINGS)
    if path.parent != models_folder() or not listed.is_file():
        return frozenset()
    return frozenset(listed.read_text(encoding="utf-8").split())


def builtin_models() -> list[BuiltinModel]:
    """Every built-in model with what its file says about it."""
    paths = [models_folder() / f"{name}{SUFFIX}" for name in builtin_names()]
    return [_described(path) for path in paths]


def _described(path: Path) -> BuiltinModel:
    """What the file says about itself; whether all of it is right is seen when the model is loaded."""
    metadata = read_metadata(path)
    try:
        names, features = json_value(metadata["class_names"]), json_value(metadata["features"])
        spec = None if features is None else FeatureSpec.from_dict(features)
        window = int(json_value(metadata["config"]).get("window", 1))  # a model without memory has no such field
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged: it does not say what it is; install cotrans again") from error
    return BuiltinModel(path.stem, path, path.stat().st_size, tuple(names), spec, window)


def find_model(name_or_path: str | Path) -> Path:
    """The file of a model: a file of that path, the best of a training run, or a built-in model of that name."""
    path = Path(name_or_path).expanduser()
    if path.is_file():
        return path
    text = str(name_or_path)
    names = builtin_names()
    if text in names:
        return models_folder() / f"{text}{SUFFIX}"
    if path.is_dir():
        best = path / f"best{SUFFIX}"
        if best.is_file():
            return best
        raise InputError(f"{path} is a folder without a best{SUFFIX}: give the folder of a training run, or a file")
    if path.suffix or len(path.parts) > 1:  # no name of a model, but a place
        raise InputError(f"there is no model file {text}")
    known = f"built in: {', '.join(names)}" if names else "no model is built into this copy of cotrans"
    raise UsageError(f"there is no model file and no built-in model '{text}'{did_you_mean(text, names)} ({known})")


def model_features(name_or_path: str | Path) -> FeatureSpec:
    """The features that a model takes, read without PyTorch."""
    path = find_model(name_or_path)
    text = read_metadata(path).get("features")
    try:
        features = json_value(text) if text is not None else None
        spec = None if features is None else FeatureSpec.from_dict(features)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged: it does not say which features it takes") from error
    if spec is None:
        raise InputError(f"{path} does not say which features it takes: name them with --features")
    return spec


def read_metadata(path: Path) -> dict[str, str]:
    """What stands under `__metadata__` of a safetensors file, read without PyTorch; empty where there is nothing."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = file.read(length) if length <= _LARGEST_HEADER else b""
    try:
        values = json_value(header)
        return {str(key): str(value) for key, value in values.get("__metadata__", {}).items()}
    except (ValueError, AttributeError) as error:
        raise CheckpointError(f"{path} is damaged, truncated or not a safetensors file") from error
