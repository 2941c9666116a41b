"""Where the live page is served, and what sources are called there."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import InputError, UsageError
from pipelines.serving.address import SHORTEST_TOKEN, ServeOptions, parse_serving
from pipelines.serving.server import LiveServer
from pipelines.streaming import StreamSource
from pipelines.streaming.sources.names import public_address, public_names

LONG = "a" * SHORTEST_TOKEN


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("8080", "127.0.0.1", 8080),
        ("localhost:0", "localhost", 0),
        ("[::1]:80", "::1", 80),
        ("127.9.9.9:1", "127.9.9.9", 1),
    ],
)
def test_addresses_of_this_machine_need_no_token(text: str, host: str, port: int) -> None:
    assert parse_serving(text, None) == ServeOptions(host, port)


@pytest.mark.parametrize("text", ["0.0.0.0:80", "[::]:80", "192.168.1.7:80", "example.org:80", "localhost.evil.org:80"])
def test_every_other_address_needs_a_token(text: str) -> None:
    with pytest.raises(UsageError, match="--token auto"):
        parse_serving(text, None)
    assert parse_serving(text, LONG).token == LONG
    made, other = parse_serving(text, "auto").token, parse_serving(text, "auto").token
    assert made != other
    assert made is not None
    assert len(made) >= 32


@pytest.mark.parametrize(
    "text", ["", "port", "8080:", "1:2:3", "::1:80", "-1", "80.5", "70000", "٨٠٨٠", "[::1]", "a b"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="--serve"):
        parse_serving(text, None)


@pytest.mark.parametrize("token", ["", "short", "a" * 11, "a" * 201, f"{LONG} ", f"{LONG};", f"{LONG}\n", "ü" * 20])
def test_what_is_no_token(token: str) -> None:
    with pytest.raises(UsageError, match="--token"):
        parse_serving("8080", token)


def test_a_port_that_is_taken_and_addresses_of_others() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"127.0.0.1:{port}: this port is in use"):
            LiveServer(ServeOptions("127.0.0.1", port))
    for host, problem in [("203.0.113.7", "has no such address"), ("no-such-host.invalid", "no such host")]:
        with pytest.raises(InputError, match=problem):
            LiveServer(ServeOptions(host, 0, LONG))


def test_the_address_to_open() -> None:
    with LiveServer(parse_serving("0.0.0.0:0", LONG)) as server:
        assert server.address == f"http://127.0.0.1:{server.options.port}/?token={LONG}"
        assert server.outer_address is not None
        assert server.outer_address.endswith(f":{server.options.port}/?token={LONG}")
    with LiveServer(parse_serving("0", None)) as server:
        assert server.address == f"http://127.0.0.1:{server.options.port}/"
        assert server.outer_address is None


def test_names_hold_no_path_and_no_password() -> None:
    sources = [
        StreamSource("media", "/home/me/secret/talk.mp4", "/home/me/secret/talk.mp4"),
        StreamSource("media", "other/talk.mp4", "other/talk.mp4"),
        StreamSource("features", "/a/rgb.npy+/b/flow.npy", "/a/rgb.npy+/b/flow.npy"),
        StreamSource("features", "/a/f.pickle:video_1", "/a/f.pickle", "video_1"),
        StreamSource("camera", "camera:/dev/video0", "/dev/video0"),
        StreamSource("microphone", "mic:", "default"),
        StreamSource("pipe", "-", "-"),
        StreamSource("url", "rtsp://me:word@cam.local/key", "rtsp://me:word@cam.local/key"),
    ]
    assert public_names(sources) == [
        "talk.mp4 (1)",
        "talk.mp4 (2)",
        "rgb.npy+flow.npy",
        "f.pickle:video_1",
        "camera:video0",
        "mic:",
        "standard input",
        "rtsp://cam.local",
    ]


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("rtsp://cam.local/stream", "rtsp://cam.local"),
        ("rtsp://admin:1234@10.0.0.8:554/user=admin_password=1234", "rtsp://10.0.0.8:554"),
        ("https://example.org/a.m3u8?token=secret", "https://example.org"),
        ("rtmp://live.example.org/app/STREAMKEY", "rtmp://live.example.org"),
        ("srt://host:9000?passphrase=secret", "srt://host:9000"),
        ("udp://@239.0.0.1:1234", "udp://239.0.0.1:1234"),
        ("http://[fe80::1]:8080/x", "http://[fe80::1]:8080"),
        ("rtsp://admin:12/34@cam.local/", "rtsp://…"),  # a password with a slash in it
        ("rtsp://a:p@ss/word@cam.local/", "rtsp://…"),
        ("rtsp://admin:1234?x@cam.local/", "rtsp://…"),
        ("http:///path", "http://…"),
        ("http://<b>bold</b>/", "http://…"),
    ],
)
def test_addresses_are_cut_to_their_host(address: str, name: str) -> None:
    assert public_address(address) == name


WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=4, max_size=12).map(
    lambda text: f"SECRET{text}"
)


@given(WORDS, WORDS, WORDS)
def test_no_password_path_or_query_is_ever_shown(user: str, password: str, path: str) -> None:
    for address in (
        f"rtsp://{user}:{password}@cam.local:554/{path}",
        f"rtsp://{user}@cam.local/{path}?{password}",
        f"https://cam.local/{path}#{password}",
    ):
        assert "SECRET" not in public_address(address)
