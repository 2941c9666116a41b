"""The metadata of a safetensors file, without PyTorch: eight bytes of length, then JSON."""

from __future__ import annotations

import json
from pathlib import Path

from pipelines.errors import CheckpointError

SUFFIX = ".safetensors"
_LARGEST_HEADER = 100_000_000  # bytes, as in the safetensors library


def read_metadata(path: Path) -> dict[str, str]:
    """What stands under `__metadata__`; empty where there is nothing."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = file.read(length) if length <= _LARGEST_HEADER else b""
    try:
        values = json.loads(header)
        return {str(key): str(value) for key, value in values.get("__metadata__", {}).items()}
    except (ValueError, AttributeError) as error:
        raise CheckpointError(f"{path} is damaged, truncated or not a safetensors file") from error
