"""What a .tflite file says about itself beside the network: the sample rate of its sound, the names of its classes.

The format (tensorflow/tflite-support, metadata_schema.fbs): the network is a flatbuffer that has a buffer called
TFLITE_METADATA, itself a flatbuffer; files that it names (lists of labels) lie in a zip archive that is appended to
the network. Few fields are needed, so they are read by their place in their table; every place is checked against
the length of the file by the reader that raises on it.
"""

from __future__ import annotations

import io
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path

METADATA = "TFLITE_METADATA"
LARGEST_LABELS = 2**20  # bytes of a list of labels; an archive may claim anything
# Places of the fields in the tables of the two schemas.
MODEL_BUFFERS, MODEL_METADATA = 4, 6
ENTRY_NAME, ENTRY_BUFFER = 0, 1
BUFFER_DATA = 0
METADATA_SUBGRAPHS = 3
SUBGRAPH_INPUTS, SUBGRAPH_OUTPUTS = 2, 3
TENSOR_CONTENT, TENSOR_FILES = 3, 6
CONTENT_KIND, CONTENT_PROPERTIES = 0, 1
AUDIO_PROPERTIES, AUDIO_RATE = 4, 0
FILE_NAME, FILE_KIND, FILE_OF_AXIS_LABELS = 0, 2, 2


@dataclass(frozen=True)
class TfliteMetadata:
    """What a file says; both empty in most files."""

    rate: int | None = None  # Hz
    labels: tuple[tuple[str, ...], ...] = ()  # for each output of the network, in order; () where there are none

    def labels_of(self, outputs: list[int], number: int) -> tuple[str, ...]:
        """The names of the numbers in tensor `number`; outputs: the tensors that `labels` are about."""
        place = outputs.index(number) if number in outputs else len(self.labels)
        return self.labels[place] if place < len(self.labels) else ()


def read_metadata(path: Path) -> TfliteMetadata:
    """The metadata of a file; files without, or with damaged metadata, say nothing."""
    data = path.read_bytes()
    try:
        return _read(data)
    except (struct.error, IndexError, UnicodeDecodeError, zipfile.BadZipFile, KeyError):
        return TfliteMetadata()  # the network itself may still be whole: the interpreter says so or not


def _read(data: bytes) -> TfliteMetadata:
    model = _Table.root(data)
    for entry in model.tables(MODEL_METADATA):
        if entry.text(ENTRY_NAME) == METADATA:
            held = model.tables(MODEL_BUFFERS)[entry.number(ENTRY_BUFFER, "<I")].content(BUFFER_DATA)
            break
    else:
        return TfliteMetadata()
    (subgraph, *_) = _Table.root(held).tables(METADATA_SUBGRAPHS)
    rate = next((rate for tensor in subgraph.tables(SUBGRAPH_INPUTS) if (rate := _sample_rate(tensor))), None)
    return TfliteMetadata(rate, tuple(_labels(data, tensor) for tensor in subgraph.tables(SUBGRAPH_OUTPUTS)))


def _sample_rate(tensor: _Table) -> int | None:
    content = tensor.table(TENSOR_CONTENT)
    if content is None or content.number(CONTENT_KIND, "<B") != AUDIO_PROPERTIES:
        return None
    properties = content.table(CONTENT_PROPERTIES)
    return properties.number(AUDIO_RATE, "<I") or None if properties else None


def _labels(data: bytes, tensor: _Table) -> tuple[str, ...]:
    for file in tensor.tables(TENSOR_FILES):
        if file.number(FILE_KIND, "<B") == FILE_OF_AXIS_LABELS:
            with (
                zipfile.ZipFile(io.BytesIO(data)) as archive,
                archive.open(file.text(FILE_NAME)) as member,
            ):
                return tuple(member.read(LARGEST_LABELS).decode().splitlines())
    return ()


@dataclass(frozen=True)
class _Table:
    """A table of a flatbuffer: fields are found through the table's list of offsets; those left out are 0."""

    data: bytes
    start: int

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, _unpack("<I", data, 0))

    def table(self, field: int) -> _Table | None:
        place = self._place(field)
        return _Table(self.data, place + _unpack("<I", self.data, place)) if place else None

    def tables(self, field: int) -> list[_Table]:
        start, count = self._vector(field)
        places = [start + 4 * index for index in range(count)]
        return [_Table(self.data, place + _unpack("<I", self.data, place)) for place in places]

    def number(self, field: int, kind: str) -> int:
        place = self._place(field)
        return _unpack(kind, self.data, place) if place else 0

    def text(self, field: int) -> str:
        return self.content(field).decode()

    def content(self, field: int) -> bytes:
        start, count = self._vector(field)
        return self.data[start : start + count]

    def _vector(self, field: int) -> tuple[int, int]:
        place = self._place(field)
        if not place:
            return 0, 0
        begin = place + _unpack("<I", self.data, place)
        count = _unpack("<I", self.data, begin)
        if count > len(self.data):
            raise IndexError(f"{count} entries in a file of {len(self.data)} bytes")
        return begin + 4, count

    def _place(self, field: int) -> int:
        """Where a field's value lies; 0: it was left out."""
        offsets = self.start - _unpack("<i", self.data, self.start)
        size = _unpack("<H", self.data, offsets)
        entry = 4 + 2 * field
        offset = _unpack("<H", self.data, offsets + entry) if entry + 2 <= size else 0
        return self.start + offset if offset else 0


def _unpack(kind: str, data: bytes, place: int) -> int:
    if place < 0:
        raise IndexError(f"a place before the start: {place}")
    (value,) = struct.unpack_from(kind, data, place)
    return int(value)
