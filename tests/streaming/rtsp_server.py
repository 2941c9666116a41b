"""A small RTSP server, sound over the connection itself (RTP interleaved in TCP), that can stop and come back."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

RATE = 16_000  # Hz
PACKET = 320  # samples: 20 ms
PAYLOAD = 97  # the first dynamic number, for 16-bit samples in network order
SESSION = "20240101"


class RtspServer:
    """Sends the same sound from its beginning to every client, in real time."""

    def __init__(
        self, samples: NDArray[np.float32], lengths: list[int | None], away: float = 0.0, silent: bool = False
    ) -> None:
        """samples: (n,) at 16 kHz. lengths: packets that the first, second, … client gets before the server stops;
        None: all. The last goes for all others. away: the seconds for which the server is not there after it stopped,
        if `come_back` is not called before.
        silent: instead of closing the connection, it sends nothing more until the client goes.
        """
        self._data = np.rint(samples * 32767).astype(">i2").tobytes()
        self._lengths, self._away, self._silent = lengths, away, silent
        self.clients = 0  # how many have asked to play
        self._closing = threading.Event()
        self._back = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"rtsp://127.0.0.1:{self.port}/live"

    def come_back(self) -> None:
        """End the time away."""
        self._back.set()

    def close(self) -> None:
        self._closing.set()
        self._back.set()
        self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        """One client after the other; no connection is taken while the server is away."""
        while not self._closing.is_set():
            self._listener.settimeout(0.05)
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            with connection:
                try:
                    played = self._serve(connection)
                except (ConnectionError, TimeoutError):
                    played = False
            if played and self._away:
                self._listener.close()
                self._back.wait(self._away)
                self._back.clear()
                self._listener = self._listen_again()

    def _listen_again(self) -> socket.socket:
        """At the same port, as soon as whoever took it meanwhile is gone."""
        while True:
            try:
                return socket.create_server(("127.0.0.1", self.port))
            except OSError:
                if self._closing.wait(0.05):
                    return socket.create_server(("127.0.0.1", 0))

    def _serve(self, connection: socket.socket) -> bool:
        """Answer requests until one of them is PLAY, then play; whether it came to that."""
        connection.settimeout(30)
        with connection.makefile("rb") as requests:
            while line := requests.readline():
                method, address, _ = line.decode().split()
                headers = {}
                while header := requests.readline().strip():
                    name, _, value = header.decode().partition(":")
                    headers[name.lower()] = value.strip()
                connection.sendall(self._answer(method, address, headers["cseq"]))
                if method == "PLAY":
                    self._play(connection)
                    if self._silent:
                        while requests.read(1):
                            pass
                    return True
        return False

    def _answer(self, method: str, address: str, number: str) -> bytes:
        lines = ["RTSP/1.0 200 OK", f"CSeq: {number}"]
        body = ""
        if method == "OPTIONS":
            lines.append("Public: OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN")
        elif method == "DESCRIBE":
            body = (
                "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=live\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\n"
                f"m=audio 0 RTP/AVP {PAYLOAD}\r\na=rtpmap:{PAYLOAD} L16/{RATE}/1\r\na=control:track\r\n"
            )
            lines += [f"Content-Base: {address}/", "Content-Type: application/sdp", f"Content-Length: {len(body)}"]
        elif method == "SETUP":
            lines += ["Transport: RTP/AVP/TCP;unicast;interleaved=0-1", f"Session: {SESSION}"]
        else:
            lines.append(f"Session: {SESSION}")
        return "\r\n".join([*lines, "", body]).encode()

    def _play(self, connection: socket.socket) -> None:
        length = self._lengths[min(self.clients, len(self._lengths) - 1)]
        self.clients += 1
        size = 2 * PACKET
        packets = [self._data[place : place + size] for place in range(0, len(self._data), size)]
        begin = time.monotonic()
        for number, packet in enumerate(packets[:length]):
            header = struct.pack(">BBHII", 0x80, PAYLOAD, number, number * PACKET, 1)
            connection.sendall(struct.pack(">cBH", b"$", 0, len(header) + len(packet)) + header + packet)
            if self._closing.wait(max(0.0, begin + (number + 1) * PACKET / RATE - time.monotonic())):
                return


@contextmanager
def rtsp_server(
    samples: NDArray[np.float32], lengths: list[int | None], away: float = 0.0, silent: bool = False
) -> Iterator[RtspServer]:
    """A server while the block lasts."""
    server = RtspServer(samples, lengths, away, silent)
    try:
        yield server
    finally:
        server.close()
