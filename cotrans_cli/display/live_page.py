"""The live page beside a running command."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING

from cotrans_cli.display.console import note

if TYPE_CHECKING:
    from pipelines.serving.address import ServeOptions
    from pipelines.serving.hub import Controls
    from pipelines.streaming.observing import Observer
    from pipelines.streaming.predicting.stream_model import StreamModel
    from pipelines.streaming.sources.source import StreamSource


class LivePage:
    """Serves the page within a `with` block, and says where. Without options it does nothing."""

    def __init__(
        self,
        options: ServeOptions | None,
        sources: Sequence[StreamSource],
        models: Sequence[StreamModel],
        pictures: bool,
    ) -> None:
        self._options = options
        if options is not None:
            from pipelines.serving.hub import LiveHub
            from pipelines.serving.server import LiveServer

            self._hub, self._server = LiveHub(sources, models, pictures), LiveServer(options)

    def __enter__(self) -> LivePage:
        if self._options is not None:
            self._server.start(self._hub)
            note(f"live page: {self._server.address}")
            if (outer := self._server.outer_address) is not None:
                note(f"for others: {outer}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._options is not None:
            self._hub.finish()
            self._server.close()

    def beside(self, observer: Observer) -> Observer:
        """The page and somebody else watch."""
        if self._options is None:
            return observer
        from pipelines.streaming.observing import Observers

        return Observers([observer, self._hub])

    def control(self, controls: Controls) -> None:
        """What the page may pause and stop."""
        if self._options is not None:
            self._hub.controls = controls

    def stay(self) -> None:
        """Serve on after the stream has ended, until Ctrl-C or SIGTERM."""
        self._hub.finish()
        over = Event()
        # Handlers of our own: a shell starts what runs in the background with Ctrl-C ignored.
        before = {number: signal.signal(number, lambda *_: over.set()) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            note(f"the stream has ended; the live page stays until Ctrl-C: {self._server.address}")
            while not over.wait(1.0):
                pass
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
