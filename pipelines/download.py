"""Downloading one file: resumed where it stopped, checked, and renamed into place in one step."""

from __future__ import annotations

import errno
import http.client
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import InputError, MissingDependencyError
from pipelines.file_lock import file_lock
from pipelines.files import FULL_DISK, file_sha256, unwritable

CHUNK = 1 << 20  # bytes per read
TIMEOUT = 30.0  # seconds without a byte before a connection counts as lost
ATTEMPTS = 4  # lost connections in a row, without a single new byte, before we give up

Progress = Callable[[int, int | None], None]  # bytes done, bytes in total where known


class UnexpectedFileError(MissingDependencyError):
    """What the address gave is not the file that was asked for."""


class RefusedError(MissingDependencyError):
    """The server answers, and does not give this file: trying again is of no use."""


@dataclass(frozen=True)
class Download:
    """What to fetch and what it must be."""

    url: str
    target: Path
    sha256: str | None = None  # all or the first digits, lower case
    size: int | None = None  # bytes, exactly
    most: int | None = None  # bytes that are taken at the most, where the exact size is not known
    otherwise: str = "set COTRANS_CACHE to another folder"  # what to do where the target cannot be written

    @property
    def bound(self) -> int | None:
        """Bytes after which a server has sent something else."""
        return self.size if self.size is not None else self.most


def write_error(target: Path, error: OSError, otherwise: str = Download.otherwise) -> InputError:
    """One line for a file that cannot be kept where it belongs."""
    return InputError(unwritable(target, error, otherwise))


def download(request: Download, on_progress: Progress | None = None) -> Path:
    """Fetch `request.url` to `request.target` and return the target; a file that is there already is kept.

    The bytes so far lie in `TARGET.part`, which the next call continues (HTTP Range) after any interruption.
    Only a file with the right size and checksum is ever renamed to `target`.
    """
    if not request.url.startswith(("http://", "https://")):
        raise MissingDependencyError(f"cannot download {request.url}: only http and https addresses work")
    target = request.target
    part = target.with_name(f"{target.name}.part")
    try:
        with file_lock(target.with_name(f".{target.name}.lock")):
            if not target.exists():
                _fetch_checked(request, part, on_progress)
                part.replace(target)
    except OSError as error:
        if error.errno in FULL_DISK:
            part.unlink(missing_ok=True)  # a full disk hurts everybody; what was fetched can be fetched again
        raise write_error(target, error, request.otherwise) from error
    return target


def _fetch_checked(request: Download, part: Path, on_progress: Progress | None) -> None:
    """Bring `part` to the right bytes on the disk, or raise."""
    resumed = _fetch(request, part, on_progress)
    problem = _mismatch(part, request)
    if problem and resumed:
        # The beginning may be from another version of the file: once more from zero.
        part.unlink()
        _fetch(request, part, on_progress)
        problem = _mismatch(part, request)
    if problem:
        part.unlink(missing_ok=True)
        raise UnexpectedFileError(f"{request.url} is not the file that was expected: {problem}")
    with part.open("rb+") as file:
        os.fsync(file.fileno())


def _fetch(request: Download, part: Path, on_progress: Progress | None) -> bool:
    """Bring `part` to its full length over as many connections as it takes; True when some bytes were old."""
    resumed = part.exists() and part.stat().st_size > 0
    failures = 0
    while True:
        before = part.stat().st_size if part.exists() else 0
        try:
            if _fetch_once(request, part, before, on_progress):
                return resumed
            reason = "the connection was closed early"
        except urllib.error.HTTPError as error:
            if error.code == 416:  # nothing left after `before`: the checksum decides whether that is all of it
                return resumed
            if error.code < 500:
                raise RefusedError(f"cannot download {request.url}: HTTP {error.code} {error.reason}") from error
            reason = f"HTTP {error.code} {error.reason}"
        except urllib.error.URLError as error:
            system = error.reason if isinstance(error.reason, OSError) else None
            reason = (system and system.strerror) or str(error.reason)  # without the system's number
        except (http.client.HTTPException, TimeoutError, ConnectionError) as error:
            reason = str(error) or type(error).__name__
        now = part.stat().st_size if part.exists() else 0
        failures = 0 if now > before else failures + 1
        time.sleep(0.25 * failures)
        if failures >= ATTEMPTS or (now == 0 and failures > 1):
            raise MissingDependencyError(
                f"cannot download {request.url}: {reason}"
                + (f" ({now} bytes are kept; run it again to go on from there)" if now else "")
            )


def _fetch_once(request: Download, part: Path, offset: int, on_progress: Progress | None) -> bool:
    """One connection, from byte `offset` on; True when the server sent all that it announced."""
    headers = {"User-Agent": "cotrans", "Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
    with urllib.request.urlopen(urllib.request.Request(request.url, headers=headers), timeout=TIMEOUT) as response:
        if response.status != 206 or _range_start(response) != offset:
            offset = 0  # a server without Range sends the whole file, whatever was asked
        length = response.headers.get("Content-Length")
        total = offset + int(length) if length and length.isdigit() else None
        expected = total if total is not None else request.size
        _check_bound(request, part, expected or 0, announced=True)
        part.parent.mkdir(parents=True, exist_ok=True)
        if expected is not None and shutil.disk_usage(part.parent).free < expected - offset:
            raise OSError(errno.ENOSPC, "not enough room")
        done = offset
        with part.open("rb+" if offset else "wb") as file:
            file.seek(offset)
            while block := _read(response):
                done += len(block)
                _check_bound(request, part, done)
                file.write(block)
                if on_progress:
                    on_progress(done, expected)
            file.truncate()
    return expected is None or done >= expected


def _check_bound(request: Download, part: Path, size: int, *, announced: bool = False) -> None:
    """Refuse what is longer than it can be, before the disk is full of it."""
    if request.bound is not None and size > request.bound:
        part.unlink(missing_ok=True)
        much = f"{size} bytes instead of {request.bound}" if announced else f"more than {request.bound:,} bytes"
        raise UnexpectedFileError(f"{request.url} is not the file that was expected: it has {much}")


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(CHUNK)
    except OSError as error:  # told apart from the errors of writing to the disk
        raise ConnectionError(str(error) or type(error).__name__) from error


def _range_start(response: http.client.HTTPResponse) -> int:
    """The first byte of a partial answer ("bytes 100-199/200"), or -1."""
    start = (response.headers.get("Content-Range") or "").removeprefix("bytes ").split("-")[0]
    return int(start) if start.isdigit() else -1


def _mismatch(path: Path, request: Download) -> str | None:
    """Why `path` is not what was asked for, or None."""
    size = path.stat().st_size if path.exists() else 0
    if request.size is not None and size != request.size:
        return f"{size} bytes instead of {request.size}"
    if request.sha256 is None:
        return None
    checksum = file_sha256(path)[: len(request.sha256)]
    return None if checksum == request.sha256 else f"its checksum is {checksum}, not {request.sha256}"
