"""Pickles of other projects as memory-mapped .npy files, converted once.

{video: {"rgb": (T, 2048), "flow": (T, 1024), …}} becomes one .npy file for each array, written as soon as it
has been read: memory holds one array at a time, however large the pickle is.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import InputError
from pipelines.features.weight_store import cache_dir
from pipelines.files import write_text
from pipelines.safe_pickle import load_pickle

INDEX = "index.json"
# Arrays of a video, by video and part: {"video_test_0000004": {"rgb": Path, "flow": Path}}
Arrays = dict[str, dict[str, Path]]


@dataclass(frozen=True)
class PickleFile:
    """A pickle, possibly a member of a zip archive."""

    path: Path
    member: str | None = None

    def __str__(self) -> str:
        return str(self.path) if self.member is None else f"{self.path}, {self.member}"

    def load(self, keep: Callable[[NDArray[Any]], NDArray[Any]]) -> Any:
        if self.member is None:
            return load_pickle(self.path, keep=keep)
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as file:
                return load_pickle(file, name=str(self), keep=keep)  # type: ignore[arg-type]
        except (OSError, zipfile.BadZipFile) as error:
            raise InputError(f"{self.path}: not a readable zip archive ({error})") from error

    def folder(self, dtype: str) -> Path:
        """Where its arrays are cached: another folder as soon as the file changes."""
        status = self.path.stat()
        identity = f"{self.path.resolve()}|{self.member}|{status.st_size}|{status.st_mtime_ns}|{dtype}"
        stem = Path(self.member or self.path.name).stem
        return cache_dir() / "datasets" / f"{stem}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"


@dataclass
class _Spill:
    """Writes each array to a numbered file and gives back a memory map of it."""

    folder: Path
    dtype: str
    names: dict[int, str] = field(default_factory=dict)  # id of a memory map -> its file
    kept: list[Any] = field(default_factory=list)  # the maps, so that no id is used twice

    def __call__(self, array: NDArray[Any]) -> NDArray[Any]:
        name = f"{len(self.kept):05d}.npy"
        np.save(self.folder / name, array.astype(self.dtype, copy=False), allow_pickle=False)
        # A zero-length array cannot be mapped, and an empty video has no rows to read.
        mapped = np.load(self.folder / name, mmap_mode="r" if array.size else None, allow_pickle=False)
        self.kept.append(mapped)
        self.names[id(mapped)] = name
        return mapped  # type: ignore[no-any-return]


def cached_arrays(pickle: PickleFile, dtype: str = "float32") -> Arrays:
    """The arrays of a pickle {video: {part: array}} as .npy files, converted now unless they are there already."""
    folder = pickle.folder(dtype)
    if not (folder / INDEX).is_file():
        _convert(pickle, folder, dtype)
    index: dict[str, dict[str, str]] = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    return {video: {part: folder / name for part, name in parts.items()} for video, parts in index.items()}


def _convert(pickle: PickleFile, folder: Path, dtype: str) -> None:
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    try:
        temporary.mkdir(parents=True, exist_ok=True)
        spill = _Spill(temporary, dtype)
        index = _index(pickle, pickle.load(spill), spill.names)
        write_text(temporary / INDEX, json.dumps(index))
        if folder.exists():
            shutil.rmtree(folder)  # a folder without an index is what is left of an older, interrupted conversion
        temporary.rename(folder)
    except OSError as error:
        raise InputError(
            f"{pickle}: cannot be converted into {folder.parent} ({error.strerror or error}); COTRANS_CACHE sets "
            "another folder"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _index(pickle: PickleFile, value: Any, names: dict[int, str]) -> dict[str, dict[str, str]]:
    """{video: {part: file}} from the loaded value; videos that are an array have the one part ""."""
    if not isinstance(value, dict) or not value:
        raise InputError(f"{pickle}: expected a dictionary of videos, not {type(value).__name__}")
    index: dict[str, dict[str, str]] = {}
    for video, content in value.items():
        parts = content if isinstance(content, dict) else {"": content}
        files = {str(part): names[id(array)] for part, array in parts.items() if id(array) in names}
        if not isinstance(video, str) or not files:
            raise InputError(f"{pickle}: the entry {video!r:.60} is not a video with arrays")
        index[video] = files
    return index
