"""Browsers that do nothing, for `benchmarks/serving.py`: connections to the events of a live page.

    python benchmarks/crowd.py PORT IDLE SLOW

Idle ones read what comes, slow ones never do. Prints "ready" when all are connected; ends with its standard input.
"""

from __future__ import annotations

import selectors
import socket
import sys


def main() -> None:
    port, idle, slow = map(int, sys.argv[1:4])
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)
    kept = []
    for number in range(idle + slow):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        kept.append(connection)
        if number < idle:
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
            selector.register(connection, selectors.EVENT_READ)
    print("ready", flush=True)
    while True:
        for key, _ in selector.select():
            if key.fileobj is sys.stdin:
                return
            assert isinstance(key.fileobj, socket.socket)
            if not key.fileobj.recv(1 << 16):
                selector.unregister(key.fileobj)


if __name__ == "__main__":
    main()
