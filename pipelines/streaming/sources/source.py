"""What the sources on a command line mean."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pipelines.errors import InputError, SourceError, UsageError
from pipelines.features.extraction.sources import LIST_SUFFIXES, find_recordings
from pipelines.files import is_file, is_folder

# features: rows that were extracted before. pipe: standard input.
Kind = Literal["media", "features", "url", "camera", "microphone", "pipe"]
PICKLES = (".pickle", ".pkl")
TIMES = ".times.npy"  # beside our feature files; no features themselves


@dataclass(frozen=True)
class StreamSource:
    """One stream to play."""

    kind: Kind
    name: str  # as it is called in the output
    target: str  # path, address or device
    entry: str | None = None  # the video of an OadTR pickle
    problem: str | None = None  # why it cannot be played: it fails at once, and the others play
    list_file: str | None = None  # the list that names it
    output: str | None = None  # name of its output without suffix, with the folders below what was named; None: its own
    model: str | None = None  # who watches it, where several models do

    @property
    def device(self) -> bool:
        return self.kind in ("camera", "microphone")

    @property
    def repeatable(self) -> bool:
        """Whether it can be played from the beginning again, with the same content."""
        return self.kind in ("media", "features")

    @property
    def files(self) -> list[Path]:
        """Everything on the disk that playing it reads."""
        named = [Path(self.list_file)] if self.list_file else []
        if self.kind == "features":
            parts = [Path(part) for part in feature_paths(self.target)]
            # What stands beside our feature files says what they hold.
            beside = [part.with_suffix(end) for part in parts if part.suffix == ".npy" for end in (".json", TIMES)]
            return [*named, *parts, *beside]
        return [*named, Path(self.target)] if self.kind == "media" else named


def feature_paths(target: str) -> list[str]:
    """The files of a feature source: `rgb.npy+flow.npy` are two, unless one file is called so."""
    return [target] if is_file(Path(target)) else target.split("+")


def find_sources(texts: Sequence[str]) -> list[StreamSource]:
    """Files, folders, quoted globs, lists (.txt), addresses, `camera:0`, `mic:` and `-`, in the order given.

    What is not there is a source with a `problem`.
    """
    sources = [source for text in texts for source in _expand(text)]
    if not sources:
        raise UsageError("no source was given: name a file, folder, address, camera:0, mic: or - (standard input)")
    if sum(source.kind == "pipe" for source in sources) > 1:
        raise UsageError("standard input can be read only once: give one -")
    return sources


def _expand(text: str) -> list[StreamSource]:
    if not text:
        raise UsageError("a source is empty: name a file, folder, address, camera:0, mic: or -")
    if text == "-":
        return [StreamSource("pipe", "-", "-")]
    scheme, colon, rest = text.partition(":")
    if colon and scheme == "camera":
        return [StreamSource("camera", text, rest or "0")]
    if colon and scheme in ("mic", "microphone"):
        return [StreamSource("microphone", text, rest or "default")]
    if "://" in text and not text.startswith("file://"):
        return [StreamSource("url", text, text)]
    path = Path(text.removeprefix("file://"))
    if is_folder(path):
        return _folder(path)
    if is_file(path) and path.suffix.lower() in LIST_SUFFIXES:
        return _list(path)
    if os.path.exists(path):  # noqa: PTH110  which takes any name
        return [_file(path)]
    return _joined_or_entry(text) or _matching(text)


def _file(path: Path) -> StreamSource:
    if path.suffix.lower() not in (".npy", *PICKLES):
        return StreamSource("media", str(path), str(path))
    if not path.is_file():  # a named pipe would be waited for, and cannot be mapped
        return _unplayable(str(path), "features are read from a file, and this is none")
    return StreamSource("features", str(path), str(path))


def _folder(folder: Path) -> list[StreamSource]:
    """The media below a folder; where there is none, the feature files in it."""
    try:
        recordings = find_recordings([str(folder)]).recordings
        return [replace(_file(recording.path), output=recording.name) for recording in recordings]
    except InputError:
        features = [path for path in sorted(folder.rglob("*.npy")) if _is_played(path)]
        named = [(path, path.relative_to(folder).with_suffix("").as_posix()) for path in features]
        return [replace(_file(path), output=name) for path, name in named] or [
            _unplayable(str(folder), "no audio, video or feature file in this folder")
        ]


def _list(path: Path) -> list[StreamSource]:
    """The files that a list names."""
    try:
        recordings = find_recordings([str(path)])
    except (InputError, UsageError) as error:  # it cannot be read, or it is empty
        return [_unplayable(str(path), error.problem if isinstance(error, SourceError) else str(error))]
    there = [_file(recording.path) for recording in recordings.recordings]
    listed = there + [_unplayable(name, "no such file") for name in recordings.missing]
    return [replace(source, list_file=str(path)) for source in listed]


def _joined_or_entry(text: str) -> list[StreamSource]:
    """`rgb.npy+flow.npy`, features to put side by side, and `features.pickle:VIDEO`."""
    parts = text.split("+")
    if len(parts) > 1 and all(part.endswith(".npy") and is_file(Path(part)) for part in parts):
        return [StreamSource("features", text, text)]
    name, colon, entry = text.rpartition(":")
    if colon and is_file(Path(name)) and Path(name).suffix.lower() in PICKLES:
        return [StreamSource("features", text, name, entry)]
    return []


def _matching(text: str) -> list[StreamSource]:
    if not glob.has_magic(text):
        return [_unplayable(text, "no such file")]
    # Path.glob takes no absolute patterns.
    matches = [Path(match) for match in sorted(glob.glob(text, recursive=True))]  # noqa: PTH207
    files = [path for path in matches if _is_played(path)]
    return [_file(path) for path in files] or [_unplayable(text, "no file matches")]


def _is_played(path: Path) -> bool:
    return path.is_file() and not path.name.endswith(TIMES)


def _unplayable(name: str, problem: str) -> StreamSource:
    return StreamSource("media", name, name, problem=f"{name}: {problem}")
