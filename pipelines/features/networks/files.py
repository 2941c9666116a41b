"""Extractors by file: `onnx:FILE`, `tflite:FILE`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pipelines.errors import InputError, UsageError
from pipelines.features.extractor import AudioExtractor, VideoExtractor
from pipelines.features.networks.extractors import network_extractor
from pipelines.features.networks.file_names import FILE_FORMATS, is_network_file
from pipelines.features.networks.network import Network, default_options
from pipelines.features.networks.onnx import OnnxNetwork
from pipelines.features.networks.tflite import TfliteNetwork
from pipelines.features.spec import Align, Option

FORMATS: Mapping[str, Callable[[Path, str], Network]] = dict(
    zip(FILE_FORMATS, (OnnxNetwork, TfliteNetwork), strict=True)
)
NETWORK_FILES = tuple(f"{format_name}:FILE" for format_name in FILE_FORMATS)


def network_path(name: str) -> Path:
    """The file of `onnx:FILE`."""
    return Path(name.partition(":")[2])


def network_options(name: str) -> dict[str, Option]:
    """The options of a network in a file and their defaults, which depend on what the network takes."""
    return default_options(_open(name, "").input)


def build_network_extractor(
    name: str, hop: float, options: Mapping[str, Option] | None = None, align: Align = "causal"
) -> AudioExtractor | VideoExtractor:
    """The extractor for `onnx:FILE` or `tflite:FILE`."""
    options = options or {}
    return network_extractor(name, _open(name, str(options.get("output", ""))), hop, options, align)


def _open(name: str, output: str) -> Network:
    format_name, _, text = name.partition(":")
    if not is_network_file(name) or not text:
        raise UsageError(f"'{name}' is not {' or '.join(NETWORK_FILES)}")
    path = Path(text)
    if not path.is_file():
        raise InputError(f"{path}: no such {format_name} file")
    return FORMATS[format_name](path, output)
