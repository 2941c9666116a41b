"""A real HTTP server on this machine that gives one file and misbehaves in every way we know of."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PIECE = 1 << 18  # bytes that are sent at a time where there are pauses


@dataclass
class Behaviour:
    """What the server does; the tests change it while it runs."""

    content: bytes
    ranges: bool = True  # honour Range
    cut_after: int | None = None  # close the connection after this many bytes of a body
    cuts: int = 0  # how many answers are cut
    announce: bool = True  # send Content-Length
    status: int = 200
    pause: float = 0.0  # seconds after every 256 KiB of a body
    requests: list[str | None] = field(default_factory=list)  # the Range header of every request


@dataclass
class Server:
    url: str
    behaviour: Behaviour


@contextmanager
def file_server(content: bytes, name: str) -> Iterator[Server]:
    """A server on this machine whose every address gives `content`."""
    behaviour = Behaviour(content)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            behaviour.requests.append(asked)
            if behaviour.status != 200:
                self.send_error(behaviour.status)
                return
            start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and behaviour.ranges else 0
            if start >= len(behaviour.content):
                self.send_response(416)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body = behaviour.content[start:]
            self.send_response(206 if start else 200)
            if start:
                total = len(behaviour.content)
                self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
            if behaviour.ranges:
                self.send_header("Accept-Ranges", "bytes")
            if behaviour.announce:
                self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")
            self.end_headers()
            if behaviour.cut_after is not None and behaviour.cuts > 0:
                behaviour.cuts -= 1
                body = body[: behaviour.cut_after]
            self._send(body)
            self.close_connection = True

        def _send(self, body: bytes) -> None:
            if not behaviour.pause:
                self.wfile.write(body)
                return
            with suppress(ConnectionError):  # whoever asked may be killed meanwhile
                for start in range(0, len(body), PIECE):
                    self.wfile.write(body[start : start + PIECE])
                    time.sleep(behaviour.pause)

        def log_message(self, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield Server(f"http://127.0.0.1:{running.server_port}/{name}", behaviour)
        running.shutdown()
        thread.join()
