"""The features of one recording: decoded, computed, written; or left alone where they are there already."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar, cast

import numpy as np

from pipelines.errors import CotransError, InputError
from pipelines.features.extraction.sources import Recording
from pipelines.features.files.feature_files import (
    Manifest,
    Source,
    describe_source,
    is_complete,
    read_manifest,
    write_features,
    write_manifest,
)
from pipelines.features.files.layout import TargetFiles, target_files
from pipelines.features.files.npy_writer import Dtype
from pipelines.features.joint import FeatureStream, feature_rows
from pipelines.features.media import DamagedMediaError, MediaReader, decode
from pipelines.features.media.joined_audio import in_larger_blocks
from pipelines.features.spec import FeatureSpec, spec_difference
from pipelines.features.stream_factory import StreamFactory
from pipelines.file_lock import LockBusyError, file_lock
from pipelines.files import FULL_DISK, unwritable

# done: written. skipped: was there. damaged: what could be decoded was written or was there. failed: nothing is
# there. busy: another run is at it. conflict: features with other settings, or of another file, are there.
Status = Literal["done", "skipped", "damaged", "failed", "busy", "conflict"]

CLOSED_FOLDER = {errno.EACCES, errno.EPERM, errno.EROFS}

T = TypeVar("T")
OnSeconds = Callable[[float, float | None], None]  # media seconds done, media seconds in total where known


class OutputError(InputError):
    """The output folder takes no more: no use in going on with other recordings."""


@dataclass(frozen=True)
class Target:
    """Where and how recordings are written."""

    folder: Path
    layout: str
    dtype: Dtype
    force: bool


@dataclass(frozen=True)
class Outcome:
    """What became of one recording."""

    name: str
    source: str
    status: Status
    rows: int = 0
    seconds: float = 0.0  # media time that the rows stand for
    message: str | None = None  # one line: what is wrong, what was damaged
    fresh: bool = False  # computed in this run


def look_up(recording: Recording, target: Target, streams: StreamFactory) -> Outcome | None:
    """What there is for a recording already: skipped, damaged or conflict; None when it has to be extracted."""
    if target.force:
        return None
    spec = streams.spec(recording.path)
    files = target_files(target.layout, target.folder, recording.name, spec, streams.tag_of)
    return existing(recording, files, spec, target, streams, describe_source(recording.path))


def extract_recording(
    recording: Recording,
    target: Target,
    streams: StreamFactory,
    on_seconds: OnSeconds | None = None,
    wait: bool = False,
) -> Outcome:
    """Extract one recording. What is wrong with it is in the outcome; only a useless output folder raises.

    Without `wait`, a recording that another process is extracting is `busy`.
    """
    return guarded(recording, lambda: _extract(recording, target, streams, on_seconds, wait))


def guarded(recording: Recording, work: Callable[[], T]) -> T | Outcome:
    """The outcome of some work on a recording; what goes wrong with it becomes one too."""
    try:
        return work()
    except LockBusyError:
        return outcome_of(recording, "busy")
    except OutputError:
        raise
    except CotransError as error:
        return outcome_of(recording, "failed", message=str(error))
    except OSError as error:
        message = f"{recording.path}: {error.strerror or error} ({error.filename})"
        return outcome_of(recording, "failed", message=message)
    except Exception as error:
        # Whatever a strange file does to a decoder, the other files go on; the summary names it.
        message = f"{recording.path}: {type(error).__name__}: {error}".replace("\n", " ")
        return outcome_of(recording, "failed", message=f"{message} (unexpected: please report it)")


def _extract(
    recording: Recording, target: Target, streams: StreamFactory, on_seconds: OnSeconds | None, wait: bool
) -> Outcome:
    source = describe_source(recording.path)
    if source.size == 0:
        raise InputError(f"{recording.path}: the file is empty")
    stream = streams.open(recording.path)
    files = target_files(target.layout, target.folder, recording.name, stream.spec, streams.tag_of)
    with output_errors(target.folder), file_lock(lock_path(files), wait=wait):
        if not target.force:
            there = existing(recording, files, stream.spec, target, streams, source)
            if there is not None:
                return there
        return _write(recording, files, target, stream, source, on_seconds)


def _write(
    recording: Recording,
    files: TargetFiles,
    target: Target,
    stream: FeatureStream,
    source: Source,
    on_seconds: OnSeconds | None,
) -> Outcome:
    spec, damage = stream.spec, None
    with (
        decode(recording.path, audio=stream.needs_audio, video=stream.needs_video) as reader,
        write_features(files, spec, target.dtype) as writer,
    ):
        duration = reader.info.duration
        try:
            for rows in feature_rows(cast(MediaReader, in_larger_blocks(reader)), stream):
                writer.append(rows, row_times(spec, writer.rows, len(rows)))
                if on_seconds:
                    on_seconds(writer.rows * spec.hop, duration)
        except DamagedMediaError as error:
            damage, duration = error, error.seconds
        if writer.rows == 0:
            raise damage or InputError(f"{recording.path}: too short for a single row")
    notes = (damage.reason,) if damage else ()
    manifest = Manifest(spec, replace(source, duration=duration), writer.rows, target.dtype, target.layout, notes)
    write_manifest(files, manifest)
    return replace(described(recording, manifest, "done"), fresh=True)


def existing(
    recording: Recording,
    files: TargetFiles,
    spec: FeatureSpec,
    target: Target,
    streams: StreamFactory,
    source: Source,
) -> Outcome | None:
    """Judge what stands in the output folder; None when nothing does, or nothing whole."""
    try:
        manifest = read_manifest(files.manifest)
    except InputError:
        return None
    old = target_files(manifest.layout, target.folder, recording.name, manifest.spec, streams.tag_of)
    if old.manifest != files.manifest or not is_complete(old, manifest):
        return None
    same_source = manifest.source.fingerprint == source.fingerprint
    if not same_source and manifest.source.path == source.path:
        return None  # the file has changed since: its old features are of no use
    difference = None if same_source else f"were made from {manifest.source.path}"
    if manifest.layout != target.layout:
        difference = f"have the layout {manifest.layout}, not {target.layout}"
    elif manifest.dtype != target.dtype:
        difference = f"are {manifest.dtype}, not {target.dtype}"
    difference = difference or spec_difference(manifest.spec, spec)
    if difference:
        where = files.rows[0].path
        message = f"the features in {where} {difference}: --force writes them again, another --out keeps them"
        return outcome_of(recording, "conflict", message=message)
    return described(recording, manifest, "skipped")


def described(recording: Recording, manifest: Manifest, status: Status) -> Outcome:
    seconds = manifest.rows * manifest.spec.hop
    if manifest.notes:
        message = f"{recording.path}: {'; '.join(manifest.notes)}; {manifest.rows} rows are kept"
        return Outcome(recording.name, recording.path.as_posix(), "damaged", manifest.rows, seconds, message)
    return Outcome(recording.name, recording.path.as_posix(), status, manifest.rows, seconds)


def outcome_of(recording: Recording, status: Status, message: str | None = None) -> Outcome:
    return Outcome(recording.name, recording.path.as_posix(), status, message=message)


def row_times(spec: FeatureSpec, first: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([spec.row_time(index) for index in range(first, first + count)], np.float64)


def lock_path(files: TargetFiles) -> Path:
    return files.manifest.with_name(f".{files.manifest.name}.lock")


@contextmanager
def output_errors(folder: Path) -> Iterator[None]:
    """Turn the output folder's errors into one line."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL_DISK or (error.errno in CLOSED_FOLDER and _below(error.filename, folder)):
            raise OutputError(unwritable(folder, error)) from error
        raise


def _below(filename: object, folder: Path) -> bool:
    return isinstance(filename, str | Path) and Path(filename).resolve().is_relative_to(folder.resolve())
