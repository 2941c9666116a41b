"""Pickles of other projects as memory-mapped .npy files, converted once.

{video: {"rgb": (T, 2048), "flow": (T, 1024), …}} becomes one .npy file for each array, written as soon as it
has been read: memory holds one array at a time, however large the pickle is.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.mixing.prepared_folder import INDEX, prepared_folder
from pipelines.errors import InputError
from pipelines.files import write_text
from pipelines.untrusted.archives import unpacked_bound
from pipelines.untrusted.safe_pickle import load_pickle

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
            archive = zipfile.ZipFile(self.path)
        except (OSError, zipfile.BadZipFile) as error:
            raise InputError(f"{self.path}: not a readable zip archive ({error}); download it again") from error
        most = unpacked_bound(self.path.stat().st_size)
        with archive, self._opened(archive) as file:
            if archive.getinfo(str(self.member)).file_size > most:
                raise InputError(
                    f"{self}: unpacks to more than {most:,} bytes, which no annotations do: if it is right, unpack the "
                    "archive and give the folder"
                )
            return load_pickle(cast(BinaryIO, file), name=str(self), keep=keep)

    def _opened(self, archive: zipfile.ZipFile) -> IO[bytes]:
        try:
            return archive.open(str(self.member))
        except (KeyError, NotImplementedError, OSError, zipfile.BadZipFile) as error:
            raise InputError(f"{self}: cannot be read ({error}); unpack the archive and give the folder") from error
        except RuntimeError as error:  # for a password; NotImplementedError is one too, hence the order
            raise InputError(f"{self}: encrypted; unpack the archive and give the folder") from error

    @property
    def identity(self) -> str:
        """Another text as soon as the file changes."""
        status = self.path.stat()
        return f"{self.path.resolve()}|{self.member}|{status.st_size}|{status.st_mtime_ns}"


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

    def prepare(folder: Path) -> None:
        spill = _Spill(folder, dtype)
        index = _index(pickle, pickle.load(spill), spill.names)
        write_text(folder / INDEX, json.dumps(index))

    stem = Path(pickle.member or pickle.path.name).stem
    folder = prepared_folder(stem, f"{pickle.identity}|{dtype}", prepare)
    stored: dict[str, dict[str, str]] = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    return {video: {part: folder / name for part, name in parts.items()} for video, parts in stored.items()}


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
