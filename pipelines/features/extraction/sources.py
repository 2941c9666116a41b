"""Which recordings a command line names, and what each one's output is called."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import InputError, SourceError, UsageError
from pipelines.files import is_file, is_folder

# What is picked out of a folder. A file that is named itself may have any suffix.
AUDIO_SUFFIXES = frozenset(
    {".aac", ".ac3", ".aif", ".aifc", ".aiff", ".amr", ".ape", ".au", ".caf", ".dts", ".eac3", ".flac"}
    | {".m4a", ".m4b", ".mka", ".mp2", ".mp3", ".mpc", ".oga", ".ogg", ".opus", ".ra", ".snd", ".spx"}
    | {".tta", ".voc", ".w64", ".wav", ".wave", ".weba", ".wma", ".wv"}
)
VIDEO_SUFFIXES = frozenset(
    {".3g2", ".3gp", ".asf", ".avi", ".dv", ".f4v", ".flv", ".gif", ".h264", ".hevc", ".ivf", ".m1v"}
    | {".m2ts", ".m2v", ".m4v", ".mjpeg", ".mjpg", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".mts", ".mxf"}
    | {".nut", ".ogm", ".ogv", ".rm", ".rmvb", ".ts", ".vob", ".webm", ".wmv", ".y4m"}
)
MEDIA_SUFFIXES = AUDIO_SUFFIXES | VIDEO_SUFFIXES
LIST_SUFFIXES = frozenset({".txt", ".list", ".lst"})


@dataclass(frozen=True)
class Recording:
    """One input file and the name of its output, which may have folders in it."""

    path: Path
    name: str


@dataclass(frozen=True)
class Selection:
    """What a command line's sources come to."""

    recordings: tuple[Recording, ...]  # sorted by name
    missing: tuple[str, ...]  # named and not there
    ignored: int  # files in folders that do not look like media


@dataclass(frozen=True)
class _Candidate:
    path: Path
    root: Path  # the output mirrors the folders below this one


def find_recordings(sources: Sequence[str]) -> Selection:
    """Expand folders (recursively), globs and list files (.txt: one path per line, relative to the list).

    Outputs mirror the folders below what was named, so that two files with the same name in different
    folders do not meet. Where they still would (`a.wav` and `a.mp4`, or `one/a.wav` and `two/a.wav` named one
    by one), the name keeps what tells them apart.
    """
    candidates: dict[Path, _Candidate] = {}  # by resolved path: a file that is named twice is extracted once
    missing: list[str] = []
    ignored = 0
    for source in sources:
        if not source:
            raise UsageError("a source is empty: name a file, folder, glob or list file")
        path = Path(source)
        if is_folder(path):
            media, others = _media_below(path)
            if not media:
                raise SourceError(
                    source, "no audio or video file in this folder: name another, or the files themselves"
                )
            ignored += others
            named = [_Candidate(file, path) for file in media]
        elif is_file(path) and path.suffix.lower() in LIST_SUFFIXES:
            listed, absent = _read_list(path)
            missing += absent
            root = _common_folder(listed) if listed else path.parent
            named = [_Candidate(file, root) for file in listed]
        elif is_file(path):
            named = [_Candidate(path, path.parent)]
        elif glob.has_magic(source):
            named = [_Candidate(file, _fixed_part(source)) for file in _expand(source)]
            if not named:
                raise SourceError(source, "no file matches: correct the pattern")
        else:
            missing.append(source)
            named = []
        for candidate in named:
            candidates.setdefault(candidate.path.resolve(), candidate)
    recordings = sorted(_named(list(candidates.values())), key=lambda recording: recording.name)
    if not recordings and not missing:
        raise UsageError("no source was given: name files, folders, globs or list files")
    return Selection(tuple(recordings), tuple(missing), ignored)


def recordings_in(place: Path, option: str) -> tuple[Recording, ...]:
    """The recordings of the folder (or file, or list) that an option names; all of them have to be there."""
    found = find_recordings([str(place)])
    if found.missing:
        raise InputError(f"{option}: {found.missing[0]} is not there: name a folder of recordings")
    return found.recordings


def _media_below(folder: Path) -> tuple[list[Path], int]:
    """Media files below a folder, and how many other files there are; hidden ones do not count."""
    media, others = [], 0
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.startswith("."):
                continue
            path = Path(root) / name
            if path.suffix.lower() in MEDIA_SUFFIXES and path.is_file():  # a named pipe would be waited for
                media.append(path)
            else:
                others += 1
    return media, others


def _read_list(path: Path) -> tuple[list[Path], list[str]]:
    """The files that a list names, and the lines that name none; empty lines and # remarks are left out."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise SourceError(
            str(path),
            f"a {path.suffix} file is read as a list of files, a path per line, and this is no UTF-8 text: "
            "if it is media, give it its own suffix, such as .wav",
        ) from error
    except OSError as error:
        raise InputError(f"cannot read the list {path}: {error}") from error
    files, missing = [], []
    for line in map(str.strip, lines):
        if not line or line.startswith("#"):
            continue
        file = path.parent / line
        if is_file(file):
            files.append(file)
        else:
            missing.append(f"{line} (in {path})")
    return files, missing


def _expand(pattern: str) -> list[Path]:
    # Path.glob takes no absolute patterns.
    matches = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207
    return [Path(match) for match in matches if Path(match).is_file()]


def _fixed_part(pattern: str) -> Path:
    """The folder before the first wildcard."""
    parts = Path(pattern).parts
    first = next(index for index, part in enumerate(parts) if glob.has_magic(part))
    return Path(*parts[:first])


def _named(candidates: list[_Candidate]) -> list[Recording]:
    names = [_relative(candidate.path, candidate.root).with_suffix("").as_posix() for candidate in candidates]
    counts = Counter(names)
    clashing = [index for index, name in enumerate(names) if counts[name] > 1]
    if clashing:
        absolute = {index: _absolute(candidates[index].path) for index in clashing}
        root = _common_folder(list(absolute.values()))
        for index, path in absolute.items():
            names[index] = path.relative_to(root).with_suffix("").as_posix()
        counts = Counter(names)
        for index in clashing:
            if counts[names[index]] > 1:  # the suffix tells them apart
                names[index] = absolute[index].relative_to(root).as_posix()
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise UsageError(f"two inputs would both be written as '{twice}': extract them to different folders")
    return [Recording(candidate.path, name) for candidate, name in zip(candidates, names, strict=True)]


def _relative(path: Path, root: Path) -> Path:
    return Path(os.path.relpath(path, root))


def _absolute(path: Path) -> Path:
    """Without `..`, but with symbolic links as they were named."""
    return Path(os.path.normpath(path.absolute()))


def _common_folder(paths: list[Path]) -> Path:
    return Path(os.path.commonpath([_absolute(path).parent for path in paths]))
