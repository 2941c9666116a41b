"""Whatever is wrong with one source of many: it is named, and the others are played and written to their end."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest

from cotrans_cli.main import run
from pipelines.model.kinds import make_model
from pipelines.model.presets import PRESETS
from pipelines.running.runner import Recording, run_model
from pipelines.streaming.predicting.session import StreamSession
from tests.model.small import SIZES, small_preset
from tests.streaming.made_streams import WIDTH, write_model, write_rows, write_sound

Output = pytest.CaptureFixture[str]
BAD = 8  # the row that is finite and too large
ROWS = 30

pytestmark = pytest.mark.usefixtures("no_settings")


@pytest.fixture
def rows_with_a_giant(tmp_path: Path) -> list[str]:
    """Two feature files, the first with a row of 1e30, and a model for them."""
    values = write_rows(tmp_path / "good.npy", ROWS)
    values[BAD] = 1e30
    np.save(tmp_path / "giant.npy", values)
    model = write_model(tmp_path / "model.safetensors")
    return [str(tmp_path / "giant.npy"), str(tmp_path / "good.npy"), "--model", str(model), "--fast"]


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_scores_that_are_not_finite_are_left_out(
    rows_with_a_giant: list[str], tmp_path: Path, capsys: Output, form: str
) -> None:
    out, summary = tmp_path / f"out.{form}", tmp_path / "summary.json"
    assert run(["stream", *rows_with_a_giant, "--out", str(out), "--summary", str(summary)]) == 0
    with out.open(encoding="utf-8", newline="") as file:
        lines = [json.loads(line) for line in file] if form == "jsonl" else list(csv.DictReader(file))
    assert "nan" not in out.read_text().lower()
    by_source = {name: [int(line["index"]) for line in lines if line["source"].endswith(name)] for name in GIANT}
    assert by_source["good.npy"] == list(range(ROWS))
    left_out = sorted(set(range(ROWS)) - set(by_source["giant.npy"]))
    assert left_out[0] == BAD and left_out[-1] < BAD + 6, "the window of 6 rows recovers"
    assert left_out == list(range(BAD, BAD + len(left_out)))
    counts = {Path(source["source"]).name: source["broken"] for source in json.loads(summary.read_text())["sources"]}
    assert counts == {"giant.npy": len(left_out), "good.npy": 0}
    assert capsys.readouterr().err.count("such rows are left out") == 1


GIANT = ("giant.npy", "good.npy")


def test_every_format_leaves_out_the_same_rows(rows_with_a_giant: list[str], tmp_path: Path) -> None:
    times = {}
    for form in ("jsonl", "csv", "txt"):
        out = tmp_path / f"out.{form}"
        assert run(["stream", rows_with_a_giant[0], *rows_with_a_giant[2:], "-q", "--out", str(out)]) == 0
        times[form] = len(out.read_text().splitlines()) - (form == "csv")
    assert len(set(times.values())) == 1 and times["jsonl"] < ROWS


@pytest.mark.parametrize("name", [*PRESETS])
def test_every_kind_of_model_recovers(name: str) -> None:
    model = make_model(small_preset(name, **SIZES)).eval()
    session = StreamSession(model, 2)
    tokens = np.random.default_rng(0).normal(size=(40, 2, SIZES["input_width"])).astype(np.float32)
    tokens[5, 0] = 1e30
    finite = []
    for step in tokens:
        scores = session.step({0: step[0], 1: step[1]})
        assert np.isfinite(scores[1]).all()
        finite.append(bool(np.isfinite(scores[0]).all()))
    assert not finite[5]
    reach = model.config.receptive_field or 1
    assert all(finite[5 + reach :])


def test_a_recording_with_giants_is_left_out_of_an_evaluation() -> None:
    model = make_model(small_preset("cotrans-b1", **SIZES)).eval()
    values = np.random.default_rng(0).normal(size=(12, SIZES["input_width"])).astype(np.float32)
    giant = values.copy()
    giant[4] = 1e30
    for mode in ("stream", "chunk", "window"):
        result = run_model(model, [Recording("giant", lambda: giant), Recording("good", lambda: values)], mode)  # type: ignore[arg-type]
        assert list(result.outputs) == ["good"]
        assert [damage.name for damage in result.damaged] == ["giant"]


def test_an_output_name_that_is_too_long_ends_its_source_alone(tmp_path: Path, capsys: Output) -> None:
    long = "x" * 250
    for name in ("good", long):
        write_rows(tmp_path / f"{name}.npy", ROWS)
    model, out = write_model(tmp_path / "model.safetensors"), tmp_path / "out"
    sources = [str(tmp_path / f"{long}.npy"), str(tmp_path / "good.npy")]
    arguments = ["stream", *sources, "--model", str(model), "--fast", "--out", str(out), "--format", "jsonl"]
    assert run(arguments) == 3
    assert len((out / "good.jsonl").read_text().splitlines()) == ROWS
    printed = capsys.readouterr().err
    assert "File name too long" in printed and "1 of 2 sources failed" in printed


def test_an_output_that_cannot_be_opened_ends_its_source_alone(tmp_path: Path, capsys: Output) -> None:
    names = ("bad", "good")
    for name in names:
        write_rows(tmp_path / f"{name}.npy", ROWS)
    model, out = write_model(tmp_path / "model.safetensors"), tmp_path / "out"
    (out / "bad.csv").mkdir(parents=True)  # a folder stands in the way
    sources = [str(tmp_path / f"{name}.npy") for name in names]
    assert run(["stream", *sources, "--model", str(model), "--fast", "--out", str(out), "--format", "csv"]) == 3
    assert len((out / "good.csv").read_text().splitlines()) == ROWS + 1
    printed = capsys.readouterr().err
    assert str(out / "bad.csv") in printed and "1 of 2 sources failed" in printed


def test_several_models_go_on_without_an_output(tmp_path: Path, capsys: Output) -> None:
    write_rows(tmp_path / "rows.npy", ROWS)
    models = [str(write_model(tmp_path / f"{name}.safetensors", seed=seed)) for seed, name in enumerate("ab")]
    out = tmp_path / "out"
    (out / "rows.a.jsonl").mkdir(parents=True)
    source = [str(tmp_path / "rows.npy"), "--model", ",".join(models), "--fast", "--format", "jsonl"]
    assert run(["stream", *source, "--out", str(out)]) == 3
    assert len((out / "rows.b.jsonl").read_text().splitlines()) == ROWS
    assert "1 of 2 pairs of a source and a model (there are 2 models) failed" in capsys.readouterr().err


@pytest.mark.timeout(60)
def test_a_named_pipe_in_a_folder_is_left_alone(tmp_path: Path) -> None:
    folder, out = tmp_path / "media", tmp_path / "features"
    folder.mkdir()
    write_sound(folder / "good.wav", 1.0)
    os.mkfifo(folder / "pipe.wav")
    assert run(["extract", str(folder), "--features", "logmel", "--out", str(out)]) == 0
    assert [path.name for path in out.glob("*.npy") if "times" not in path.name] == ["good.npy"]
    model = str(write_model(tmp_path / "sound.safetensors", "logmel"))
    labels = tmp_path / "labels"
    arguments = ["stream", str(folder), "--model", model, "--fast", "--format", "jsonl"]
    assert run([*arguments, "--out", str(labels)]) == 0
    assert [path.name for path in labels.iterdir()] == ["good.jsonl"]


@pytest.mark.timeout(60)
def test_a_named_pipe_among_feature_files_is_left_alone(tmp_path: Path, capsys: Output) -> None:
    folder = tmp_path / "features"
    folder.mkdir()
    np.save(folder / "good.npy", np.zeros((5, WIDTH), np.float32))
    os.mkfifo(folder / "pipe.npy")
    model = str(write_model(tmp_path / "model.safetensors"))
    arguments = ["--model", model, "--fast", "--format", "jsonl", "--out", str(tmp_path / "out.jsonl")]
    assert run(["stream", str(folder), *arguments]) == 0
    assert run(["stream", str(folder / "good.npy"), str(folder / "pipe.npy"), *arguments]) == 3
    assert "pipe.npy: features are read from a file" in capsys.readouterr().err
