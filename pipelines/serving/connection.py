"""A connection to the server that cannot be held for nothing: the stream beside it needs files and memory too."""

from __future__ import annotations

from asyncio import Protocol, TimerHandle, Transport
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 500  # connections; a process may have 1,024 files open where nobody raised that
PATIENCE = 10.0  # seconds in which a request must have come
STALLED = 6  # looks, `PATIENCE` apart, after which a reader who took nothing of what waits for him is gone
LINGER = 1.0  # seconds in which the rest of a refused request is thrown away


class BoundedConnection(H11Protocol):
    """uvicorn's own, which is closed when it is one too many, asks for nothing, or does not read for a minute."""

    _timer: TimerHandle | None = None
    _request: object = None  # the one that was being answered at the last look
    _unread = 0  # bytes that waited then
    _stalled = 0  # looks since anything of them was read

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(ClosedAfterAnswer(transport, self))  # type: ignore[arg-type]
        if len(self.connections) > MOST:
            transport.close()
        else:
            self._timer = self.loop.call_later(PATIENCE, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        request, unread = self.cycle, self.transport.get_write_buffer_size()
        answered = request is None or request.response_complete
        self._stalled = self._stalled + 1 if unread and unread == self._unread else 0
        if (answered and request is self._request) or self._stalled >= STALLED:
            self.transport.abort()
            return
        self._request, self._unread = request, unread
        self._timer = self.loop.call_later(PATIENCE, self._look)


class ClosedAfterAnswer:
    """A transport whose closing does not cost the peer his answer.

    Closing a connection while the peer still sends resets it, and what he has not read by then is lost to him. So where
    a request is refused before it has come as a whole, our side alone is closed, and for a moment the rest is thrown
    away.
    """

    def __init__(self, transport: Transport, connection: BoundedConnection) -> None:
        self._transport, self._connection = transport, connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def close(self) -> None:
        if self._transport.is_closing() or self._connection.conn.their_state not in (h11.SEND_BODY, h11.ERROR):
            self._transport.close()
            return
        self._transport.set_protocol(Rest(self._connection))
        self._transport.write_eof()
        self._transport.resume_reading()
        self._connection.loop.call_later(LINGER, self._transport.close)


class Rest(Protocol):
    """Reads what is still sent, and keeps nothing of it."""

    def __init__(self, connection: BoundedConnection) -> None:
        self._connection = connection

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.connection_lost(exc)
