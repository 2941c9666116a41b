"""`cotrans stream` and `cotrans models` as a user runs them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from cotrans_cli.main import run
from tests.streaming.made_streams import chirp, step_by_step, write_model, write_rows, write_sound

Output = pytest.CaptureFixture[str]
ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.usefixtures("no_settings")


def started(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """`cotrans` in a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "cotrans_cli", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, env=environment, **{**pipes, **options})


def plain_lines(text: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in text.splitlines()]
    return [{key: value for key, value in line.items() if key != "latency_ms"} for line in lines]


def nearly(text: str) -> list[dict[str, Any]]:
    """What lines should be like: rows that --fast takes in chunks have other last digits than those taken alone."""

    def about(value: Any) -> Any:
        if isinstance(value, list):
            return [about(item) for item in value]
        return pytest.approx(value, abs=3e-6) if isinstance(value, float) else value

    return [{key: about(value) for key, value in line.items()} for line in plain_lines(text)]


@pytest.mark.parametrize(
    ("name", "token"),
    [
        ("oadtr_b1", "--no-class-token"),
        ("oadtr_b1_cls", "--class-token"),
        ("oadtr_b2", "--no-class-token"),
        ("oadtr_decoder", "--class-token"),
    ],
)
def test_converted_oadtr_gives_the_official_scores(
    golden_dir: Path, tmp_path: Path, capsys: Output, name: str, token: str
) -> None:
    model = tmp_path / "model.safetensors"
    assert run(["convert", str(golden_dir / f"{name}.pth"), token, "--out", str(model)]) == 0
    expected = load_file(golden_dir / f"{name}.expected.safetensors")
    rgb, flow = expected["rgb"].numpy(), expected["flow"].numpy()
    np.save(tmp_path / "features.npy", np.concatenate([rgb, flow], axis=1))
    capsys.readouterr()
    options = ["--model", str(model), "--fast", "--format", "jsonl", "--scores"]
    assert run(["stream", str(tmp_path / "features.npy"), *options]) == 0
    printed = capsys.readouterr()
    lines = [json.loads(line) for line in printed.out.splitlines()]
    full = [line for line in lines if not line["warmup"]]
    assert len(full) == 41
    assert [line["warmup"] for line in lines] == [True] * (len(rgb) - 41) + [False] * 41
    torch.testing.assert_close(torch.tensor([line["scores"] for line in full]), expected["scores"], atol=1e-4, rtol=0)
    assert "56 frames, 14.0 s of media" in printed.err

    # The same rows as an entry of OadTR's pickle, and as two files side by side.
    from pipelines.features.files.oadtr_pickle import write_oadtr_pickle

    write_oadtr_pickle(tmp_path / "f.pickle", [("v1", {"flow": flow, "rgb": rgb}), ("v2", {"rgb": rgb, "flow": flow})])
    np.save(tmp_path / "rgb.npy", rgb)
    np.save(tmp_path / "flow.npy", flow)
    for source in (f"{tmp_path}/f.pickle:v1", f"{tmp_path}/rgb.npy+{tmp_path}/flow.npy"):
        assert run(["stream", source, *options, "-q"]) == 0
        printed = capsys.readouterr()
        assert printed.err == ""
        again = [json.loads(line) for line in printed.out.splitlines()]
        assert [line["scores"] for line in again] == [line["scores"] for line in lines]
    assert run(["stream", f"{tmp_path}/f.pickle", *options]) == 3
    assert "holds 2 videos: say which, as in f.pickle:v1" in capsys.readouterr().err


def test_a_kill_in_the_middle_and_a_resume_give_the_undisturbed_file(tmp_path: Path, capsys: Output) -> None:
    sound = str(write_sound(tmp_path / "a.wav", 40.0))
    model = str(write_model(tmp_path / "m.safetensors", "logmel", hop=0.1))
    whole, out, state = (tmp_path / name for name in ("whole.jsonl", "out.jsonl", "state"))
    options = ["--model", model, "--smooth", "0.5", "-q"]
    with step_by_step():  # as in real time
        assert run(["stream", sound, *options, "--fast", "--out", str(whole)]) == 0
    killed = started("stream", sound, *options, "--out", str(out), "--snapshot", str(state), "--every", "0.3")
    deadline = time.monotonic() + 300
    while (not state.exists() or len(out.read_text().splitlines()) < 15) and time.monotonic() < deadline:
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    before = len(out.read_text().splitlines())
    assert 15 <= before < 400
    with step_by_step():
        assert run(["stream", sound, *options, "--fast", "--out", str(out), "--resume", str(state)]) == 0
    # Nearly: on a busy machine the stream that was killed may have taken rows that waited together.
    assert plain_lines(out.read_text()) == nearly(whole.read_text())
    capsys.readouterr()
    # Without --out the new lines come alone, and join with the old ones by their index.
    resume = ["stream", sound, *options, "--fast", "--format", "jsonl", "--resume", str(state)]
    with step_by_step():
        assert run(resume) == 0
    rest = plain_lines(capsys.readouterr().out)
    assert rest == plain_lines(out.read_text())[rest[0]["index"] :]
    assert run(resume) == 0
    assert plain_lines(capsys.readouterr().out) == nearly(whole.read_text())[rest[0]["index"] :]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_ends_cleanly(tmp_path: Path, number: int, code: int) -> None:
    sound = str(write_sound(tmp_path / "a.wav", 60.0))
    model = str(write_model(tmp_path / "m.safetensors", "logmel", hop=0.1))
    summary = tmp_path / "summary.json"
    process = started("stream", sound, "--model", model, "--format", "jsonl", "--summary", str(summary))
    assert process.stdout is not None
    first = [process.stdout.readline() for _ in range(3)]
    process.send_signal(number)
    out = process.stdout.read()  # not by `communicate`, which loses lines that the reader has taken ahead
    _, err = process.communicate(timeout=300)
    assert process.returncode == code
    lines = [json.loads(line) for line in (b"".join(first) + out).decode().splitlines()]
    assert [line["index"] for line in lines] == list(range(len(lines)))
    report = json.loads(summary.read_text())
    assert report["interrupted"] is True
    assert report["frames"] == len(lines)
    assert f"{len(lines)} frames" in err.decode()
    assert "Traceback" not in err.decode()


def test_a_pipe_of_raw_sound_and_a_reader_that_goes_away(tmp_path: Path, capsys: Output) -> None:
    sound = str(write_sound(tmp_path / "a.wav", 2.0, rate=8000))
    model = str(write_model(tmp_path / "m.safetensors", "logmel", hop=0.1))
    assert run(["stream", sound, "--model", model, "--fast", "--format", "jsonl", "--scores"]) == 0
    expected = [json.loads(line)["scores"] for line in capsys.readouterr().out.splitlines()]
    raw = np.rint(chirp(2.0, 8000) * 32767).astype("<i2")
    stereo = np.stack([raw, raw], axis=1).tobytes()
    pcm = ["--rate", "8000", "--channels", "2", "--sample-format", "s16le"]
    options = ["--model", model, "--format", "jsonl", "--scores"]
    process = started("stream", "-", *pcm, *options, stdin=subprocess.PIPE)
    out, err = process.communicate(stereo, timeout=300)
    assert process.returncode == 0, err
    scores = [json.loads(line)["scores"] for line in out.decode().splitlines()]
    np.testing.assert_allclose(scores, expected, atol=1e-4)

    process = started("stream", sound, *options, "--loop", "--fast")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=300) == 0
    assert process.stderr is not None
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()


def test_lines_for_people(tmp_path: Path, capsys: Output) -> None:
    rows = tmp_path / "rows.npy"
    write_rows(rows, 8)
    model = str(write_model(tmp_path / "rows.safetensors"))
    assert run(["stream", str(rows), "--model", model, "--fast", "--top-k", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8
    assert lines[0].startswith("  0:00.25 ~ ")
    assert lines[7].startswith("  0:02.00   ")
    assert lines[0].count("%") == 2


def test_settings_choose_the_default_model(tmp_path: Path, capsys: Output) -> None:
    rows = tmp_path / "rows.npy"
    write_rows(rows, 8)
    model = write_model(tmp_path / "rows.safetensors")
    (tmp_path / "config.toml").write_text(f'default_model = "{model}"\nthreads = 1\n')
    assert run(["stream", str(rows), "--fast", "-q"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 8
    (tmp_path / "config.toml").write_text('defaultmodel = "x"\n')
    assert run(["stream", str(rows), "--fast"]) == 4
    assert "there is no setting 'defaultmodel'; did you mean 'default_model'?" in capsys.readouterr().err


def test_built_in_models_are_listed_and_found_by_name(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_model(tmp_path / "sound-events.safetensors")
    write_model(tmp_path / "spoken-digits.safetensors", "logmel")
    monkeypatch.setattr("pipelines.checkpoints.builtin.models_folder", lambda: tmp_path)
    assert run(["models", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [model["name"] for model in listed] == ["sound-events", "spoken-digits"]
    assert [model["default"] for model in listed] == [True, False]
    assert run(["models"]) == 0
    assert "sound-events" in capsys.readouterr().out
    rows = tmp_path / "rows.npy"
    write_rows(rows, 8)
    assert run(["stream", str(rows), "--fast", "-q"]) == 0  # sound-events is the default
    assert run(["stream", str(rows), "--fast", "-m", "sound-event"]) == 2
    err = capsys.readouterr().err
    assert "did you mean 'sound-events'? (built in: sound-events, spoken-digits)" in err
