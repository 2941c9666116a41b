"""Feature files: rows and times as memory-mappable .npy, and a JSON manifest that says what they are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import ConfigurationError, InputError
from pipelines.features.files.layout import LAYOUTS, TargetFiles
from pipelines.features.files.npy_reader import read_npy
from pipelines.features.files.npy_writer import HEADER, Dtype, NpyWriter
from pipelines.features.spec import FeatureSpec
from pipelines.files import atomic_write
from pipelines.untrusted.parsing import read_document
from pipelines.wording import one_line

FORMAT = "cotrans-features"
VERSION = 1
DTYPES = ("float32", "float16")
MOST_ROWS = 1 << 40
EDGE = 1 << 16  # bytes at either end of a source that go into its fingerprint


@dataclass(frozen=True)
class Source:
    """The file that features were made from."""

    path: str  # as the user gave it
    size: int  # bytes
    fingerprint: str  # of its size, beginning and end: cheap, and the same wherever the file is copied to
    duration: float | None = None  # seconds of media in it, as decoded


@dataclass(frozen=True)
class Manifest:
    """What lies beside a feature file; it is written last, so that it means: these files are complete."""

    spec: FeatureSpec
    source: Source
    rows: int
    dtype: str
    layout: str
    notes: tuple[str, ...] = ()  # what a reader should know: the file ended early, the audio was missing

    def to_json(self) -> str:
        value = {
            "format": FORMAT,
            "version": VERSION,
            "complete": True,
            "layout": self.layout,
            "rows": self.rows,
            "width": self.spec.width,
            "dtype": self.dtype,
            "spec": self.spec.to_dict(),
            "source": asdict(self.source),
            "notes": list(self.notes),
        }
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class FeatureFile:
    """A feature file as read back. `rows` (rows, width) is mapped from the disk, not loaded."""

    rows: NDArray[Any]
    times: NDArray[np.float64] | None  # (rows,) seconds; None for a bare .npy file
    spec: FeatureSpec | None  # None for a bare .npy file
    manifest: Manifest | None


def describe_source(path: Path) -> Source:
    """Size and fingerprint of a source file."""
    try:
        size = path.stat().st_size
        if not path.is_file():  # a named pipe would be waited for, and is gone once it has been read
            raise InputError(f"cannot read {path}: it is no file")
        with path.open("rb") as file:
            digest = hashlib.sha256(f"{size}\n".encode())
            digest.update(file.read(EDGE))
            file.seek(max(0, size - EDGE))
            digest.update(file.read(EDGE))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    return Source(path.as_posix(), size, digest.hexdigest()[:32])


class FeatureWriter:
    """Rows of one recording on their way to the disk."""

    def __init__(self, files: TargetFiles, temporaries: list[Path], times: Path, spec: FeatureSpec, dtype: Dtype):
        self._files, self._spec = files, spec
        self._parts = [
            NpyWriter(temporary, file.stop - file.start, dtype)
            for file, temporary in zip(files.rows, temporaries, strict=True)
        ]
        self._times = NpyWriter(times, None, "float64")

    @property
    def rows(self) -> int:
        return self._times.rows

    def append(self, rows: NDArray[np.float32], times: NDArray[np.float64]) -> None:
        """Add rows (k, width) with their media times (k,) in seconds."""
        for file, part in zip(self._files.rows, self._parts, strict=True):
            part.append(rows[:, file.start : file.stop])
        self._times.append(times * self._files.times_per_second)

    def close(self) -> None:
        for writer in (*self._parts, self._times):
            writer.close()


@contextmanager
def write_features(files: TargetFiles, spec: FeatureSpec, dtype: Dtype) -> Iterator[FeatureWriter]:
    """Write the rows and times of one recording; the files appear when the block ends well, all or none.

    `write_manifest` afterwards declares them complete. The caller holds a lock for the recording.
    """
    with ExitStack() as stack:
        temporaries = [stack.enter_context(atomic_write(file.path, locked=True)) for file in files.rows]
        times = stack.enter_context(atomic_write(files.times, locked=True))
        writer = FeatureWriter(files, temporaries, times, spec, dtype)
        try:
            yield writer
        finally:
            writer.close()
        if files.rate:
            with stack.enter_context(atomic_write(files.rate, locked=True)).open("wb") as file:
                np.save(file, np.float64(spec.rate))
        # From here on old rows may stand beside new ones until the new manifest is written.
        files.manifest.unlink(missing_ok=True)


def write_manifest(files: TargetFiles, manifest: Manifest) -> None:
    """Declare the files of a recording complete."""
    with atomic_write(files.manifest, locked=True) as temporary:
        temporary.write_text(manifest.to_json(), encoding="utf-8", errors="backslashreplace")


def read_manifest(path: Path) -> Manifest:
    """The manifest in a file; anything else is an error."""
    value = read_document(path, FORMAT, VERSION, "a feature manifest")
    try:
        manifest = Manifest(
            spec=FeatureSpec.from_dict(value["spec"]),
            source=Source(**value["source"]),
            rows=int(value["rows"]),
            dtype=str(value["dtype"]),
            layout=str(value["layout"]),
            notes=tuple(map(str, value["notes"])),
        )
        if manifest.dtype not in DTYPES or not 0 <= manifest.rows <= MOST_ROWS:
            raise ValueError(f"{manifest.rows} rows of {one_line(manifest.dtype)}")
        if not isinstance(manifest.source.path, str) or not isinstance(manifest.source.fingerprint, str):
            raise ValueError("it does not say what it was made from")
    except (KeyError, TypeError, ValueError, OverflowError, ConfigurationError) as error:
        raise InputError(f"{path} is a damaged feature manifest: {error}") from error
    if manifest.layout not in LAYOUTS:
        raise InputError(f"{path} is a damaged feature manifest: there is no layout '{manifest.layout}'")
    return manifest


def is_complete(files: TargetFiles, manifest: Manifest) -> bool:
    """Whether every file that the manifest speaks of is there in full length."""
    itemsize = np.dtype(manifest.dtype).itemsize
    expected = {file.path: HEADER + manifest.rows * (file.stop - file.start) * itemsize for file in files.rows}
    expected[files.times] = HEADER + manifest.rows * np.dtype("float64").itemsize
    if files.rate and not files.rate.is_file():
        return False
    return all(path.is_file() and path.stat().st_size == size for path, size in expected.items())


def read_features(path: Path) -> FeatureFile:
    """Read `NAME.npy` of (rows, width), with its times and manifest where cotrans wrote it, or bare."""
    rows = read_npy(path)
    if rows.ndim != 2 or rows.dtype.kind != "f":
        raise InputError(f"{path} holds {rows.dtype} of shape {rows.shape}, not rows of floating-point features")
    manifest_path = path.with_suffix(".json")
    if not manifest_path.is_file() or FORMAT not in manifest_path.read_text(encoding="utf-8", errors="replace"):
        return FeatureFile(rows, None, None, None)  # other projects keep JSON files of their own beside features
    manifest = read_manifest(manifest_path)
    times = np.array(read_npy(path.with_suffix(".times.npy")), dtype=np.float64)
    if rows.shape != (manifest.rows, manifest.spec.width) or times.shape != (manifest.rows,):
        raise InputError(
            f"{path} holds {rows.shape} and {times.shape[0]} times, its manifest says "
            f"({manifest.rows}, {manifest.spec.width}): extract it again with --force"
        )
    return FeatureFile(rows, times, manifest.spec, manifest)
