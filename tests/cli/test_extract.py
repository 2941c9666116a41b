"""`cotrans extract` and `cotrans weights` as a user runs them: what they print, where, and their exit codes."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from rich.progress import Progress as Bar

from cotrans_cli.commands import extract
from cotrans_cli.main import run
from pipelines.features.extraction.run import Progress
from tests.features.made_recordings import write_sound, write_video
from tests.streaming.made_streams import write_model

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTRANS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def talks(tmp_path: Path) -> Path:
    for index in range(2):
        write_sound(tmp_path / "talks" / f"{index}.wav", 2.0, seed=index)
    return tmp_path / "talks"


def test_a_folder_of_good_files(talks: Path, tmp_path: Path, capsys: Output) -> None:
    out = tmp_path / "features"
    assert run(["extract", str(talks), "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    first, second = printed.out.splitlines()
    assert first == f"2 done: 16 rows of musicnn (256 wide) in {out}"
    assert second.startswith("4.0 s of media in ")
    assert run(["extract", str(talks), "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"0 done, 2 skipped: 16 rows of musicnn (256 wide) in {out}\n"


def test_bad_files_are_listed_and_the_good_ones_are_done(talks: Path, tmp_path: Path, capsys: Output) -> None:
    (talks / "bad.mp4").write_bytes(b"not a video")
    (talks / "notes.md").write_text("not media")
    arguments = ["extract", str(talks), "absent.wav", "--out", str(tmp_path / "out"), "-f", "logmel"]
    assert run(arguments) == 3
    printed = capsys.readouterr()
    assert printed.out.startswith("2 done, 1 failed, 1 missing: 16 rows of logmel")
    lines = printed.err.splitlines()
    assert lines[0] == "left out, because they do not look like media: 1 file in the folders"
    assert lines[1].startswith(f"cotrans: {talks}/bad.mp4: ")
    assert lines[2] == "cotrans: absent.wav: no such file"
    assert np.load(tmp_path / "out/0.npy").shape == (8, 192)


def test_the_summary_as_json(talks: Path, tmp_path: Path, capsys: Output) -> None:
    (talks / "bad.wav").write_bytes(b"")
    arguments = ["extract", str(talks), "--out", str(tmp_path / "out"), "-f", "logmel", "--hop", "0.5", "--json"]
    assert run(arguments) == 3
    summary = json.loads(capsys.readouterr().out)
    assert {key: summary[key] for key in ("features", "width", "done", "failed", "rows", "random_weights")} == {
        "features": "logmel",
        "width": 192,
        "done": 2,
        "failed": 1,
        "rows": 8,
        "random_weights": False,
    }
    assert summary["real_time_factor"] > 0
    assert [recording["status"] for recording in summary["recordings"]] == ["done", "done", "failed"]


def test_options_reach_the_core(tmp_path: Path, capsys: Output) -> None:
    path = write_video(tmp_path / "v.mp4", 1.0)
    arguments = ["extract", str(path), "--out", str(tmp_path / "out"), "--features", "mobilenet_v2+logmel"]
    arguments += ["--random-weights", "--fps", "2", "--align", "centre", "--dtype", "float16", "--device", "cpu"]
    arguments += ["--option", "n_mels=4", "--layout", "video_features", "--workers", "2", "--force"]
    assert run(arguments) == 0
    assert "RANDOM WEIGHTS" in capsys.readouterr().out
    rows = np.load(tmp_path / "out/v_logmel.npy")
    assert (rows.shape, rows.dtype) == ((2, 12), np.float16)
    np.testing.assert_array_equal(np.load(tmp_path / "out/v_timestamps_ms.npy"), [0, 500])


def test_vggish_outputs(talks: Path, tmp_path: Path, capsys: Output) -> None:
    arguments = ["extract", str(talks / "0.wav"), "-f", "vggish", "--random-weights", "--hop", "1"]
    assert run([*arguments, "--out", str(tmp_path / "a")]) == 0
    assert run([*arguments, "--out", str(tmp_path / "b"), "--output", "penultimate"]) == 0
    assert np.load(tmp_path / "a/0.npy").shape == (2, 128)
    assert np.load(tmp_path / "b/0.npy").shape == (2, 4096)


def test_errors_are_one_line_with_the_right_code(talks: Path, tmp_path: Path, capsys: Output) -> None:
    for arguments, code, said in (
        (["-f", "vggish"], 6, "cotrans weights get vggish-audioset"),
        (["-f", "vgish"], 2, "there is no extractor 'vgish'"),
        (["-f", "logmel", "--align", "middle"], 2, "unknown --align 'middle'"),
        (["-f", "logmel", "--output", "embedding"], 2, "no extractor of logmel has an option 'output'"),
        (["-f", "logmel", "--hop", "0"], 2, "--hop must be positive"),
        (["-f", "logmel", "--fps", "4", "--every", "6"], 2, "give one of them"),
        (["-f", "mobilenet_v2", "--random-weights", "--device", "gpu"], 2, "unknown device 'gpu'"),
    ):
        assert run(["extract", str(talks), "--out", str(tmp_path / "out"), *arguments]) == code
        printed = capsys.readouterr()
        assert printed.out == ""
        assert said in printed.err
        assert printed.err.count("\n") == 1
    assert not (tmp_path / "out").exists()
    assert run(["extract", str(talks)]) == 2
    assert "--out" in capsys.readouterr().err


def test_the_list_of_weights(capsys: Output) -> None:
    assert run(["weights", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    named = [line for line in lines if not line.startswith(" ")]
    shown = {line.split("  ")[0]: line.split("  ")[1] for line in named}
    assert shown["musicnn-msd"] == "(shipped, 2.4 MB, ISC, default of musicnn)"
    assert shown["vggish-audioset"].startswith("(not here, 288.6 MB")
    assert any("YouTube-100M" in line for line in lines)
    assert run(["weights", "list", "--json"]) == 0
    listed = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert listed["resnet50-imagenet"]["sha256"].startswith("0676ba61")
    assert listed["resnet50-imagenet"]["path"] is None
    assert set(listed) == set(shown)


def test_adding_and_finding_weights(tmp_path: Path, capsys: Output) -> None:
    assert run(["weights", "path", "vggish-audioset"]) == 6
    assert capsys.readouterr().err.count("\n") == 1
    assert run(["weights", "path", "musicnn-msd"]) == 0
    assert capsys.readouterr().out.endswith("musicnn_msd_vgg.safetensors\n")
    file = tmp_path / "own.pth"
    torch.save({"weight": torch.zeros(3)}, file)
    assert run(["weights", "add", "vggish-audioset", str(file)]) == 5
    assert "is not 'vggish-audioset'" in capsys.readouterr().err
    assert run(["weights", "add", "mine", str(file)]) == 0
    path = capsys.readouterr().out.strip()
    assert Path(path).read_bytes() == file.read_bytes()
    assert run(["weights", "get", "mine"]) == 0
    assert capsys.readouterr().out.strip() == path
    assert run(["weights", "get", "nothing"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("cotrans: error: no weights are called 'nothing'") and "fetching" not in error
    empty = tmp_path / "empty.wav"
    empty.touch()
    assert run(["weights", "add", "mine", str(empty)]) == 5
    assert "is empty" in capsys.readouterr().err


def test_the_features_that_a_model_takes(talks: Path, tmp_path: Path, capsys: Output) -> None:
    model = write_model(tmp_path / "model.safetensors", "logmel", hop=0.1)
    assert run(["extract", str(talks), "--out", str(tmp_path / "out"), "--model", str(model)]) == 0
    assert "rows of logmel" in capsys.readouterr().out
    stream = ["--model", str(model), "--fast", "--format", "jsonl", "--scores"]
    assert run(["stream", str(tmp_path / "out/0.npy"), *stream]) == 0
    from_file = [json.loads(line)["scores"] for line in capsys.readouterr().out.splitlines()]
    assert run(["stream", str(talks / "0.wav"), *stream]) == 0
    live = [json.loads(line)["scores"] for line in capsys.readouterr().out.splitlines()]
    np.testing.assert_allclose(from_file, live, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("more", [["--hop", "0.5"], ["--features", "logmel"], ["--random-weights"]], ids=" ".join)
def test_a_model_says_everything_about_its_features(
    more: list[str], talks: Path, tmp_path: Path, capsys: Output
) -> None:
    model = write_model(tmp_path / "model.safetensors", "logmel", hop=0.1)
    assert run(["extract", str(talks), "--out", str(tmp_path / "out"), "--model", str(model), *more]) == 2
    assert "--model says which features and how" in capsys.readouterr().err


def test_a_model_that_does_not_say_its_features(talks: Path, tmp_path: Path, capsys: Output) -> None:
    model = write_model(tmp_path / "model.safetensors")
    assert run(["extract", str(talks), "--out", str(tmp_path / "out"), "--model", str(model)]) == 3
    assert "does not say which features it takes: name them with --features" in capsys.readouterr().err


@pytest.mark.parametrize("files", [24, 4800])
@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_bar_stays_where_it_is(width: int, files: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the files are called, and with their names whole or marked as cut."""
    file = io.StringIO()
    console = Console(file=file, width=width, height=10, force_terminal=True, color_system=None)
    monkeypatch.setattr(extract, "status_console", lambda: console)
    drawn = []
    with extract._progress() as show:
        assert show is not None
        bar = show.__closure__
        assert bar is not None
        for done, name, elapsed in ((6, "clock_tick/1-62849-A-38-and-more-of-a-name", 2.0), (19, "rain/1", 0.2)):
            show(Progress(files, done, 1000, 10.0 * done, 20.0, elapsed, name))
            (live,) = [cell.cell_contents for cell in bar if isinstance(cell.cell_contents, Bar)]
            live.refresh()
            drawn.append(file.getvalue().split("\x1b[2K")[-1])
    first, second = (line.replace("\x1b[?25h", "") for line in drawn)
    assert first.index("%") == second.index("%") and first.index("left") == second.index("left")
    assert max(len(first), len(second)) <= width and all(re.search(r" [\d:-]{7} left", line) for line in drawn)
    assert not any("×  " in line for line in drawn)
    assert ("…" in first and "rain/1" in second) == (width >= 80)
