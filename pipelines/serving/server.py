"""The server of the live page, in a thread of its own beside the stream."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING

from pipelines.packages import require
from pipelines.serving.address import LOOPBACK, ServeOptions, host_and_port, own_address
from pipelines.serving.hub import LiveHub

if TYPE_CHECKING:
    import socket

GOODBYE = 2  # seconds that pages have to hear the rest
LARGEST_HEAD = 16 * 1024  # bytes of a request before its body
KEPT = 5  # seconds that a connection stays open with nothing to do


class LiveServer:
    """Serves a hub until `close`. The socket listens from the beginning, so that what is wrong is said at once."""

    def __init__(self, options: ServeOptions) -> None:
        check_installed()
        self._socket: socket.socket = options.listen()
        self.options = replace(options, port=self._socket.getsockname()[1])
        self._ready = Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None

    @property
    def address(self) -> str:
        """What to open in a browser, with the token where there is one."""
        return self._address_at(LOOPBACK if self._everywhere else self.options.host)

    @property
    def outer_address(self) -> str | None:
        """The same for other machines, where the server listens at all addresses of this one."""
        return self._address_at(own_address()) if self._everywhere else None

    @property
    def _everywhere(self) -> bool:
        return self.options.host in ("0.0.0.0", "::")

    def _address_at(self, host: str) -> str:
        query = f"?token={self.options.token}" if self.options.token else ""
        return f"http://{host_and_port(host, self.options.port)}/{query}"

    def __enter__(self) -> LiveServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self, hub: LiveHub) -> None:
        """Serve what a hub tells."""
        self._thread = Thread(target=self._run, args=(hub,), name="cotrans live page", daemon=True)
        self._thread.start()
        self._ready.wait()

    def close(self) -> None:
        """Tell every page the rest, and end."""
        if self._thread is None:
            self._socket.close()
            return
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()
        self._thread = None

    def _run(self, hub: LiveHub) -> None:
        try:
            asyncio.run(self._serve(hub))
        finally:
            self._ready.set()

    async def _serve(self, hub: LiveHub) -> None:
        import uvicorn

        from pipelines.serving.application import application
        from pipelines.serving.connection import BoundedConnection
        from pipelines.serving.feed import Feed

        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        feed = Feed(hub)
        server = uvicorn.Server(
            uvicorn.Config(
                application(hub, feed, self.options),
                http=BoundedConnection,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="critical",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEPT,
                timeout_graceful_shutdown=GOODBYE,
                h11_max_incomplete_event_size=LARGEST_HEAD,
            )
        )
        beating = asyncio.create_task(feed.run())
        serving = asyncio.create_task(server.serve(sockets=[self._socket]))
        self._ready.set()
        await self._ending.wait()
        feed.close()
        server.should_exit = True
        await serving
        await beating


def check_installed() -> None:
    """Raise where the packages of the server are missing."""
    require("--serve", "starlette", "uvicorn", extra="serve")
