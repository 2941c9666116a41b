"""Writing safetensors: atomically, the same bytes for the same content, and a full disk is an error of the disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.files import atomic_write

if TYPE_CHECKING:
    from torch import Tensor


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors with text values beside them. What the disk refuses is an OSError."""
    from safetensors.torch import save

    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # Through memory: the library reports a full disk as an internal error that does not say so.
    data = _with_sorted_header(save(whole, None if metadata is None else dict(metadata)))
    with atomic_write(path) as temporary:
        temporary.write_bytes(data)


def _with_sorted_header(data: bytes) -> bytes:
    """The same safetensors with its header in order of key: the library's order is random, ours is reproducible."""
    length = int.from_bytes(data[:8], "little")
    header = json.dumps(json.loads(data[8 : 8 + length]), sort_keys=True, ensure_ascii=False).encode()
    header += b" " * (-len(header) % 8)  # tensors start at a multiple of 8 bytes
    return len(header).to_bytes(8, "little") + header + data[8 + length :]
