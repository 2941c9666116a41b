"""The names of extractors that are files: `onnx:FILE`, `tflite:FILE`. Nothing heavy is imported to read them."""

from __future__ import annotations

# What stands before the colon, which is also how the files' names end.
FILE_FORMATS = ("onnx", "tflite")


def is_network_file(name: str) -> bool:
    """Whether an extractor's name is that of a file."""
    return name.partition(":")[0] in FILE_FORMATS and ":" in name


def is_whole(name: str) -> bool:
    """Whether the name of a network file ends as such files do: a "+" after it joins another extractor."""
    return name.endswith(f".{name.partition(':')[0]}")
