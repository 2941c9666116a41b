"""What workers are told and what they answer, as plain JSON values: the same for processes and for a Ray cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pipelines.features.extraction.pieces import Piece
from pipelines.features.extraction.recording import Target
from pipelines.features.extraction.sources import Recording
from pipelines.features.request import FeatureRequest
from pipelines.features.stream_factory import StreamFactory


def write_setup(target: Target, streams: StreamFactory) -> dict[str, Any]:
    """What a worker is told once."""
    return {
        "target": {**asdict(target), "folder": str(target.folder)},
        "request": streams.request.to_dict(),
        "device": streams.device,
    }


def read_setup(setup: Mapping[str, Any]) -> tuple[Target, StreamFactory]:
    """The inverse of `write_setup`."""
    target = Target(**{**setup["target"], "folder": Path(setup["target"]["folder"])})
    return target, StreamFactory(FeatureRequest.from_dict(setup["request"]), setup["device"])


def write_task(recording: Recording, wait: bool, piece: Piece | None = None) -> dict[str, Any]:
    """What a worker is told for each recording, or for each piece of one."""
    return {
        "path": str(recording.path),
        "name": recording.name,
        "wait": wait,
        "piece": None if piece is None else asdict(piece),
    }


def read_task(task: Mapping[str, Any]) -> tuple[Recording, bool, Piece | None]:
    """The inverse of `write_task`."""
    piece = task["piece"]
    return Recording(Path(task["path"]), task["name"]), task["wait"], None if piece is None else Piece(**piece)
