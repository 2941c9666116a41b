"""A text file or an open stream that predictions are written to: piece by piece, each whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, TextIO

from pipelines.errors import InputError
from pipelines.files import unwritable
from pipelines.wording import visible_lines


class TextTarget:
    """Every piece is on its way to the disk when `write` returns.

    What a file held before stays until there is something to write: a source that cannot be played empties nothing. A
    piece for which there is no room leaves nothing of itself behind.
    """

    def __init__(self, where: Path | TextIO, header: str, position: int | None = None) -> None:
        """header: written first. position: go on in a file from this byte on; what came after it is cut off."""
        self._header: str | None = header  # None: it has begun
        if isinstance(where, Path):
            self._path, self._standard = where, None
            self._file = self._opened(where, position)
        else:
            self._standard = where
            self.begin()

    def _opened(self, path: Path, position: int | None) -> BinaryIO:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            kept = path.is_file()
            going_on = position is not None and kept and path.stat().st_size >= position
            # Without a buffer: what a full disk refuses must not be tried again when the file is closed.
            file: BinaryIO = path.open("r+b" if kept else "wb", buffering=0)
            self._regular = path.is_file()  # neither a device nor a pipe
            if going_on and position:
                file.truncate(position)
                file.seek(0, 2)
                self._header = None
        except OSError as error:
            raise self._refusal(error) from error
        return file

    def begin(self) -> None:
        """Something will be written: the file is emptied, and its header stands in it."""
        if self._header is None:
            return
        header, self._header = self._header, None
        if self._standard is None and self._regular:
            self._file.truncate(0)
        self.write(header)

    @property
    def position(self) -> int | None:
        """Bytes in the file so far; None where that means nothing."""
        return self._file.tell() if self._standard is None and self._regular else None

    def write(self, text: str) -> None:
        if not text:
            return
        try:
            if self._standard is not None:
                self._standard.write(visible_lines(text) if self._standard.isatty() else text)
                self._standard.flush()
            else:
                self._write_whole(encoded(text))
        except BrokenPipeError:
            raise  # whoever read it has gone: not an error of ours
        except OSError as error:
            raise self._refusal(error) from error

    def _write_whole(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError:
            if self._regular:
                before = self._file.tell() - (len(data) - len(left))
                self._file.truncate(before)
                self._file.seek(before)
            raise

    def _refusal(self, error: OSError) -> InputError:
        if self._standard is not None:
            return InputError(f"cannot write to standard output: {error.strerror or error}")
        return InputError(unwritable(self._path, error, "choose another --out"))

    def close(self) -> None:
        if self._standard is None:
            self._file.close()


def encoded(text: str) -> bytes:
    """UTF-8; what cannot be a letter, in file names that are none, as \\udcXX, which JSON reads back as it was."""
    return text.encode("utf-8", "backslashreplace")
