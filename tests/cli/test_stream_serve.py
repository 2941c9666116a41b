"""`cotrans stream --serve` as a user runs it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from cotrans_cli.main import run
from tests.streaming.made_streams import write_model, write_rows

TOKEN = "correct-horse-battery"


def started(folder: Path, *options: str) -> tuple[subprocess.Popen[str], str]:
    """The command, and the address that it prints."""
    words = ["stream", "a.npy", "--model", str(folder / "model.safetensors"), "--hop", "0.1", "--plain", *options]
    command = [sys.executable, "-c", "import sys; from cotrans_cli.main import main; sys.exit(main())", *words]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if address := re.match(r"live page: (http://\S+)", line):
            return process, address[1]
    raise AssertionError("".join(lines))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_model(tmp_path / "model.safetensors")
    write_rows(tmp_path / "a.npy", 20)
    return tmp_path


def messages(address: str, header: dict[str, str]) -> list[dict[str, object]]:
    """Everything that the server says until it ends."""
    request = urllib.request.Request(address.partition("?")[0] + "events", headers=header)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return [json.loads(line[6:]) for line in answer.read().decode().splitlines() if line.startswith("data: ")]


def test_a_stream_serves_until_it_ends(folder: Path) -> None:
    process, address = started(folder, "--serve", "0.0.0.0:0", "--token", TOKEN, "--format", "jsonl")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(address.partition("?")[0])
    with urllib.request.urlopen(address) as answer:
        assert b"<title>cotrans live</title>" in answer.read()
    heard = messages(address, {"Authorization": f"Bearer {TOKEN}"})
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert heard[0]["sources"] == [{"name": "a.npy", "kind": "features"}]
    rows = [row for message in heard for row in message.get("rows", {}).get("0", [0, []])[1]]  # type: ignore[attr-defined]
    written = [json.loads(line) for line in output.splitlines()]
    assert len(rows) == len(written) == 20
    assert [row[5][1] for row in rows] == [round(1000 * line["score"]) for line in written]
    assert any("over" in message for message in heard)
    assert str(folder) not in json.dumps(heard)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_on_after_the_end_until_it_is_told_to_stop(folder: Path, number: int) -> None:
    process, address = started(folder, "--serve", "127.0.0.1:0", "--keep-serving", "--fast", "--quiet")
    assert process.stderr is not None
    assert "stays until Ctrl-C" in process.stderr.readline()
    with urllib.request.urlopen(f"{address}events") as answer:
        while b'"over":true' not in (line := answer.readline()):
            assert line
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode in (0, -number, 128 + number)


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--serve", "0.0.0.0:8080"], 2, "--token auto"),
        (["--serve", "web"], 2, r"give \[HOST:\]PORT"),
        (["--serve", "8080", "--token", "short"], 2, "--token must be"),
        (["--token", TOKEN], 2, "add --serve"),
        (["--keep-serving"], 2, "add --serve"),
    ],
)
def test_what_cannot_be_served_is_one_line(
    folder: Path, options: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["stream", str(folder / "a.npy"), *options]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(says, line)


def test_a_port_in_use_and_packages_that_are_missing(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert run(["stream", str(folder / "a.npy"), "--serve", port]) == 3
        assert f"127.0.0.1:{port}: this port is in use" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "starlette", None)
    assert run(["stream", str(folder / "a.npy"), "--serve", "0"]) == 6
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("--serve: starlette is not installed: pip install 'cotrans[serve]'")
