"""Where the live page is served, and who may see it."""

from __future__ import annotations

import errno
import ipaddress
import re
import secrets
import socket
from dataclasses import dataclass

from pipelines.errors import InputError, UsageError

LOOPBACK = "127.0.0.1"
ANY_TOKEN = "auto"  # as a token: make one
SHORTEST_TOKEN = 12
LONGEST_TOKEN = 200
TOKEN = re.compile(r"[A-Za-z0-9._~-]+")  # what needs no escapes in an address, a cookie or a header
WAITING = 128  # connections that the system holds while the server is busy
UNREAD = 128 * 1024  # bytes that the system keeps, about twice over, for a browser that does not read


@dataclass(frozen=True)
class ServeOptions:
    """Host, port and token of a server."""

    host: str
    port: int  # 0: any that is free
    token: str | None = None  # None: whoever reaches the address sees the page

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise UsageError(f"--serve: a port is a number up to 65535, not {self.port}")
        if self.token is None and not self.loopback:
            raise UsageError(
                f"--serve {self.host}: others can reach this address: add --token auto, or one of your own"
            )
        if self.token is not None and not (
            SHORTEST_TOKEN <= len(self.token) <= LONGEST_TOKEN and TOKEN.fullmatch(self.token)
        ):
            raise UsageError(
                f"--token must be {SHORTEST_TOKEN} to {LONGEST_TOKEN} letters, digits and - . _ ~, or the word auto"
            )

    @property
    def loopback(self) -> bool:
        """Whether only this machine reaches the address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def listen(self) -> socket.socket:
        """A socket that listens: whoever cannot serve hears of it before anything is loaded."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            # A server that has just ended may be followed by another at once.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNREAD)  # connections have it from here
            listener.bind((self.host, self.port))
            listener.listen(WAITING)
        except (OSError, UnicodeError) as error:
            listener.close()
            raise InputError(f"--serve {host_and_port(self.host, self.port)}: {_problem(error)}") from error
        return listener


def parse_serving(text: str, token: str | None) -> ServeOptions:
    """`8080`, `0.0.0.0:8080`, `[::1]:8080`; a token, `auto` for one that is made now, or None."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not port.isascii() or not port.isdigit() or (":" in host and not text.startswith("[")):
        raise UsageError(f"--serve {text}: give [HOST:]PORT, as in 8080, 0.0.0.0:8080 or [::1]:8080")
    return ServeOptions(host or LOOPBACK, int(port), secrets.token_urlsafe(24) if token == ANY_TOKEN else token)


def host_and_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def own_address() -> str:
    """Where others find this machine: its address on the way to the network, or else its name."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        try:
            way.connect(("192.0.2.1", 9))  # an address of examples: nothing is sent
            return str(way.getsockname()[0])
        except OSError:
            return socket.gethostname()


def _problem(error: OSError | UnicodeError) -> str:
    number = getattr(error, "errno", None)
    if number == errno.EADDRINUSE:
        return "this port is in use: choose another one, or 0 for any that is free"
    if number == errno.EACCES:
        return "this port is reserved for the system: choose one above 1023"
    if number == errno.EADDRNOTAVAIL:
        return "this machine has no such address: give one of its own, or 0.0.0.0 for all of them"
    if isinstance(error, socket.gaierror | UnicodeError):
        return "no such host: give an address of this machine"
    return getattr(error, "strerror", None) or str(error)
