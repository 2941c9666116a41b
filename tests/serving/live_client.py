"""A client of the live page's server: plain requests with any headers, and its events."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.serving.address import parse_serving
from pipelines.serving.hub import LiveHub
from pipelines.serving.server import LiveServer
from pipelines.streaming import Prediction, StreamModel, find_sources
from tests.streaming.made_streams import CLASSES

TOKEN = "correct-horse-battery"
PATIENCE = 30.0  # seconds


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class ServerEvent:
    name: str
    id: str
    data: Any


@contextmanager
def served(
    paths: list[Path] | list[str], models: list[StreamModel], address: str = "0", token: str | None = None
) -> Iterator[tuple[LiveHub, LiveServer]]:
    """A hub with these sources and its server, at a port that is free."""
    hub = LiveHub(find_sources([str(path) for path in paths]), models)
    with LiveServer(parse_serving(address, token)) as server:
        server.start(hub)
        yield hub, server


def ask(
    server: LiveServer, path: str = "/", method: str = "GET", body: bytes = b"", host: str | None = None, **headers: str
) -> Answer:
    """headers: sec_fetch_site is Sec-Fetch-Site. host: None: as it should be."""
    connection = http.client.HTTPConnection("127.0.0.1", server.options.port, timeout=PATIENCE)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    if host != "":
        connection.putheader("Host", host or own_host(server))
    if body and "transfer_encoding" not in headers:
        headers.setdefault("content_length", str(len(body)))
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    try:
        if body:
            connection.send(body)
    except (BrokenPipeError, ConnectionResetError):
        pass  # it has answered already, and closed
    answer = connection.getresponse()
    try:
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def own_host(server: LiveServer) -> str:
    return f"127.0.0.1:{server.options.port}"


class Events:
    """The events of a server, one after the other."""

    def __init__(self, server: LiveServer, last: str = "", **headers: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.options.port, timeout=PATIENCE)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request("GET", "/events", headers={"Last-Event-ID": last, **given})
        self._answer = self._connection.getresponse()
        self.status = self._answer.status

    def __iter__(self) -> Iterator[ServerEvent]:
        fields: dict[str, str] = {}
        deadline = time.monotonic() + 2 * PATIENCE
        while line := self._answer.readline().decode():
            assert time.monotonic() < deadline, "the server only says that it is still here"
            if line.strip():
                name, _, value = line.rstrip("\n").partition(": ")
                fields[name] = value
            elif "data" in fields:
                yield ServerEvent(fields.get("event", "message"), fields.get("id", ""), json.loads(fields["data"]))
                fields = {}

    def until(self, wanted: str) -> list[ServerEvent]:
        """Events up to the first that is called so, or whose data have such a member."""
        events = []
        for event in self:
            events.append(event)
            if event.name == wanted or wanted in event.data:
                return events
        raise AssertionError(f"the events ended without {wanted}")

    def close(self) -> None:
        self._answer.close()
        self._connection.close()


def rows_of(events: list[ServerEvent], track: int = 0) -> list[list[Any]]:
    """All rows of a track, as a page would have them."""
    rows: list[list[Any]] = []
    for event in events:
        missing, new = event.data.get("rows", {}).get(str(track), (0, []))
        rows = new if missing else rows + new
    return rows


def spoken(index: int, source: int = 0, hop: float = 0.25, label: int | None = 1, **changes: Any) -> Prediction:
    """A prediction as a stream makes it, of a model with `CLASSES`."""
    probabilities = np.full(len(CLASSES), 0.05)
    probabilities[label or 0] = 0.8
    values = {
        "source": "a.wav",
        "source_number": source,
        "index": index,
        "time": index * hop,
        "begin": index * hop,
        "end": (index + 1) * hop,
        "label": None if label is None else CLASSES[label],
        "score": 0.8,
        "top": ((CLASSES[label or 0], 0.8),),
        "warmup": index < 2,
        "latency_ms": 12.34,
        "scores": np.zeros(len(CLASSES), np.float32),
        "probabilities": probabilities,
        "restart": index == 0,
        **changes,
    }
    return Prediction(**values)
