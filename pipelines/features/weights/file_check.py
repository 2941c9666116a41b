"""Whether a file can hold weights at all, from its first bytes and its length: nothing in it is loaded."""

from __future__ import annotations

import zipfile
from pathlib import Path

from pipelines.errors import CheckpointError

_ZIP, _PICKLE = b"PK\x03\x04", b"\x80"  # torch.save and .npz; torch.save before version 1.6
_TFLITE = b"TFL3"  # after four bytes of a flatbuffer


def check_weight_file(path: Path) -> None:
    """Refuse what is empty, cut off, or neither PyTorch's nor safetensors, .npz or .tflite."""
    size = path.stat().st_size
    if not size:
        raise CheckpointError(f"{path} is empty: copy or download it again")
    with path.open("rb") as file:
        start = file.read(16)
    if start.startswith(_ZIP):
        if not zipfile.is_zipfile(path):
            raise CheckpointError(f"{path} is cut off: copy or download it again")
    elif start[8:9] == b"{":  # safetensors: the length of the header, then the header
        if 8 + int.from_bytes(start[:8], "little") > size:
            raise CheckpointError(f"{path} is cut off: copy or download it again")
    elif not start.startswith(_PICKLE) and start[4:8] != _TFLITE:
        raise CheckpointError(f"{path} holds no weights: give a .pth, .pt, .safetensors, .npz or .tflite file")
