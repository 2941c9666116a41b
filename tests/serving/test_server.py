"""The server of the live page, by real requests: events, late and slow pages, pausing and stopping, the end."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from threading import Thread

import pytest

from pipelines.serving.address import parse_serving
from pipelines.serving.hub import LiveHub
from pipelines.serving.server import LiveServer
from pipelines.streaming import PlayOptions, Prediction, Stream, StreamModel, find_sources
from tests.serving.live_client import PATIENCE, Events, ask, own_host, rows_of, served, spoken
from tests.streaming.made_streams import small_model, write_rows


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> StreamModel:
    return small_model(tmp_path_factory.mktemp("model"))


def post(server: LiveServer, path: str) -> int:
    return ask(server, path, "POST", origin=f"http://{own_host(server)}").status


def test_a_stream_is_seen_while_it_runs_and_its_sources_paused_and_stopped(tmp_path: Path, model: StreamModel) -> None:
    paths = [tmp_path / "a.npy", tmp_path / "b.npy"]
    for seed, path in enumerate(paths):
        write_rows(path, 40, seed)
    hub = LiveHub(find_sources([str(path) for path in paths]), [model])
    predictions: list[Prediction] = []

    def play(stream: Stream) -> None:
        for event in stream.events():
            if isinstance(event, Prediction):
                predictions.append(event)
                hub.predicted(event)
            else:
                hub.ended(event)
        hub.finish()

    options = PlayOptions(hop=0.05, loop=True)
    with (
        LiveServer(parse_serving("0", None)) as server,
        Stream(find_sources([str(path) for path in paths]), model, options) as stream,
    ):
        server.start(hub)
        hub.controls = stream
        events = Events(server)
        hub.begin(stream.statistics)
        thread = Thread(target=play, args=(stream,))
        thread.start()
        heard = events.until("rows")
        assert heard[0].name == "hello"
        assert post(server, "/sources/1/pause") == 204
        heard += _until_state(events, 1, "paused")
        assert post(server, "/sources/1/resume") == 204
        heard += _until_state(events, 1, "playing")
        assert post(server, "/sources/0/stop") == 204
        heard += _until_state(events, 0, "stopped")
        assert post(server, "/sources/0/pause") == 409
        assert post(server, "/sources/1/stop") == 204
        heard += events.until("over")
        thread.join()
    for track in (0, 1):
        own = [prediction for prediction in predictions if prediction.source_number == track]
        rows = rows_of(heard, track)
        assert [row[0] for row in rows] == [round(prediction.begin, 3) for prediction in own]
        assert [row[2] for row in rows] == [model.class_names.index(str(prediction.label)) for prediction in own]
    assert heard[-1].data["over"]
    assert [event.name for event in events] == ["bye"]


def _until_state(events: Events, place: int, state: str) -> list:  # type: ignore[type-arg]
    heard = []
    for event in events:
        heard.append(event)
        if event.data.get("states", {}).get(str(place)) == state:
            return heard
    raise AssertionError(f"never {state}")


def test_what_a_page_asks_for_that_is_not_there(model: StreamModel) -> None:
    with served(["a.wav"], [model]) as (_, server):
        assert post(server, "/sources/1/stop") == 404
        assert post(server, "/sources/0/explode") == 404
        assert post(server, "/sources/-1/stop") == 404
        assert post(server, "/sources/0/stop") == 409  # nothing plays yet
        assert ask(server, "/sources/0/stop").status == 405
        assert ask(server, "/nothing").status == 404
        assert ask(server, "/favicon.ico").status == 204


def test_a_page_goes_on_where_its_connection_broke_and_begins_anew_on_another_server(model: StreamModel) -> None:
    with served(["a.wav"], [model]) as (hub, server):
        events = Events(server)
        hub.predicted(spoken(0))
        last = events.until("rows")[-1].id
        events.close()
        hub.predicted(spoken(1))
        again = Events(server, last)
        first = again.until("rows")
        assert first[0].name == "message"
        assert [row[0] for row in rows_of(first)] == [0.25]
    for strange in (last, "", "x", f"{hub.run}-999999", "0" * 12 + "-1", f"{hub.run}-{'9' * 400}"):
        with served(["a.wav"], [model]) as (_, other):
            assert next(iter(Events(other, strange))).name == "hello"


def test_a_late_page_gets_the_recent_past(model: StreamModel) -> None:
    with served(["a.wav"], [model]) as (hub, server):
        for index in range(100):
            hub.predicted(spoken(index))
        early = Events(server)
        early.until("rows")
        assert len(rows_of(Events(server).until("rows"))) == 100


def test_a_page_that_does_not_read_is_not_waited_for_and_begins_anew(
    model: StreamModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {"feed.SHARE": 1.0, "feed.SHORTEST_BEAT": 0.01, "track.RECENT_ROWS": 200, "address.UNREAD": 4096}
    for name, value in small.items():
        monkeypatch.setattr(f"pipelines.serving.{name}", value)
    with served(["a.wav"], [model]) as (hub, server):
        slow = socket.create_connection(("127.0.0.1", server.options.port))
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(f"GET /events HTTP/1.1\r\nHost: {own_host(server)}\r\n\r\n".encode())
        quick = Events(server)
        heard, index = [], 0
        # Far more than the buffers of a connection hold; the quick page hears all of it.
        for _ in range(40):
            for _ in range(150):
                hub.predicted(spoken(index))
                index += 1
            heard += quick.until("rows")
            while rows_of(heard)[-1][0] < 0.25 * (index - 1):
                heard += quick.until("rows")
            heard = heard[-2:]
        missing = _read_until(slow, b'"rows":{"0":[1,[[', b'"rows":{"0":[0,[[0.000,')
        assert missing
        slow.close()


def _read_until(connection: socket.socket, wanted: bytes, first: bytes) -> bool:
    """Whether the text comes; `first` must come before it."""
    connection.settimeout(PATIENCE)
    text, begun, deadline = b"", False, time.monotonic() + PATIENCE
    while (part := connection.recv(65536)) and time.monotonic() < deadline:  # signs of life come for ever
        text += part
        begun = begun or first in text
        if begun and wanted in text:
            return True
        text = text[-200:]
    return False


def test_a_server_that_ends_tells_every_page_and_waits_for_none(model: StreamModel) -> None:
    with served(["a.wav"], [model]) as (hub, server):
        deaf = [socket.create_connection(("127.0.0.1", server.options.port)) for _ in range(5)]
        for connection in deaf[:3]:
            connection.sendall(f"GET /events HTTP/1.1\r\nHost: {own_host(server)}\r\n\r\n".encode())
        events = Events(server)
        events.until("hello")
        hub.predicted(spoken(0))
        hub.finish()
    rest = list(events)
    assert len(rows_of(rest)) == 1
    assert rest[-1].name == "bye"
    # The port is free at once, for the next stream.
    with LiveServer(parse_serving(str(server.options.port), None)):
        pass
    for connection in deaf:
        connection.close()


def test_no_more_pages_than_the_server_takes(model: StreamModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.serving.feed.MOST_WATCHERS", 2)
    with served(["a.wav"], [model]) as (hub, server):
        first = [Events(server) for _ in range(2)]
        for events in first:
            events.until("hello")
        assert ask(server, "/events").status == 503
        first[0].close()
        deadline = time.monotonic() + PATIENCE
        while True:  # a place is free when the server has noticed
            hub.predicted(spoken(0))
            events = Events(server)
            if events.status == 200:
                break
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_messages_are_one_line_of_json_whatever_names_hold(tmp_path: Path) -> None:
    strange = 'a"<b>\n\x1b[31m\u2028\u202eevil.wav'
    hub = LiveHub(find_sources([str(tmp_path / strange)]), [small_model(tmp_path)])
    assert "\n" not in hub.hello()
    assert json.loads(hub.hello())["sources"][0]["name"] == strange
