"""`cotrans train` as a person uses it: a folder of features in, a run folder out."""

from __future__ import annotations

import csv
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
import typer
from typer.testing import CliRunner

from cotrans_cli.commands.train import train
from pipelines.checkpoints.checkpoint import load_checkpoint
from pipelines.errors import ConfigurationError, CotransError, InputError, UsageError
from pipelines.training.recipes.recipe_file import parse_recipe
from tests.features.made_recordings import write_sound

app = typer.Typer()
app.command("train")(train)
app.command("other")(lambda: None)  # with a single command typer leaves out its name

SMALL = ("--recipe", "paper", "--model", "cotrans-b1", "--window", "10", "--learning-rate", "3e-3", "--batch-size", "6")
SMALLER = (*SMALL, "-s", "model.width=16", "-s", "model.heads=2", "-s", "model.feed_forward=16")


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["train", *map(str, arguments)])


def error_of(*arguments: Any) -> CotransError:
    result = run(*arguments)
    assert isinstance(result.exception, CotransError), result.output
    assert "\n" not in str(result.exception)
    return result.exception


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    """Feature files of clips, three labels."""
    generator = np.random.default_rng(0)
    for split, count in (("train", 6), ("validation", 3)):
        for label, name in enumerate(("cat", "dog", "owl")):
            folder = tmp_path / "clips" / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                rows = generator.normal(0, 0.5, (10 + number % 2, 5)) + np.eye(5)[label] * 2
                np.save(folder / f"{split}-{name}-{number}.npy", rows.astype(np.float32))
    return tmp_path / "clips"


def test_from_a_folder_to_a_checkpoint(clips: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = run("--dataset", "folder", "--root", clips, *SMALLER, "--epochs", "12", "--out", out)
    assert result.exit_code == 0, result.output
    assert "best epoch" in result.stdout and "accuracy" in result.stdout
    assert "epoch   1  loss" in result.stderr
    checkpoint = load_checkpoint(out / "best.safetensors")
    assert checkpoint.class_names == ("cat", "dog", "owl")
    assert checkpoint.config.window == 10 and checkpoint.config.input_width == 5
    assert checkpoint.provenance["recipe"]["data"]["dataset"] == "folder"
    rows = list(csv.DictReader((out / "metrics.csv").open()))
    assert [row["epoch"] for row in rows] == [str(epoch) for epoch in range(1, 13)]
    assert float(rows[-1]["train_loss"]) < 0.5 * float(rows[0]["train_loss"])
    environment = json.loads((out / "environment.json").read_text())
    assert environment["seed"] == 0 and environment["torch"] == torch.__version__
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    summary = json.loads((out / "summary.json").read_text())
    assert summary["scores"]["accuracy"] == max(float(row["validation_accuracy"]) for row in rows)


def test_json_and_seeds(clips: Path, tmp_path: Path) -> None:
    data = ("--dataset", "folder", "--root", clips)
    result = run(*data, *SMALLER, "--epochs", 2, "--out", tmp_path / "five", "--seeds", 3, "--json")
    assert result.exit_code == 0, result.output
    values = json.loads(result.stdout)
    accuracy = values["metrics"]["accuracy"]
    assert accuracy["mean"] == pytest.approx(np.mean(accuracy["values"]))
    assert accuracy["deviation"] == pytest.approx(np.std(accuracy["values"], ddof=1))
    assert [entry["seed"] for entry in values["runs"]] == [0, 1, 2]
    # Resuming a finished set of runs trains nothing and reports the same.
    before = (tmp_path / "five" / "seed-1" / "state.pt").stat().st_mtime_ns
    again = json.loads(run("--resume", tmp_path / "five", "--json").stdout)
    assert again["metrics"] == values["metrics"]
    assert (tmp_path / "five" / "seed-1" / "state.pt").stat().st_mtime_ns == before
    for text in ("", "count = 'three'", "count = 0"):
        (tmp_path / "five" / "seeds.toml").write_text(text)
        error = error_of("--resume", tmp_path / "five")
        assert error.exit_code == 3 and "does not say how many seeds there are" in str(error)


def test_a_written_recipe_gives_the_same_run(clips: Path, tmp_path: Path) -> None:
    data = ("--dataset", "folder", "--root", clips, *SMALLER, "--epochs", "2")
    recipe = tmp_path / "my.toml"
    assert run(*data, "--write-recipe", recipe).exit_code == 0
    assert run(*data, "--out", tmp_path / "a").exit_code == 0
    assert run("--recipe", recipe, "--out", tmp_path / "b").exit_code == 0
    one, two = (load_checkpoint(tmp_path / name / "last.safetensors").model.state_dict() for name in "ab")
    assert all(torch.equal(value, two[name]) for name, value in one.items())
    assert (tmp_path / "a" / "config.toml").read_text() == recipe.read_text()
    shown = run(*data, "--write-recipe", "-")
    assert shown.stdout == recipe.read_text()


def test_ctrl_c_saves_and_resume_goes_on(clips: Path, tmp_path: Path) -> None:
    """A real process gets a real SIGINT in the middle; the resumed run is the uninterrupted one."""
    program = "import sys\nfrom tests.cli.test_train import app\nsys.exit(app(sys.argv[1:], standalone_mode=False))\n"
    data = ("train", "--dataset", "folder", "--root", str(clips), *SMALLER, "--epochs", "30", "--threads", "1")
    out = tmp_path / "stopped"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2]), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", program, *data, "--out", str(out)], stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        deadline = time.monotonic() + 300  # a busy machine may take long to start
        while not (out / "metrics.csv").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    assert f"everything is saved: cotrans train --resume {out}" in errors
    assert "is learned at the end: until then one is always named" in errors
    done = len(list(csv.DictReader((out / "metrics.csv").open())))
    assert 1 <= done < 30
    torch.set_num_threads(1)
    assert run("--resume", out).exit_code == 0
    assert run(*data[1:], "--out", tmp_path / "whole").exit_code == 0
    one, two = (load_checkpoint(path / "last.safetensors").model.state_dict() for path in (out, tmp_path / "whole"))
    assert all(torch.equal(value, two[name]) for name, value in one.items())


def test_errors_are_one_line_with_what_to_do(clips: Path, tmp_path: Path) -> None:
    data = ("--dataset", "folder", "--root", clips)
    unknown = error_of(*data, "-s", "training.epoch=3")
    assert isinstance(unknown, UsageError)
    assert "unknown key 'epoch' in [training]; did you mean 'epochs'?" in str(unknown)
    assert isinstance(error_of("--root", clips), UsageError)
    assert "Name their folder, as in `cotrans train clips/`" in str(error_of("--root", clips))
    assert isinstance(error_of("--dataset", "folder", "--root", tmp_path / "nowhere"), InputError)
    assert "did you mean 'cotrans-b1'" in str(error_of(*data, "--model", "cotran-b1", "--out", tmp_path / "x"))
    assert "--resume goes on with the recipe" in str(error_of("--resume", tmp_path, "--window", "3"))
    assert "is not the folder of a training run" in str(error_of("--resume", tmp_path))
    assert "no banded pass" in str(
        error_of(*data, "--model", "trans-b1", "--window", 10, "--sampling", "chunk", "--out", tmp_path / "y")
    )
    assert isinstance(error_of(*data, "--device", "tpu"), UsageError)


def test_init_takes_the_same_features(tmp_path: Path) -> None:
    """Features of the same width and another hop fit a model by their shape alone."""
    write_sounds(tmp_path / "clips")
    data = ("--dataset", "folder", "--root", tmp_path, "--cache", tmp_path / "cache", *SMALLER, "--epochs", 1)
    features = ("--features", "logmel", "--feature-option", "n_mels=16")
    assert run(*data, *features, "--hop", "0.1", "--out", tmp_path / "one").exit_code == 0
    error = error_of(*data, *features, "--hop", "0.2", "--init", tmp_path / "one", "--out", tmp_path / "two")
    assert isinstance(error, ConfigurationError)
    assert str(error).endswith("these have a hop of 0.2, not 0.1; give --hop 0.1, as it was trained")
    assert run(*data, *features, "--hop", "0.1", "--init", tmp_path / "one", "--out", tmp_path / "two").exit_code == 0


def test_init_with_a_built_in_model_says_which_options_are_missing(tmp_path: Path) -> None:
    """Before anything is opened or extracted."""
    data = ("--dataset", "folder", "--root", tmp_path / "none", "--out", tmp_path / "run")
    features = ("--features", "musicnn", "--hop", "0.25")
    error = error_of(*data, *features, "--init", "music-genre")
    assert isinstance(error, ConfigurationError)
    assert str(error) == (
        "--init music-genre was trained on other features: these come from other options of musicnn (output=pooled, "
        "network=msd, not output=middle+penultimate, network=msd_musicnn); give --feature-option "
        "output=middle+penultimate --feature-option network=msd_musicnn, as it was trained"
    )
    given = ("--feature-option", "output=middle+penultimate", "--feature-option", "network=msd_musicnn")
    assert isinstance(error_of(*data, *features, *given, "--init", "music-genre"), InputError)  # the next thing
    error = error_of(*data, "--features", "musicnn", "--hop", "0.5", *given, "--init", "spoken-digits")
    assert str(error).endswith("give --features speech --hop 0.08, as it was trained")


def test_two_clips_say_what_is_needed(tmp_path: Path) -> None:
    data = ("--dataset", "folder", "--root", tmp_path, "--cache", tmp_path / "cache", *SMALLER, "--epochs", 1)
    features = ("--features", "logmel", "--hop", "0.1")
    write_sounds(tmp_path / "clips", labels=("a",), count=2)
    assert "'a' is the only label" in str(error_of(*data, *features, "--out", tmp_path / "one"))
    (tmp_path / "clips/b").mkdir()
    (tmp_path / "clips/a/1.wav").rename(tmp_path / "clips/b/1.wav")
    result = run(*data, *features, "--out", tmp_path / "two")
    assert result.exit_code == 0, result.output
    assert "there are train (2), no validation; a label gives a clip for it when it has at least two" in result.stderr


def test_clips_of_one_group_are_not_divided_and_that_is_the_reason(tmp_path: Path) -> None:
    """ESC-50's layout, with one of its folds."""
    write_sounds(tmp_path / "made", count=2)
    table = ["filename,fold,target,category"]
    (tmp_path / "esc" / "audio").mkdir(parents=True)
    (tmp_path / "esc" / "meta").mkdir()
    for path in sorted((tmp_path / "made").rglob("*.wav")):
        name = f"1-{path.parent.name}{path.stem}-A-0.wav"
        path.rename(tmp_path / "esc" / "audio" / name)
        table.append(f"{name},1,0,{path.parent.name}")
    (tmp_path / "esc" / "meta" / "esc50.csv").write_text("\n".join(table) + "\n", encoding="utf-8")
    data = ("--dataset", "folder", "--root", tmp_path / "esc", "--cache", tmp_path / "cache", *SMALLER, "--epochs", 1)
    result = run(*data, "--features", "logmel", "--hop", "0.1", "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    assert "all clips are of one group (1), which is not divided: add another one" in result.stderr


def write_sounds(root: Path, labels: tuple[str, ...] = ("a", "b"), count: int = 3) -> None:
    import soundfile

    for label in labels:
        for number in range(count):
            path = root / label / f"{number}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(path, np.random.default_rng(number).normal(0, 0.1, 16000).astype(np.float32), 16000)


def test_media_without_features_says_what_to_do(tmp_path: Path) -> None:
    write_sounds(tmp_path / "clips")
    (tmp_path / "clips" / "a" / "broken.wav").write_bytes(b"RIFF and nothing else")
    error = error_of("--dataset", "folder", "--root", tmp_path, "--recipe", "paper", "--out", tmp_path / "run")
    assert "name extractors with --features" in str(error)
    data = ("--dataset", "folder", "--root", tmp_path, "--cache", tmp_path / "cache", *SMALLER, "--epochs", 1)
    features = ("--features", "logmel", "--hop", "0.1")
    result = run(*data, *features, "--set", "features.workers=2", "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    assert "broken.wav" in result.stderr  # reported, and training went on without it
    checkpoint = load_checkpoint(tmp_path / "run" / "best.safetensors")
    assert checkpoint.features is not None
    assert (checkpoint.features.name, checkpoint.features.hop) == ("logmel", 0.1)
    # The second run finds the features in the cache.
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.npy")}
    assert run(*data, *features, "--out", tmp_path / "again").exit_code == 0
    assert times == {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.npy")}
    assert len(times) == 14  # rows and times of six clips, the made sounds, and clips in a row


def test_a_path_is_enough(clips: Path, tmp_path: Path) -> None:
    """What the data decide is said with reasons and kept; the card tells the rest."""
    out = tmp_path / "run"
    result = run(clips, "--out", out, "--epochs", "3")
    assert result.exit_code == 0, result.output
    assert "chosen for these data" in result.stderr and "window       10 rows: a whole clip" in result.stderr
    assert "only 9 recordings to validate on: one of them is 11 points" in result.stderr
    assert f"`cotrans stream FILE --model {out}`" in result.stderr.splitlines()[-1] and (out / "report.html").exists()
    recipe = parse_recipe((out / "config.toml").read_text())
    assert recipe.model.changes["window"] == 10 and recipe.training.epochs == 3
    assert recipe.optimizer.learning_rate == 1e-3 and recipe.training.early_stop > 0
    card = (out / "README.md").read_text()
    assert "cat, dog, owl" in card and "18 recordings to train on, 9 recordings to validate on" in card
    table = [line.split("|")[2:-1] for line in card.splitlines() if line.startswith(("| cat ", "| dog ", "| owl "))]
    assert sum(int(number) for row in table for number in row) == 9 and "Fill in" in card
    assert "given twice" in run(clips, "--root", clips).output


def test_flags_and_the_papers_recipe_win_over_the_data(clips: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = parse_recipe(run(clips, "--window", "7", "--dropout", "0.2", "--write-recipe", "-").stdout)
    assert (chosen.model.changes["window"], chosen.model.changes["dropout"]) == (7, 0.2)
    assert chosen.optimizer.learning_rate == 1e-3
    paper = parse_recipe(run(clips, "--recipe", "paper", "--write-recipe", "-").stdout)
    assert (paper.optimizer.learning_rate, paper.training.epochs, paper.training.early_stop) == (1e-5, 50, 0)


def test_a_window_that_no_recording_fills_is_refused(clips: Path, tmp_path: Path) -> None:
    error = error_of(clips, "--out", tmp_path / "run", "--window", "1000000", "--epochs", "1")
    assert error.exit_code == 4 and "a window of 1,000,000 rows is far longer than any recording" in str(error)


def test_a_finished_run_can_be_extended(clips: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    common = (clips, *SMALLER, "-s", "training.early_stop=2", "--out", out)
    assert run(*common, "--epochs", "2").exit_code == 0
    assert run("--resume", out, "--epochs", "5").exit_code == 0
    assert json.loads((out / "summary.json").read_text())["epochs"] >= 4
    assert parse_recipe((out / "config.toml").read_text()).training.epochs == 5


def test_a_resumed_run_has_as_many_epochs_as_are_asked_for(clips: Path, tmp_path: Path) -> None:
    """Also where its recipe would have added some, for small data."""
    out = tmp_path / "run"
    steps = ("-s", "training.least_steps=12", "-s", "training.early_stop=0")
    assert run(clips, *SMALLER, "--epochs", "1", *steps, "--out", out).exit_code == 0
    begun = json.loads((out / "summary.json").read_text())
    assert begun["steps"] >= 12 and begun["epochs"] > 1
    (out / "state.pt").unlink()
    (out / "summary.json").unlink()
    assert run("--resume", out, "--epochs", "1").exit_code == 0
    assert json.loads((out / "summary.json").read_text())["epochs"] == 1


def test_what_cannot_work_is_said_before_anything_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTRANS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("pipelines.training.run.open_data", lambda *_: pytest.fail("data were opened"))
    for label in ("cat", "dog"):
        for number in range(3):
            write_sound(tmp_path / "sounds" / label / f"{number}.wav", 1.0)
    sounds = tmp_path / "sounds"
    assert "vggish" in str(error_of(sounds, "--features", "vggish", "--out", tmp_path / "run"))
    missing = error_of(sounds, "--features", "vggish", "--weights", "no.pth", "--out", tmp_path / "run")
    assert "there is no file no.pth" in str(missing)
    (tmp_path / "file").touch()
    assert "cannot write to" in str(error_of(sounds, "--features", "logmel", "--out", tmp_path / "file" / "run"))
    assert not (tmp_path / "run").exists()
