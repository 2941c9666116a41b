"""Datasets by name: fetched from their public homes (`data/homes.toml`), checked, and unpacked in one step."""

from __future__ import annotations

import csv
import json
import os
import shutil
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any

from pipelines.datasets.opening import ROOT_VARIABLE
from pipelines.download import Download, Progress, RefusedError, UnexpectedFileError, download
from pipelines.errors import ConfigurationError, InputError, UsageError
from pipelines.file_lock import file_lock
from pipelines.files import file_sha256, unwritable, write_text
from pipelines.settings import cache_dir
from pipelines.untrusted.archives import unpack
from pipelines.untrusted.toml import loads_toml
from pipelines.wording import did_you_mean

SOURCE = "cotrans-source.json"  # in an unpacked dataset: where it came from; written last
SLACK = 2  # sizes in the registry are measured once; an archive may grow, but not without end
OTHERWISE = "name another folder with --root"


@dataclass(frozen=True)
class DatasetHome:
    """Where a dataset is published and what its archive must be."""

    name: str
    title: str
    url: str
    licence: str
    about_size: int  # bytes
    unpacked: int  # bytes
    dataset: str  # what --dataset takes for it
    sha256: str | None = None
    strip: int = 0  # leading folders that are taken off
    keep: tuple[str, ...] = ()  # members that begin so; none: all
    whole: bool = False  # the archive is not unpacked
    only: str | None = None  # the column of meta/esc50.csv that says which clips belong to it

    @property
    def file(self) -> str:
        return PurePosixPath(self.url).name

    def place(self, member: str) -> str | None:
        """Where a member of the archive goes; None: it is left out."""
        inner = "/".join(PurePosixPath(member).parts[self.strip :])
        wanted = not self.keep or inner.startswith(self.keep)
        return inner if inner and wanted and not PurePosixPath(inner).name.startswith("._") else None


@dataclass(frozen=True)
class Fetched:
    """What `get_dataset` brought."""

    home: DatasetHome
    root: Path
    files: int
    new: bool  # False: it was there already
    sha256: str
    first_use: bool  # nobody publishes its checksum, and this is the first one that was seen here


@cache
def known_homes() -> dict[str, DatasetHome]:
    """The registry that ships with cotrans."""
    text = (resources.files("pipelines.datasets.published") / "data" / "homes.toml").read_text(encoding="utf-8")
    return {name: _home(name, values) for name, values in loads_toml(text, "homes.toml").items()}


def find_home(name: str, homes: dict[str, DatasetHome] | None = None) -> DatasetHome:
    """The entry of a name; an unknown one is a UsageError."""
    homes = known_homes() if homes is None else homes
    if name not in homes:
        raise UsageError(
            f"no dataset called '{name}' can be fetched{did_you_mean(name, homes)} (there are {', '.join(homes)})"
        )
    return homes[name]


def default_root(home: DatasetHome, root: Path | None) -> Path:
    """The folder to fetch a dataset to: the one that was named, or one in COTRANS_DATA."""
    if root is not None:
        return root
    if not (data := os.environ.get(ROOT_VARIABLE)):
        raise UsageError(f"name the folder to make with --root (or set {ROOT_VARIABLE}): --root {home.name}/")
    return Path(data) / home.name


def get_dataset(
    home: DatasetHome, root: Path, on_progress: Progress | None = None, *, accept_changed: bool = False
) -> Fetched:
    """Fetch a dataset into the folder `root`, which must be new or empty (or hold it already).

    The archive's bytes so far lie beside `root` and are gone on with after any interruption. A folder gets its name
    when everything is in it; a killed run leaves none. accept_changed: take an archive whose checksum is not that of
    the first one that was fetched here.
    """
    root = root.expanduser()
    try:
        with file_lock(root.with_name(f".{root.name}.lock")):
            there = _held(home, root)
            return there if there is not None else _fetch(home, root, on_progress, accept_changed)
    except OSError as error:
        raise InputError(unwritable(root, error, OTHERWISE)) from error


def fetched_before(home: DatasetHome, root: Path) -> Fetched | None:
    """What an earlier call left in `root`, without any network; an error where something else is there."""
    try:
        return _held(home, root.expanduser())
    except OSError as error:
        raise InputError(unwritable(root, error, OTHERWISE)) from error


def _held(home: DatasetHome, root: Path) -> Fetched | None:
    """What an earlier call left in `root`; an error where something else is there."""
    if not root.exists():
        return None
    if not root.is_dir():
        raise InputError(f"cannot unpack {home.name} to {root}: it is a file; {OTHERWISE}")
    try:
        record = json.loads((root / SOURCE).read_text(encoding="utf-8"))
        if record["name"] == home.name:
            return Fetched(home, root, int(record["files"]), False, str(record["sha256"]), False)
    except (OSError, ValueError, KeyError, TypeError):
        record = None
    if record is not None or any(root.iterdir()):
        what = f"the dataset {record['name']}" if record else "other files"
        raise InputError(f"{root} holds {what} already: {OTHERWISE}, or empty it first")
    return None


def _fetch(home: DatasetHome, root: Path, on_progress: Progress | None, accept_changed: bool) -> Fetched:
    known = home.sha256 or (None if accept_changed else _recorded(home))
    archive = root.with_name(f".{root.name}.{home.file}")
    try:
        download(Download(home.url, archive, known, most=SLACK * home.about_size, otherwise=OTHERWISE), on_progress)
    except RefusedError as error:
        raise RefusedError(
            f"{error}; its home may have moved: unpack a copy from elsewhere into a folder, and name that where it is "
            f"used (--dataset {home.dataset} --root FOLDER)"
        ) from error
    except UnexpectedFileError as error:
        if known is None:
            raise
        if home.sha256:
            raise UnexpectedFileError(
                f"{error}; try again later, or unpack a copy from elsewhere into a folder, and name that where it is "
                f"used (--dataset {home.dataset} --root FOLDER)"
            ) from error
        raise UnexpectedFileError(
            f"{error}; it is not what was fetched here before (--accept-changed takes a new version)"
        ) from error
    digest = file_sha256(archive)
    try:
        files = _install(home, archive, root, digest)
    except InputError:
        archive.unlink(missing_ok=True)  # it is not what it should be: nothing to go on from
        raise
    archive.unlink(missing_ok=True)
    if known is None:
        _record(home, digest)
    return Fetched(home, root, files, True, digest, known is None)


def _install(home: DatasetHome, archive: Path, root: Path, digest: str) -> int:
    """Unpack an archive beside `root` and give the folder its name when it is complete; the number of files."""
    temporary = root.with_name(f".{root.name}.part")
    shutil.rmtree(temporary, ignore_errors=True)  # of a killed run
    try:
        temporary.mkdir(parents=True)
        if home.whole:
            shutil.copyfile(archive, temporary / home.file)
            files = 1
        else:
            files = unpack(archive, temporary, home.place, SLACK * home.unpacked)
            if not files:
                raise InputError(f"{home.url} holds nothing of {home.name}: its home may have changed")
        if home.only:
            files -= _keep_only(temporary, home.only)
        record = {"name": home.name, "url": home.url, "sha256": digest, "files": files, "licence": home.licence}
        write_text(temporary / SOURCE, json.dumps(record, indent=2) + "\n")
        if root.exists():
            root.rmdir()
        temporary.rename(root)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return files


def _keep_only(folder: Path, column: str) -> int:
    """Remove the clips whose row does not say True in `column`, and their rows; how many clips went."""
    table = folder / "meta" / "esc50.csv"
    with table.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        names = reader.fieldnames or []
        rows = list(reader)
    if column not in names or "filename" not in names:
        raise InputError(f"{table.name} of the archive has no column '{column}': its home may have changed")
    kept = [row for row in rows if row[column] == "True"]
    wanted = {row["filename"] for row in kept}
    others = [path for path in (folder / "audio").iterdir() if path.name not in wanted]
    for path in others:
        path.unlink()
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(kept)
    return len(others)


def _records() -> Path:
    return cache_dir() / "datasets" / "checksums.json"


def _read_records() -> dict[str, str]:
    try:
        values = json.loads(_records().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in values.items()} if isinstance(values, dict) else {}


def _recorded(home: DatasetHome) -> str | None:
    """The checksum of the first download from this address, on this machine."""
    return _read_records().get(home.url)


def _record(home: DatasetHome, sha256: str) -> None:
    with file_lock(_records().with_name(".checksums.lock")):
        write_text(_records(), json.dumps(_read_records() | {home.url: sha256}, indent=2) + "\n")


def _home(name: str, values: dict[str, Any]) -> DatasetHome:
    known = {field.name for field in fields(DatasetHome)}
    unknown = [key for key in values if key not in known]
    if unknown:
        raise ConfigurationError(f"homes.toml: the entry '{name}' has no key '{unknown[0]}'")
    return DatasetHome(name=name, **{**values, "keep": tuple(values.get("keep", ()))})
