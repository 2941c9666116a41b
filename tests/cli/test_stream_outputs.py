"""What `cotrans stream` writes: never over what it reads, under the right name, and no further than the media."""

from __future__ import annotations

import csv
import hashlib
import io
import os
from pathlib import Path

import pytest

from cotrans_cli.main import run
from pipelines.streaming import PlayOptions, Stream, find_sources
from tests.cli.test_stream import started
from tests.streaming.made_streams import small_model, write_model, write_rows, write_sound, write_video

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COTRANS_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("COTRANS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[str, str]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def refused(arguments: list[str], message: str, folder: Path, capsys: Output) -> None:
    """One line, exit code 2, and no file was touched."""
    before = contents(folder)
    assert run(arguments) == 2, arguments
    said = capsys.readouterr()
    assert len(said.err.splitlines()) == 1 and said.err.startswith("cotrans: error: ") and said.out == ""
    assert message in said.err, said.err
    assert contents(folder) == before


def test_no_output_overwrites_an_input(place: Path, capsys: Output) -> None:
    write_video(place / "av.mp4", 0.5)
    write_sound(place / "a.wav", 0.5)
    model = str(write_model(place / "m.safetensors", "logmel"))
    (place / "link.mp4").symlink_to("av.mp4")
    os.link("a.wav", "hard.wav")
    (place / "list.txt").write_text("a.wav\n")
    (place / "old.state").write_bytes(b"a state")
    cases: list[tuple[list[str], str]] = [
        (["av.mp4", "--overlay", "av.mp4"], "--overlay would overwrite av.mp4: that is an input"),
        (["av.mp4", "--overlay", "./x/../av.mp4"], "would overwrite"),
        (["av.mp4", "--overlay", "link.mp4"], "--overlay would overwrite link.mp4, which is av.mp4"),
        (["a.wav", "--out", "hard.wav", "--format", "csv"], "--out would overwrite hard.wav, which is a.wav"),
        (["a.wav", "--summary", "a.wav"], "--summary would overwrite a.wav"),
        (["a.wav", "--snapshot", str(place / "a.wav")], "--snapshot would overwrite"),
        (["a.wav", "--out", model, "--format", "csv"], "--out would overwrite"),
        (["list.txt", "--out", "list.txt"], "--out would overwrite list.txt"),
        (["a.wav", "--resume", "old.state", "--summary", "old.state"], "--summary would overwrite old.state"),
        (
            ["a.wav", "--out", "o.jsonl", "--summary", "./o.jsonl"],
            "--summary and --out would both be written to o.jsonl",
        ),
        (["a.wav", "--snapshot", "s", "--summary", "s"], "--summary and --snapshot would both be written to s"),
    ]
    for arguments, message in cases:
        refused(["stream", *arguments, "--model", model, "--fast"], message, place, capsys)


def test_no_file_of_an_output_folder_overwrites_an_input(place: Path, capsys: Output) -> None:
    model = str(write_model(place / "m.safetensors"))
    options = ["--model", model, "--fast"]
    write_rows(place / "rows.npy", 8)
    # An input whose name looks like an output's: sound may have any suffix.
    sound = str(write_model(place / "sound.safetensors", "logmel"))
    write_sound(place / "a.wav", 0.3).rename(place / "a.csv")
    refused(["stream", "a.csv", "--model", sound, "--out", ".", "-f", "csv"], "--out (for a.csv) would", place, capsys)
    # Numbered names may meet the name of another source, and the files beside features belong to them.
    for name in ("x/a", "y/a", "z/a-1"):
        (place / name).parent.mkdir()
        write_rows(place / f"{name}.npy", 8)
    sources = ["x/a.npy", "y/a.npy", "z/a-1.npy"]
    refused(["stream", *sources, *options, "--out", "labels"], "would both be written to labels/a-1.txt", place, capsys)
    refused(["stream", "rows.npy", *options, "--summary", "rows.json"], "overwrite rows.json", place, capsys)
    # What may be: the same snapshot again.
    state = ["--snapshot", "rows.state", "--summary", "rows.summary", "--out", "o.csv", "-q"]
    assert run(["stream", "rows.npy", *options, *state]) == 0
    assert run(["stream", "rows.npy", *options, *state, "--resume", "rows.state"]) == 0


def test_other_commands_keep_their_inputs(place: Path, capsys: Output) -> None:
    write_model(place / "m.safetensors")
    (place / "labels.txt").write_text("one\n")
    (place / "r.toml").write_text("[data]\ndataset = 'folder'\nroot = 'x'\n")
    (place / "link.npz").symlink_to("m.safetensors")
    (place / "scores.png").write_bytes(b"scores")
    write_sound(place / "a.wav", 0.3).rename(place / "a.npy")
    data = ["--dataset", "folder", "--root", "."]
    for arguments, message in [
        (["convert", "m.safetensors", "--out", "m.safetensors", "--force"], "--out would overwrite m.safetensors"),
        (["convert", "m.safetensors", "--labels", "labels.txt", "--out", "labels.txt", "--force"], "labels.txt"),
        (["evaluate", *data, "-c", "m.safetensors", "--save", "link.npz"], "link.npz, which is m.safetensors"),
        (["evaluate", "--dataset", "thumos14", "--predictions", "scores.png", "--plot", "scores.png"], "scores.png"),
        (["train", "--recipe", "r.toml", "--write-recipe", "r.toml"], "--write-recipe would overwrite r.toml"),
        (["extract", "a.npy", "--out", ".", "--features", "logmel", "--force"], "--out would overwrite a.npy"),
    ]:
        refused(arguments, message, place, capsys)


def test_format_and_name_agree(place: Path, capsys: Output) -> None:
    write_rows(place / "rows.npy", 8)
    options = ["stream", "rows.npy", "--model", str(write_model(place / "m.safetensors")), "--fast", "-q"]
    message = "--out o.csv says csv, --format says srt: leave one out, or use o.srt"
    refused([*options, "--out", "o.csv", "--format", "srt"], message, place, capsys)
    for name in ("o.txt", "o.log", "o.CSV"):
        assert run([*options, "--out", name, "--format", "csv"]) == 0
        assert Path(name).read_text().startswith("source,index,")


def test_overlay_is_named_and_readable_like_other_files(place: Path, capsys: Output) -> None:
    write_video(place / "av.mp4", 0.5)
    options = ["stream", "av.mp4", "--model", str(write_model(place / "m.safetensors", "logmel")), "--fast", "-q"]
    for name in ("x.foo", "x"):
        refused([*options, "--overlay", name], f"--overlay {name}: choose a name that ends in .mp4, ", place, capsys)
    before = os.umask(0o027)
    try:
        assert run([*options, "--overlay", "x.mkv", "--out", "x.jsonl", "--summary", "x.json"]) == 0
    finally:
        os.umask(before)
    assert {Path(name).stat().st_mode & 0o777 for name in ("x.mkv", "x.jsonl", "x.json")} == {0o640}


def test_segments_end_with_the_media(place: Path, capsys: Output) -> None:
    write_sound(place / "a.wav", 0.1)
    model = str(write_model(place / "m.safetensors", "logmel", hop=0.25))
    options = ["--model", model, "--fast", "-q", "--segments", "--format", "csv"]
    for more, end in (([], 0.1), (["--start", "0.05"], 0.1), (["--duration", "0.06"], 0.06)):
        assert run(["stream", "a.wav", *options, *more]) == 0
        ends = [float(row["end"]) for row in csv.DictReader(io.StringIO(capsys.readouterr().out))]
        assert max(ends) == pytest.approx(end, abs=1e-6)


def test_what_a_pipe_cannot_hold_is_explained(place: Path) -> None:
    write_video(place / "av.mp4", 2.0)  # more than is read ahead
    write_sound(place / "a.wav", 0.5)
    model = str(write_model(place / "m.safetensors", "logmel"))
    raw = (place / "a.wav").read_bytes()[44:]
    for data, message in (
        ((place / "av.mp4").read_bytes(), b"-: an MP4 whose index is at its end cannot be read from a pipe"),
        (raw, b"; raw sound needs --rate, and --channels and --sample-format where"),
    ):
        process = started("stream", "-", "--model", model, stdin=-1)
        _, said = process.communicate(data, timeout=300)
        assert process.returncode == 3 and said.startswith(b"cotrans: error: -: ") and message in said, said
        assert len(said.splitlines()) == 1


def test_every_output_is_named_at_the_end(place: Path, capsys: Output) -> None:
    write_sound(place / "a.wav", 1.0)
    model = str(write_model(place / "m.safetensors", "logmel"))
    command = ["stream", "a.wav", "--model", model, "--fast", "--out", "o.jsonl", "--summary", "s.json"]
    assert run(command) == 0
    assert capsys.readouterr().err.splitlines()[-2:] == ["wrote o.jsonl", "wrote s.json"]
    assert run([*command, "-q"]) == 0
    assert capsys.readouterr().err == ""


def test_sources_say_how_long_they_are(place: Path) -> None:
    write_sound(place / "a.wav", 3.0)
    write_rows(place / "r.npy", 40)
    for name, features, options, length in (
        ("a.wav", "logmel", {}, 3.0),
        ("a.wav", "logmel", {"start": 1.0}, 2.0),
        ("a.wav", "logmel", {"duration": 0.5}, 0.5),
        ("r.npy", None, {"hop": 0.5}, 20.0),
    ):
        model = small_model(place, features)
        with Stream(find_sources([name]), model, PlayOptions(fast=True, **options)) as stream:
            assert list(stream)
            assert stream.statistics.sources[0].length == pytest.approx(length)
