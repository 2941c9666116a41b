"""Long recordings in pieces: rows that several processes compute, and the very files that one would have written.

A piece decodes the sound of its recording from the start, so that every sample is where it is in the whole, and the
pictures from shortly before its first row; only the work of its own rows is done. It begins some rows early. Where
these are not, number for number, the last ones of the piece before, or where anything was wrong with the recording, the
pieces are thrown away and the recording is extracted in one go: they save time or nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import InputError
from pipelines.features.extraction.recording import (
    OnSeconds,
    Outcome,
    Target,
    described,
    existing,
    guarded,
    lock_path,
    output_errors,
    row_times,
)
from pipelines.features.extraction.sources import Recording
from pipelines.features.files.feature_files import Manifest, Source, describe_source, write_features, write_manifest
from pipelines.features.files.layout import TargetFiles, target_files
from pipelines.features.files.npy_reader import read_npy
from pipelines.features.files.npy_writer import NpyWriter
from pipelines.features.joint import feature_rows
from pipelines.features.media import DamagedMediaError, MediaReader, decode, probe
from pipelines.features.media.joined_audio import in_larger_blocks
from pipelines.features.row_clock import MissingPastError
from pipelines.features.spec import FeatureSpec
from pipelines.features.stream_factory import StreamFactory
from pipelines.file_lock import file_lock
from pipelines.files import atomic_write

SHORTEST_PIECE = 1.0  # seconds
PIECE_SECONDS = 1800.0  # with less to do, starting and decoding up to the piece count too much
MOST_PIECES = 16  # each decodes the sound before it: with n of them, n/2 times the sound of the recording
PROOF_ROWS = 4  # rows before a piece that the piece before has as well
SOFTEST_BYTES = 1000  # per second: no codec that is listened to has less, so small files need not be opened
BLOCK_ROWS = 1024  # copied at a time


@dataclass(frozen=True)
class Piece:
    """Rows `first` up to `stop` of a recording; None: up to its end."""

    first: int
    stop: int | None

    @property
    def begin(self) -> int:
        """The first row that is computed."""
        return max(0, self.first - PROOF_ROWS)


@dataclass(frozen=True)
class PieceResult:
    """What became of a piece."""

    usable: bool  # False: the recording has to be extracted in one go
    seconds: float = 0.0  # media time that its rows stand for
    duration: float | None = None  # seconds of media in the recording, as its header says


def plan_pieces(recording: Recording, streams: StreamFactory, seconds: float = PIECE_SECONDS) -> list[Piece]:
    """The pieces of a recording; none where it is too short, or nobody knows how long it is."""
    try:
        if recording.path.stat().st_size < 2 * seconds * SOFTEST_BYTES:
            return []
        duration, hop = probe(recording.path).duration, streams.spec(recording.path).hop
    except (OSError, InputError):
        return []  # what is wrong with it is said when it is extracted
    return pieces_of(duration or 0.0, hop, seconds)


def pieces_of(duration: float, hop: float, seconds: float) -> list[Piece]:
    """Pieces of at least `seconds` each, if there are two or more; the last may be longer, by less than that."""
    count = min(int(duration / seconds), MOST_PIECES)
    rows = max(PROOF_ROWS, ceil(duration / max(count, 1) / hop))
    firsts = [*range(0, int(duration / hop), rows)][:count]
    if len(firsts) < 2:
        return []
    return [*(Piece(first, stop) for first, stop in pairwise(firsts)), Piece(firsts[-1], None)]


def extract_piece(
    recording: Recording, target: Target, streams: StreamFactory, piece: Piece, on_seconds: OnSeconds | None = None
) -> PieceResult:
    """Compute the rows of a piece and keep them in a file of their own beside those of the recording."""
    source = describe_source(recording.path)
    stream = streams.open(recording.path, piece.begin)
    files = target_files(target.layout, target.folder, recording.name, stream.spec, streams.tag_of)
    path = piece_path(files, stream.spec, source, piece)
    wanted = None if piece.stop is None else piece.stop - piece.begin
    with (
        output_errors(target.folder),
        decode(
            recording.path,
            audio=stream.needs_audio,
            video=stream.needs_video,
            pictures_from=stream.pictures_from,
        ) as reader,
    ):
        duration = reader.info.duration
        if path.is_file():  # of a run that was stopped
            return PieceResult(True, len(read_npy(path)) * stream.spec.hop, duration)
        try:
            with atomic_write(path) as temporary, NpyWriter(temporary, stream.spec.width, "float32") as writer:
                for rows in feature_rows(cast(MediaReader, in_larger_blocks(reader)), stream):
                    writer.append(rows if wanted is None else rows[: wanted - writer.rows])
                    if on_seconds:
                        on_seconds(writer.rows * stream.spec.hop, duration)
                    if writer.rows == wanted:
                        break
                if not reader.flawless or not writer.rows or writer.rows < (wanted or 0):
                    raise _UnusablePieceError
        except (DamagedMediaError, MissingPastError, InputError, _UnusablePieceError):
            return PieceResult(False)
        return PieceResult(True, writer.rows * stream.spec.hop, duration)


class _UnusablePieceError(Exception):
    """Takes the half file of a piece away."""


def join_pieces(
    recording: Recording,
    target: Target,
    streams: StreamFactory,
    pieces: Sequence[Piece],
    results: Sequence[PieceResult],
    wait: bool = False,
) -> Outcome | None:
    """Write the files of a recording from its pieces; None: it has to be extracted in one go.

    The pieces are removed either way. Only a useless output folder raises.
    """

    def join() -> Outcome | None:
        source = describe_source(recording.path)
        spec = streams.spec(recording.path)
        files = target_files(target.layout, target.folder, recording.name, spec, streams.tag_of)
        paths = [piece_path(files, spec, source, piece) for piece in pieces]
        with output_errors(target.folder), file_lock(lock_path(files), wait=wait):
            there = None if target.force else existing(recording, files, spec, target, streams, source)
            parts = None
            if there is None and all(result.usable for result in results):
                parts = _fitting([read_npy(path) for path in paths], pieces)
            if parts is not None:
                duration = results[-1].duration
                there = _write(recording, files, target, spec, replace(source, duration=duration), parts)
            for path in files.manifest.parent.glob(f".{files.manifest.stem}.piece-*"):
                path.unlink(missing_ok=True)
        return there

    outcome = guarded(recording, join)
    return None if outcome is None or outcome.status == "failed" else outcome


def piece_path(files: TargetFiles, spec: FeatureSpec, source: Source, piece: Piece) -> Path:
    """Where the rows of a piece wait; its name tells settings and sources apart."""
    text = json.dumps([spec.to_dict(), source.fingerprint, piece.begin, piece.stop], sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    return files.manifest.with_name(f".{files.manifest.stem}.piece-{key}.npy")


def _fitting(parts: list[NDArray[np.float32]], pieces: Sequence[Piece]) -> list[NDArray[np.float32]] | None:
    """The rows (k, width) of each piece by itself; None where one does not go on as the one before ended."""
    own = [part[piece.first - piece.begin :] for part, piece in zip(parts, pieces, strict=True)]
    for before, part, piece in zip(own, parts[1:], pieces[1:], strict=False):
        overlap = piece.first - piece.begin
        if not np.array_equal(before[-overlap:], part[:overlap]):
            return None
    return own


def _write(
    recording: Recording,
    files: TargetFiles,
    target: Target,
    spec: FeatureSpec,
    source: Source,
    parts: Sequence[NDArray[np.float32]],
) -> Outcome:
    with write_features(files, spec, target.dtype) as writer:
        for part in parts:
            for begin in range(0, len(part), BLOCK_ROWS):
                rows = part[begin : begin + BLOCK_ROWS]
                writer.append(rows, row_times(spec, writer.rows, len(rows)))
    manifest = Manifest(spec, source, writer.rows, target.dtype, target.layout)
    write_manifest(files, manifest)
    return replace(described(recording, manifest, "done"), fresh=True)
