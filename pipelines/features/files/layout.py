"""Which files hold the features of one recording: our own layout and those that other projects read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from pipelines.errors import UsageError
from pipelines.features.networks.file_names import is_network_file
from pipelines.features.networks.files import network_path
from pipelines.features.spec import ExtractorSpec, FeatureSpec

Layout = Literal["npy", "lstr", "oadtr", "video_features"]
LAYOUTS: tuple[str, ...] = get_args(Layout)
OADTR_PICKLE = "features.pickle"
# In the oadtr layout, the files that the pickle is made of (and that a later run goes on from).
OADTR_PARTS = "parts"

TagOf = Callable[[str], str | None]  # from the checksum of weights to the short name of their training set


@dataclass(frozen=True)
class RowFile:
    """A .npy file with columns `start` to `stop` of every row."""

    path: Path
    start: int
    stop: int


@dataclass(frozen=True)
class TargetFiles:
    """Everything that is written for one recording."""

    rows: tuple[RowFile, ...]
    times: Path
    times_per_second: int  # 1: seconds; 1000: milliseconds
    rate: Path | None  # a file with the number of rows per second
    manifest: Path  # written last: what it describes is complete

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files, the manifest last."""
        rate = (self.rate,) if self.rate else ()
        return (*(file.path for file in self.rows), self.times, *rate, self.manifest)


def target_files(layout: str, folder: Path, name: str, spec: FeatureSpec, tag_of: TagOf) -> TargetFiles:
    """The files of recording `name` ("a" or "talks/a") in the output folder."""
    if layout == "npy":
        return _npy(folder, name, spec)
    if layout == "oadtr":
        _distinct([modality(part) for part in spec.parts], layout)
        return _npy(folder / OADTR_PARTS, name, spec)
    if layout == "lstr":
        folders = [_lstr_folder(part, tag_of) for part in spec.parts]
        _distinct(folders, layout)
        rows = _row_files(spec, [folder / sub / f"{name}.npy" for sub in folders])
        # By the features that were extracted together: others may join them in later runs.
        manifests = folder / "manifests" / "+".join(folders)
        return TargetFiles(rows, manifests / f"{name}.times.npy", 1, None, manifests / f"{name}.json")
    if layout == "video_features":
        suffixes = [_video_features_suffix(part) for part in spec.parts]
        _distinct(suffixes, layout)
        rows = _row_files(spec, [folder / f"{name}_{suffix}.npy" for suffix in suffixes])
        times = folder / f"{name}_timestamps_ms.npy"
        return TargetFiles(rows, times, 1000, folder / f"{name}_fps.npy", folder / f"{name}.json")
    raise UsageError(f"unknown layout '{layout}': choose from {', '.join(LAYOUTS)}")


def modality(part: ExtractorSpec) -> str:
    """`rgb`, `flow` or `audio`: the keys of OadTR's pickles."""
    if part.kind == "audio":
        return "audio"
    return "flow" if part.name.endswith("-flow") else "rgb"


def _npy(folder: Path, name: str, spec: FeatureSpec) -> TargetFiles:
    rows = (RowFile(folder / f"{name}.npy", 0, spec.width),)
    return TargetFiles(rows, folder / f"{name}.times.npy", 1, None, folder / f"{name}.json")


def _row_files(spec: FeatureSpec, paths: list[Path]) -> tuple[RowFile, ...]:
    files, start = [], 0
    for part, path in zip(spec.parts, paths, strict=True):
        files.append(RowFile(path, start, start + part.width))
        start += part.width
    return tuple(files)


def _network(part: ExtractorSpec) -> str:
    """The network's name as it can stand in a file name."""
    if is_network_file(part.name):
        return network_path(part.name).stem
    return part.name.removesuffix("-flow").replace(":", "_")


def _lstr_folder(part: ExtractorSpec, tag_of: TagOf) -> str:
    """`rgb_kinetics_resnet50` and the like; without the middle where nobody knows the training set."""
    tag = part.weights if part.weights == "random" else tag_of(part.weights) if part.weights else None
    return "_".join(filter(None, (modality(part), tag, _network(part))))


def _video_features_suffix(part: ExtractorSpec) -> str:
    """`VIDEO_resnet.npy`: the names that video_features gives where it has the network too."""
    if modality(part) == "flow":
        return "flow"
    return "resnet" if part.name == "resnet50" else _network(part)


def _distinct(names: list[str], layout: str) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"the {layout} layout has one place for '{twice}': extract the features in two runs")
