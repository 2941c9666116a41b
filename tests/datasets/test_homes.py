"""`cotrans data get` against a real HTTP server on this machine, for every name of the registry."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from cotrans_cli.main import run
from pipelines import download as download_module
from pipelines.datasets.opening import open_dataset
from pipelines.datasets.published import homes as homes_module
from pipelines.datasets.published.homes import SOURCE, DatasetHome, find_home, get_dataset, known_homes
from pipelines.download import UnexpectedFileError
from pipelines.errors import InputError, MissingDependencyError, UsageError
from pipelines.untrusted.archives import unpack
from tests.file_server import Server, file_server

GENRES = ("blues", "jazz")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTRANS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(download_module.time, "sleep", lambda seconds: None)


def sound(seconds: float, seed: int) -> bytes:
    file = io.BytesIO()
    samples = 0.1 * np.random.default_rng(seed).standard_normal(int(8000 * seconds))
    soundfile.write(file, samples.astype(np.float32), 8000, format="WAV")
    return file.getvalue()


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tarred(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def esc50() -> bytes:
    rows = ["filename,fold,target,category,esc10,src_file,take"]
    files = {}
    for number, (category, esc10) in enumerate([("dog", True), ("rain", True), ("cat", False), ("dog", True)]):
        for fold in (1, 2):
            name = f"{fold}-{number}-A-{number}.wav"
            rows.append(f"{name},{fold},{number},{category},{esc10},1,A")
            files[f"ESC-50-master/audio/{name}"] = sound(0.3, number)
    table = "\n".join(rows).encode()
    return zipped({"ESC-50-master/meta/esc50.csv": table, "ESC-50-master/tests/x.py": b"x", **files})


ARCHIVES = {
    "gtzan": lambda: tarred(
        {"genres/bextract.mf": b"x"}
        | {f"genres/{genre}/{genre}.{number:05d}.wav": sound(0.2, number) for genre in GENRES for number in range(12)}
    ),
    "esc50": esc50,
    "esc10": esc50,
    "digits": lambda: tarred(
        {
            f"free-spoken-digit-dataset-1.0.10/recordings/{digit}_{speaker}_{take}.wav": sound(0.3, digit)
            for digit in range(10)
            for speaker in ("ann", "bob")
            for take in range(2)
        }
    ),
    "thumos14-annotations": lambda: zipped({"thumos_val_anno.pickle": b"1", "thumos_test_anno.pickle": b"2"}),
}


@pytest.fixture(params=sorted(ARCHIVES))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(name: str) -> Iterator[Server]:
    with file_server(ARCHIVES[name](), known_homes()[name].file) as running:
        yield running


@pytest.fixture
def home(name: str, server: Server) -> DatasetHome:
    return replace(known_homes()[name], url=server.url)


def test_every_name_of_the_registry_is_tried_here() -> None:
    assert set(ARCHIVES) == set(known_homes())


def test_a_dataset_arrives_and_opens(home: DatasetHome, tmp_path: Path) -> None:
    fetched = get_dataset(home, tmp_path / "data")
    assert fetched.new and fetched.first_use
    assert {path.name for path in tmp_path.iterdir()} == {"data", "cache"}  # no archive, lock or part is left
    if home.whole:
        assert zipfile.is_zipfile(fetched.root / "anno_thumos.zip")
        return
    dataset = open_dataset(home.dataset, fetched.root)
    classes = {"gtzan": 10, "esc50": 3, "esc10": 2, "digits": 11}
    assert len(dataset.class_names) == classes[home.name]
    if home.name in ("esc10", "esc50"):
        assert {item.group for item in dataset.items} == {"1", "2"}


def test_a_second_call_finds_it_there(home: DatasetHome, server: Server, tmp_path: Path) -> None:
    first = get_dataset(home, tmp_path / "data")
    again = get_dataset(home, tmp_path / "data")
    assert not again.new and again.files == first.files and len(server.behaviour.requests) == 1


def test_what_is_there_is_not_said_to_be_fetched(
    home: DatasetHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(homes_module, "find_home", lambda name: home)
    assert run(["data", "get", home.name, "--root", str(tmp_path / "data")]) == 0
    first = capsys.readouterr()
    assert "fetching" in first.err and home.licence in first.err
    assert run(["data", "get", home.name, "--root", str(tmp_path / "data")]) == 0
    again = capsys.readouterr()
    assert again.out == first.out and again.err.endswith("holds it already: nothing is fetched\n")
    assert "fetching" not in again.err and "1 files" not in again.out


def test_an_interrupted_download_is_gone_on_with(home: DatasetHome, server: Server, tmp_path: Path) -> None:
    half = len(server.behaviour.content) // 2
    server.behaviour.cut_after, server.behaviour.cuts = half, 1
    seen: list[tuple[int, int | None]] = []

    def stop_at_half(done: int, total: int | None) -> None:
        seen.append((done, total))
        if len(seen) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get_dataset(home, tmp_path / "data", stop_at_half)
    assert not (tmp_path / "data").exists()
    get_dataset(home, tmp_path / "data", stop_at_half)
    assert server.behaviour.requests[-1] == f"bytes={half}-"
    assert (tmp_path / "data" / SOURCE).is_file()


def test_a_home_that_has_moved(home: DatasetHome, server: Server, tmp_path: Path) -> None:
    server.behaviour.status = 404
    with pytest.raises(MissingDependencyError, match="HTTP 404") as refusal:
        get_dataset(home, tmp_path / "data")
    assert str(refusal.value).endswith(
        f"its home may have moved: unpack a copy from elsewhere into a folder, and name that where it is used "
        f"(--dataset {home.dataset} --root FOLDER)"
    )
    assert [path.name for path in tmp_path.iterdir()] in ([], ["cache"])


def test_a_wrong_checksum_leaves_nothing(home: DatasetHome, tmp_path: Path) -> None:
    with pytest.raises(
        UnexpectedFileError, match=r"not the file that was expected.*; try again later, or unpack a copy"
    ):
        get_dataset(replace(home, sha256="0" * 64), tmp_path / "data")
    assert {path.name for path in tmp_path.iterdir()} <= {"cache"}


def test_the_first_checksum_is_kept_and_another_is_refused(home: DatasetHome, server: Server, tmp_path: Path) -> None:
    get_dataset(home, tmp_path / "one")
    server.behaviour.content = zipped({"ESC-50-master/audio/x.wav": b"changed"})
    with pytest.raises(UnexpectedFileError, match="--accept-changed"):
        get_dataset(home, tmp_path / "two")
    assert not (tmp_path / "two").exists()


def test_an_archive_that_climbs_out_is_refused(home: DatasetHome, server: Server, tmp_path: Path) -> None:
    if home.whole:
        pytest.skip("it is not unpacked")
    server.behaviour.content = zipped({"ESC-50-master/../../climbed.txt": b"out"})
    with pytest.raises(InputError, match="outside of the folder"):
        get_dataset(home, tmp_path / "deep" / "data")
    assert not list(tmp_path.rglob("climbed.txt")) and not (tmp_path / "deep" / "data").exists()


def test_a_folder_with_other_files_is_left_alone(home: DatasetHome, server: Server, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="other files already"):
        get_dataset(home, tmp_path / "data")
    assert (tmp_path / "data" / "mine.txt").read_text() == "mine" and not server.behaviour.requests


def test_a_server_that_sends_without_end_is_stopped(tmp_path: Path) -> None:
    small = replace(known_homes()["digits"], about_size=1_000)
    with file_server(b"x" * 5_000_000, small.file) as running:
        running.behaviour.announce = False
        with pytest.raises(MissingDependencyError, match="more than 2,000 bytes"):
            get_dataset(replace(small, url=running.url), tmp_path / "data")
    assert {path.name for path in tmp_path.iterdir()} <= {"cache"}


def test_unpacking_holds_to_the_announced_sizes(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.zip"
    bomb.write_bytes(zipped({"zeros.bin": b"\0" * 5_000_000}))
    assert bomb.stat().st_size < 10_000
    with pytest.raises(InputError, match="unpacks to more than"):
        unpack(bomb, tmp_path / "out", lambda member: member, 1_000_000)
    assert not list((tmp_path).rglob("zeros.bin"))


@pytest.mark.parametrize("member", ["/etc/passwd", "..\\x", "a/../../x", "C:x"])
def test_names_that_leave_the_folder(member: str, tmp_path: Path) -> None:
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(tarred({member: b"x"}))
    with pytest.raises(InputError, match="outside of the folder"):
        unpack(archive, tmp_path / "out", lambda name: name, 1000)


def test_links_are_refused(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    with tarfile.open(archive, "w") as tar:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    with pytest.raises(InputError, match="is a link"):
        unpack(archive, tmp_path / "out", lambda name: name, 1000)


def test_an_archive_that_is_cut_off(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(tarred({"a.bin": np.random.default_rng(0).bytes(50_000)})[:20_000])
    with pytest.raises(InputError):
        unpack(archive, tmp_path / "out", lambda name: name, 1_000_000)
    archive.write_bytes(zipped({"a.bin": np.random.default_rng(0).bytes(50_000)})[:20_000])
    with pytest.raises(InputError, match=r"is no \.zip or \.tar archive, or was cut off: fetch it again$"):
        unpack(archive, tmp_path / "out", lambda name: name, 1_000_000)


def test_unknown_names_are_usage() -> None:
    with pytest.raises(UsageError, match="did you mean 'gtzan'"):
        find_home("gtzn")


def test_missing_roots_name_the_command() -> None:
    for dataset in ("gtzan", "digits", "thumos14"):
        with pytest.raises(InputError, match=r"cotrans data get"):
            open_dataset(dataset, Path("/nowhere/at/all"))
    assert homes_module.SLACK >= 1


def test_the_list_says_name_size_and_licence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "list"]) == 0
    listed = capsys.readouterr().out
    for home in known_homes().values():
        assert f"{home.name}  ({home.about_size / 1e6:,.1f} MB, {home.licence})\n    {home.title}\n" in listed
    assert run(["data", "get"]) == 0
    assert capsys.readouterr().out == listed
