"""What `cotrans stream` says when something is wrong: one line for each thing, and the right exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from cotrans_cli.main import run
from tests.cli.test_stream import started
from tests.streaming.made_streams import chirp, write_model, write_rows, write_sound, write_video
from tests.streaming.rtsp_server import rtsp_server

Output = pytest.CaptureFixture[str]

pytestmark = pytest.mark.usefixtures("no_settings")


def test_errors_are_one_line_with_an_exit_code(tmp_path: Path, capsys: Output) -> None:
    audio = str(write_model(tmp_path / "audio.safetensors", "logmel"))
    visual = str(write_model(tmp_path / "visual.safetensors", "mobilenet_v2"))
    silent = str(write_video(tmp_path / "silent.mp4", 0.5, sound=False))
    rows = str(tmp_path / "rows.npy")
    write_rows(Path(rows), 8)
    plain = str(write_model(tmp_path / "rows.safetensors"))
    (tmp_path / "bad.npy").write_bytes(b"nothing")
    sound = write_sound(tmp_path / "heard.wav", 0.5)
    wrong = str(write_sound(tmp_path / "sound.wav", 0.2).rename(tmp_path / "wrong.txt"))
    cases = [
        ([wrong, "--model", audio], 3, "wrong.txt: a .txt file is read as a list of files, a path per line, and this"),
        ([silent, "--model", audio], 3, "features need audio (--model objects watches pictures)"),
        ([str(sound), "--model", visual], 3, "features need video (--model sound-events listens to sound)"),
        ([str(sound), "--model", audio, "--overlay", "o.mp4"], 3, "has no video track: --overlay draws on a video"),
        (["camera:77", "--model", plain], 3, "does not say which features it takes"),
        (["camera:77", "--model", audio], 3, "gives video, but the model takes audio: use mic: with this model"),
        (["camera:77", "--model", visual], 6, "camera:77: /dev/video77 does not exist; "),
        (["absent.mp4", "--model", audio], 3, "absent.mp4: no such file"),
        ([rows, "--model", str(tmp_path / "absent.safetensors")], 3, "there is no model file "),
        ([rows, "--model", plain, "--format", "xml"], 2, "unknown --format 'xml'"),
        ([rows, "--model", plain, "--out", "a.xyz"], 2, "--out a.xyz: the suffix .xyz names no format (.txt, .jsonl, "),
        ([rows, "--model", plain, "--top-k", "99"], 2, "--top-k 99: the model has only 5 classes"),
        ([rows, "--model", plain, "--fast", "--segments", "--top-k", "2"], 2, "--top-k is about single frames"),
        ([rows, "--model", plain, "--fast", "--format", "srt", "--top-k", "2"], 2, "--top-k is about single frames"),
        ([rows, "--model", plain, "--fast", "--longest-lag", "2"], 2, "--longest-lag is about keeping up with a clock"),
        (
            [rows, "--model", plain, "--reconnects", "3"],
            2,
            "--reconnects is about addresses (rtsp://, http://), and no",
        ),
        ([rows, "--model", plain, "--late", "never"], 2, "unknown --late 'never': choose from drop, wait"),
        ([rows, "--model", plain, "--rate", "8000"], 2, "describe standard input"),
        ([rows, "--model", plain, "--channels", "2"], 2, "give its --rate too"),
        ([str(tmp_path / "bad.npy"), "--model", plain, "--fast"], 3, "bad.npy"),
        (["rtsp://127.0.0.1:9/x", "--model", audio], 3, "rtsp://127.0.0.1:9/x: cannot be opened: Connection refused"),
    ]
    for arguments, code, message in cases:
        assert run(["stream", *arguments]) == code, arguments
        printed = capsys.readouterr()
        assert message in printed.err, printed.err
        assert printed.err.startswith("cotrans: error: ")
        assert len(printed.err.splitlines()) == 1, printed.err
        assert printed.out == ""


def test_what_fails_does_not_stop_the_others(tmp_path: Path, capsys: Output) -> None:
    rows, bad = str(tmp_path / "rows.npy"), str(tmp_path / "bad.npy")
    write_rows(Path(rows), 8)
    Path(bad).write_bytes(b"nothing")
    model = str(write_model(tmp_path / "rows.safetensors"))
    options = ["--model", model, "--fast", "-q"]
    assert run(["stream", "absent.npy", rows, bad, *options, "--format", "csv"]) == 3
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 1 + 8
    lines = printed.err.splitlines()
    assert sum(line.startswith("cotrans: error: absent.npy: no such file") for line in lines) == 1
    assert sum(line.startswith(f"cotrans: error: {bad} is not") for line in lines) == 1
    assert lines[2:] == ["cotrans: error: 2 of 3 sources failed"]
    # In a folder, only what was played has a file.
    assert run(["stream", "absent.npy", rows, *options, "--out", str(tmp_path / "labels"), "--format", "srt"]) == 3
    assert [path.name for path in (tmp_path / "labels").iterdir()] == ["rows.srt"]
    capsys.readouterr()
    # Where nothing is there, each has its line.
    assert run(["stream", "a.mp4", "b.mp4", str(tmp_path / "*.wav"), *options]) == 3
    told = [f"cotrans: error: {name}" for name in ("a.mp4: no such file", "b.mp4: no such file")]
    assert capsys.readouterr().err.splitlines() == [*told, f"cotrans: error: {tmp_path}/*.wav: no file matches"]
    assert run(["stream", bad, str(tmp_path / "bad.npy"), *options]) == 3
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_an_empty_pipe_is_told_as_such(tmp_path: Path) -> None:
    model = str(write_model(tmp_path / "m.safetensors", "logmel", hop=0.1))
    process = started("stream", "-", "--model", model, stdin=subprocess.DEVNULL)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 3
    assert said.decode().startswith("cotrans: error: -: nothing came through standard input") and said.count(b"\n") == 1


def test_what_fails_for_one_of_several_models_is_counted_as_that(tmp_path: Path, capsys: Output) -> None:
    models = [str(write_model(tmp_path / f"{name}.safetensors", name)) for name in ("logmel", "mobilenet_v2")]
    sources = [str(write_sound(tmp_path / f"{name}.wav", 0.5)) for name in "ab"]
    assert run(["stream", *sources, "--model", ",".join(models), "--fast", "-q"]) == 3
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "cotrans: error: 2 of 4 pairs of a source and a model (there are 2 models) failed"


def test_a_file_without_a_suffix_is_written_to_when_it_is_there(tmp_path: Path, capsys: Output) -> None:
    write_rows(tmp_path / "rows.npy", 8)
    options = ["--model", str(write_model(tmp_path / "m.safetensors")), "--fast", "-q"]
    (tmp_path / "labels").write_text("old")
    assert run(["stream", str(tmp_path / "rows.npy"), *options, "--out", str(tmp_path / "labels")]) == 0
    assert len((tmp_path / "labels").read_text().splitlines()) == 8
    assert run(["stream", str(tmp_path / "rows.npy"), *options, "--out", str(tmp_path / "a.xyz"), "-f", "csv"]) == 0
    assert (tmp_path / "a.xyz").read_text().startswith("source,index,time,label")
    assert run(["stream", str(tmp_path / "rows.npy"), *options, "--out", str(tmp_path / "b.txt")]) == 0
    assert len((tmp_path / "b.txt").read_text().splitlines()) == 8


def test_an_rtsp_stream_that_is_lost_and_found(tmp_path: Path, capsys: Output) -> None:
    model = str(write_model(tmp_path / "m.safetensors", "logmel", hop=0.1))
    options = ["--model", model, "--format", "jsonl", "--duration", "3", "--summary", str(tmp_path / "s.json")]
    options += ["--late", "wait"]  # a busy machine drops nothing
    with rtsp_server(chirp(30.0, 16_000), [40, None], away=0.2) as server:
        assert run(["stream", server.address, *options]) == 0
    printed = capsys.readouterr()
    lines = [json.loads(line) for line in printed.out.splitlines()]
    indexes = [line["index"] for line in lines]
    assert indexes[:8] == list(range(8))
    assert indexes[8] > 8  # the gap counts
    assert indexes[8:] == list(range(indexes[8], indexes[-1] + 1))
    assert [line["warmup"] for line in lines[:13]] == [True] * 5 + [False] * 3 + [True] * 5
    said = printed.err.splitlines()
    assert said[0].endswith("connection lost (the connection ended): trying again in 0.5 s")
    assert "connected again after a gap of " in printed.err
    assert json.loads((tmp_path / "s.json").read_text())["sources"][0]["reconnects"] == 1


@pytest.mark.parametrize(("stage", "number"), [("stalled", signal.SIGTERM), ("reconnecting", signal.SIGINT)])
def test_an_interruption_while_nothing_comes(tmp_path: Path, stage: str, number: int) -> None:
    """A pipe in which nothing more comes, and a server that is away: neither holds up the end."""
    model = str(write_model(tmp_path / "m.safetensors", "logmel", hop=0.1))
    out = tmp_path / "out.jsonl"
    options = ["--model", model, "--out", str(out)]
    read, write = os.pipe()
    with rtsp_server(chirp(1.0, 16_000), [30, 0], away=3600.0) as server:
        if stage == "stalled":
            os.write(write, bytes(2 * 16_000))
            process = started("stream", "-", "--rate", "16000", *options, stdin=read)
        else:
            process = started("stream", server.address, *options, stdin=read)
        assert process.stderr is not None
        said = process.stderr.readline() if stage == "reconnecting" else b""
        while stage == "stalled" and process.poll() is None and len(lines_of(out)) < 10:
            time.sleep(0.05)
        process.send_signal(number)
        _, rest = process.communicate(timeout=300)
    os.close(read)
    os.close(write)
    assert process.returncode == 128 + number, rest
    assert (b"connection lost" in said) == (stage == "reconnecting")
    assert b"Traceback" not in rest
    assert b"frames, " in rest
    lines = lines_of(out)
    assert [json.loads(line)["index"] for line in lines] == list(range(10 if stage == "stalled" else 6))


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
