"""A real stream with its live page, in threads of the test."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from pipelines.serving.address import parse_serving
from pipelines.serving.hub import LiveHub
from pipelines.serving.server import LiveServer
from pipelines.streaming import PlayOptions, PredictionOptions, StreamModel, find_sources
from pipelines.streaming.run import RunOptions, StreamRun


@dataclass(frozen=True)
class Running:
    hub: LiveHub
    server: LiveServer
    run: StreamRun
    thread: Thread

    @property
    def address(self) -> str:
        return self.server.address


@contextmanager
def running(
    sources: Sequence[Path | str],
    models: list[StreamModel],
    address: str = "0",
    token: str | None = None,
    pictures: bool = True,
    **play: Any,
) -> Iterator[Running]:
    """Played again and again unless told otherwise, until the block is left."""
    streams = find_sources([str(source) for source in sources])
    hub = LiveHub(streams, models, pictures)
    options = RunOptions(PlayOptions(**{"loop": True, **play}), PredictionOptions(), None)
    run = StreamRun(streams, models, options, hub, io.StringIO())
    hub.controls = run.stream

    def stream() -> None:
        try:
            run.run()
        finally:
            hub.finish()

    thread = Thread(target=stream, daemon=True)
    with LiveServer(parse_serving(address, token)) as server:
        server.start(hub)
        thread.start()
        try:
            yield Running(hub, server, run, thread)
        finally:
            run.stop()
            thread.join()
