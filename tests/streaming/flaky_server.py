"""An HTTP server that stops in the middle and comes back."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Script:
    """What each connection gets: how many bytes of `data`, and whether the length is announced."""

    data: bytes
    pieces: list[int | None]  # bytes of the first, second, … connection; None: all. The last goes for all others
    stated: bool = True  # a Content-Length header, as for a file; without, as for a live stream
    refused: int = 0  # requests after the first that are answered with 503
    requests: list[float] = field(default_factory=list)  # when they came


@contextmanager
def serving(script: Script, path: str = "a.wav") -> Iterator[str]:
    """The address of the data while the block lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            number = len(script.requests)
            script.requests.append(time.monotonic())
            if 1 <= number <= script.refused:
                self.send_error(503)
                return
            served = max(0, number - script.refused) if number else 0
            length = script.pieces[min(served, len(script.pieces) - 1)]
            self.send_response(200)
            if script.stated:
                self.send_header("Content-Length", str(len(script.data)))
            self.end_headers()
            try:
                self.wfile.write(script.data if length is None else script.data[:length])
            except (BrokenPipeError, ConnectionResetError):
                return

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/{path}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
