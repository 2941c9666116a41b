"""What the server of the live page refuses."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from itertools import count

import pytest

from pipelines.serving.server import LiveServer
from pipelines.streaming import StreamModel
from tests.serving.live_client import PATIENCE, TOKEN, Events, ask, own_host, rows_of, served, spoken
from tests.streaming.made_streams import small_model

PATHS = ["/", "/events", "/favicon.ico", "/nothing", "/sources/0/stop"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> StreamModel:
    return small_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def own(model: StreamModel) -> Iterator[LiveServer]:
    """For this machine alone, without a token."""
    with served(["a.wav"], [model]) as (_, server):
        yield server


@pytest.fixture(scope="module")
def open_to_all(model: StreamModel) -> Iterator[LiveServer]:
    """At every address, with a token."""
    with served(["a.wav"], [model], "0.0.0.0:0", TOKEN) as (_, server):
        yield server


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "OPTIONS", "TRACE"])
def test_nothing_is_answered_without_the_token(open_to_all: LiveServer, path: str, method: str) -> None:
    answer = ask(open_to_all, path, method, origin=f"http://{own_host(open_to_all)}")
    assert answer.status == 401
    assert TOKEN.encode() not in answer.body
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "wrong",
    [
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": TOKEN},
        {"cookie": f"cotrans={TOKEN}"},
        {"cookie": "cotrans-{port}=wrong"},
        {"cookie": "\x7f;;=;[]"},
        {"x_token": TOKEN},
    ],
)
def test_a_wrong_token_is_none(open_to_all: LiveServer, wrong: dict[str, str]) -> None:
    headers = {name: value.replace("{port}", str(open_to_all.options.port)) for name, value in wrong.items()}
    assert ask(open_to_all, "/", **headers).status == 401
    for query in (
        "token=",
        "token=wrong",
        f"token={TOKEN[:-1]}",
        f"Token={TOKEN}",
        f"token=x&token={TOKEN}",
        "%",
        "token=%ff",
    ):
        assert ask(open_to_all, f"/?{query}").status == 401


def test_the_token_opens_everything_and_the_browser_keeps_it(open_to_all: LiveServer) -> None:
    answer = ask(open_to_all, f"/?token={TOKEN}")
    assert answer.status == 200
    cookie = answer.headers["set-cookie"]
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
    kept = cookie.partition(";")[0]
    assert ask(open_to_all, "/", cookie=f"other=1; {kept}").status == 200
    assert Events(open_to_all, cookie=kept).until("hello")
    assert ask(open_to_all, "/", authorization=f"bearer {TOKEN}").status == 200
    # In the address of the page only: other addresses are not meant to be looked at.
    assert ask(open_to_all, f"/events?token={TOKEN}").status == 401
    assert TOKEN.encode() not in answer.body


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/etc/passwd",
        "/assets/../../../etc/passwd",
        "/assets/live.js",
        "/.\\..\\etc\\passwd",
        "/sources/0/../../etc/passwd",
        "/sources/0/%00",
        "/sources/99999999999999999999/stop",
        "/events/..",
        "/%",
        "/%ff%fe",
        "/?/etc/passwd",
        "http://elsewhere.example/",
    ],
)
def test_no_path_leads_to_a_file(own: LiveServer, path: str) -> None:
    for method in ("GET", "POST"):
        answer = ask(own, path, method, origin=f"http://{own_host(own)}")
        assert b"root:" not in answer.body
        assert answer.status in (404, 405) or (answer.status == 200 and b"<title>cotrans live</title>" in answer.body)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "192.168.1.7", "[::2]", "[", "@", "", "a b"],
)
def test_a_foreign_name_that_points_here_is_refused(own: LiveServer, host: str) -> None:
    assert ask(own, "/", host=host).status in (400, 421)


@pytest.mark.parametrize("host", ["localhost", "localhost:9000", "127.0.0.1:1", "[::1]:8080", "LOCALHOST"])
def test_names_of_this_machine_are_known_through_any_tunnel(own: LiveServer, host: str) -> None:
    assert ask(own, "/", host=host).status == 200


def test_open_to_all_it_goes_by_its_addresses_and_names(open_to_all: LiveServer) -> None:
    bearer = f"Bearer {TOKEN}"
    for host in ("192.168.1.7:80", "[fe80::1]", socket.gethostname()):
        assert ask(open_to_all, "/", host=host, authorization=bearer).status == 200
    assert ask(open_to_all, "/", host="evil.example", authorization=bearer).status == 421


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "",
        "https://127.0.0.1",
        "http://localhost:{port}",
        "http://127.0.0.1:{port}.evil.example",
    ],
)
def test_other_sites_may_ask_for_nothing(own: LiveServer, origin: str) -> None:
    origin = origin.format(port=own.options.port)
    for path, method in [("/sources/0/stop", "POST"), ("/events", "GET"), ("/", "GET")]:
        answer = ask(own, path, method, origin=origin)
        assert answer.status == 403
        assert "access-control-allow-origin" not in answer.headers


def test_a_post_without_an_origin_and_requests_from_within_other_pages(own: LiveServer) -> None:
    assert ask(own, "/sources/0/stop", "POST").status == 403
    for site in ("cross-site", "same-site"):
        for path in ("/", "/events"):
            assert ask(own, path, sec_fetch_site=site, sec_fetch_mode="no-cors", sec_fetch_dest="image").status == 403
        assert (
            ask(own, "/events", sec_fetch_site=site, sec_fetch_mode="navigate", sec_fetch_dest="document").status == 403
        )
        assert ask(own, "/", sec_fetch_site=site, sec_fetch_mode="navigate", sec_fetch_dest="iframe").status == 403
        # A link that somebody follows shows the page to him.
        assert ask(own, "/", sec_fetch_site=site, sec_fetch_mode="navigate", sec_fetch_dest="document").status == 200
    good = f"http://{own_host(own)}"
    assert ask(own, "/sources/0/stop", "POST", origin=good, sec_fetch_site="cross-site").status == 403


def test_requests_are_small(own: LiveServer) -> None:
    good = f"http://{own_host(own)}"
    assert ask(own, "/sources/0/stop", "POST", b"x" * 2000, origin=good).status == 413
    assert ask(own, "/", body=b"x" * 2_000_000).status == 413
    assert ask(own, "/sources/0/stop", "POST", origin=good, content_length="99999999999").status == 413
    assert (
        ask(own, "/sources/0/stop", "POST", b"5\r\nhello\r\n0\r\n\r\n", origin=good, transfer_encoding="chunked").status
        == 411
    )
    assert ask(own, "/sources/0/stop", "POST", origin=good, content_length="-1").status == 400
    assert ask(own, f"/?{'x' * 4000}").status == 414
    assert ask(own, "/", x_long="x" * 10_000).status == 431
    assert ask(own, "/", x_long="x" * 40_000).status in (400, 431)
    assert ask(own, f"/{'x' * 100_000}").status in (400, 414)


def test_who_sends_too_much_still_hears_why(own: LiveServer) -> None:
    """Closing while somebody still sends would reset his connection, and the answer would be lost with it."""
    for beginning in (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000\r\n\r\n", b"GET /"):
        with socket.create_connection(("127.0.0.1", own.options.port), PATIENCE) as connection:
            connection.sendall(beginning)
            for _ in range(30):
                connection.sendall(b"x" * 100_000)
            answer = b""
            while piece := connection.recv(4096):
                answer += piece
        assert answer.startswith((b"HTTP/1.1 413", b"HTTP/1.1 400")), beginning
        assert answer.endswith(b".\n") or b"Invalid HTTP request" in answer


def test_a_request_without_end_is_cut_off(own: LiveServer) -> None:
    with socket.create_connection(("127.0.0.1", own.options.port), PATIENCE) as connection:
        try:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            for number in range(10_000):
                connection.sendall(f"X-{number}: {'x' * 100}\r\n".encode())
        except (BrokenPipeError, ConnectionResetError):
            return
        assert connection.recv(100).startswith(b"HTTP/1.1 400")


def test_connections_that_ask_for_nothing_or_read_nothing_are_closed(
    model: StreamModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {"connection.PATIENCE": 0.4, "connection.STALLED": 3, "address.UNREAD": 4096, "feed.MOST_WATCHERS": 1}
    for name, value in small.items():
        monkeypatch.setattr(f"pipelines.serving.{name}", value)
    with served(["a.wav"], [model]) as (hub, server):
        silent, endless = (socket.create_connection(("127.0.0.1", server.options.port), PATIENCE) for _ in "12")
        endless.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        assert [ended(connection) for connection in (silent, endless)] == [True, True]
        deaf = socket.create_connection(("127.0.0.1", server.options.port), PATIENCE)
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert deaf.recv(15) == b"HTTP/1.1 200 OK"
        assert ask(server, "/events").status == 503  # there is one place, and it is taken
        deadline, numbers = time.monotonic() + PATIENCE, count()
        while (events := Events(server)).status != 200:
            for _ in range(500):
                hub.predicted(spoken(next(numbers)))
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert len(rows_of(events.until("rows"))) > 1
        deaf.close()


def ended(connection: socket.socket) -> bool:
    """Whether the other side closes it."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_no_more_connections_than_the_server_takes(model: StreamModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.serving.connection.MOST", 3)
    with served(["a.wav"], [model]) as (_, server):
        held = [socket.create_connection(("127.0.0.1", server.options.port), PATIENCE) for _ in range(3)]
        held[-1].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert held[-1].recv(15) == b"HTTP/1.1 200 OK"
        assert ended(socket.create_connection(("127.0.0.1", server.options.port), PATIENCE))
        for connection in held:
            connection.close()


def test_every_answer_carries_its_rules(own: LiveServer, open_to_all: LiveServer) -> None:
    answers = [
        ask(own),
        ask(own, "/nothing"),
        ask(own, "/", host="evil.example"),
        ask(open_to_all),
        ask(own, "/", "PUT"),
    ]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers


def test_no_web_socket_is_opened(own: LiveServer) -> None:
    headers = {
        "upgrade": "websocket",
        "connection": "Upgrade",
        "sec_websocket_version": "13",
        "sec_websocket_key": "x" * 24,
    }
    assert ask(own, "/nothing", **headers).status == 404
