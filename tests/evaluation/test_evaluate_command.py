"""`cotrans evaluate --predictions`: the output that a person and a program get."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from cotrans_cli.commands.evaluate import evaluate
from pipelines.errors import CotransError

app = typer.Typer()
app.command("evaluate")(evaluate)
app.command("other")(lambda: None)  # with a single command typer leaves out its name


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


def error_of(*arguments: Any) -> CotransError:
    result = run(*arguments)
    assert isinstance(result.exception, CotransError), result.output
    assert "\n" not in str(result.exception)
    return result.exception


def test_json_has_the_official_numbers(golden_dir: Path) -> None:
    path = golden_dir / "thumos_metrics.npz"
    result = run("--dataset", "thumos14", "--predictions", path, "--json")
    assert result.exit_code == 0, result.output
    values = json.loads(result.stdout)
    golden = np.load(path)
    for key in ("mAP", "mcAP", "ap", "cap"):
        np.testing.assert_allclose(values[key], golden[key], rtol=0, atol=1e-9)
    assert values["intervals"]["mAP"]["low"] < values["mAP"] < values["intervals"]["mAP"]["high"]


def test_table_csv_and_markdown(golden_dir: Path) -> None:
    common = ("--dataset", "thumos14", "--predictions", golden_dir / "thumos_metrics.npz", "--bootstrap", "0")
    table = run(*common).stdout
    assert "CricketShot         54.16   94.05        8" in table
    assert "mAP 92.42 % over 20 classes; 13,471 frames of 21 recordings (protocol lstr" in table
    rows = list(csv.DictReader(io.StringIO(run(*common, "--csv").stdout)))
    assert rows[-1]["class"] == "mean" and float(rows[-1]["AP"]) == pytest.approx(0.9241514820143071, abs=1e-12)
    assert len(rows) == 21
    assert "| CricketShot | 54.16 | 94.05 | 8 |" in run(*common, "--markdown").stdout


def test_protocol_changes_the_frames(golden_dir: Path) -> None:
    path = golden_dir / "thumos_metrics.npz"
    arguments = ("--dataset", "thumos14", "--predictions", path, "--protocol", "oadtr", "--json", "--bootstrap", 0)
    values = json.loads(run(*arguments).stdout)
    assert (values["protocol"], values["frames"], values["trimmed"]) == ("oadtr", 11959, 1512)


def test_a_class_without_positives_is_null_and_noted(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    label = np.arange(200) % 20  # nobody spikes a volleyball
    path = tmp_path / "p.npz"
    np.savez(path, scores=generator.random((200, 21)), label=label, video=np.zeros(200, int))
    values = json.loads(run("--dataset", "thumos14", "--predictions", path, "--json").stdout)
    assert values["ap"][-1] is None and values["cap"][-1] is None
    assert values["mAP"] == pytest.approx(np.mean(values["ap"][:-1]))
    assert "VolleyballSpiking" in values["notes"][0]
    assert "VolleyballSpiking" in run("--dataset", "thumos14", "--predictions", path).stderr


def test_how_little_was_scored_stands_before_the_score(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    path = tmp_path / "p.npz"
    np.savez(path, scores=generator.random((210, 21)), label=np.arange(210) % 21, video=np.zeros(210, int))
    text = run("--dataset", "thumos14", "--predictions", path).output
    assert 0 <= text.index("note: one recording: no confidence interval") < text.index("mAP")


def test_gtzan_clips_and_folder_both_kinds(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    label = np.repeat(np.arange(10), 12)
    scores = generator.random((120, 10)) + 0.6 * np.eye(10)[label]
    path = tmp_path / "p.npz"
    np.savez(path, scores=scores, label=label, video=np.repeat(np.arange(20), 6))
    values = json.loads(run("--dataset", "gtzan", "--predictions", path, "--json").stdout)
    assert values["metric"] == "accuracy" and values["clips"] == 20
    truth = label[::6]
    means = scores.reshape(20, 6, 10).mean(axis=1).argmax(axis=1)
    assert values["poolings"]["mean"]["accuracy"] == pytest.approx((means == truth).mean())
    assert values["poolings"]["last"]["accuracy"] == pytest.approx((scores[5::6].argmax(axis=1) == truth).mean())
    text = run("--dataset", "gtzan", "--predictions", path).stdout
    assert "by the vote of its tokens; 20 clips" in text and "majority" not in text  # which is the baseline's name
    both = json.loads(run("--dataset", "folder", "--predictions", path, "--json").stdout)
    assert both["clips"]["poolings"] == values["poolings"] and 0 < both["mAP"] < 1


def test_tvseries_shows_the_stages(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    label = np.repeat(np.arange(31), 12)
    path = tmp_path / "p.npz"
    np.savez(path, scores=generator.random((372, 31)), label=label, video=np.zeros(372, int))
    result = run("--dataset", "tvseries", "--predictions", path)
    assert "Per tenth of an action" in result.stdout and "mcAP" in result.stdout
    values = json.loads(run("--dataset", "tvseries", "--predictions", path, "--json").stdout)
    assert len(values["stages"]["mcAP"]) == 10 and len(values["cap"]) == 30


def test_the_plot_is_a_picture(golden_dir: Path, tmp_path: Path) -> None:
    plot = tmp_path / "confusion.png"
    path = golden_dir / "thumos_metrics.npz"
    result = run("--dataset", "thumos14", "--predictions", path, "--plot", plot, "--bootstrap", 0)
    assert result.exit_code == 0, result.output
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_mistakes_are_one_line(golden_dir: Path, tmp_path: Path) -> None:
    golden = golden_dir / "thumos_metrics.npz"
    named = ("--dataset", "thumos14", "--predictions", golden)
    assert error_of("--dataset", "thumos14", "--predictions", tmp_path / "no.npz").exit_code == 3
    assert "did you mean 'thumos14'? (datasets: gtzan" in str(error_of("--dataset", "thumos", "--predictions", golden))
    assert error_of(*named, "--protocol", "paper").exit_code == 2
    assert error_of(*named, "--smooth", "yes").exit_code == 2
    assert error_of(*named, "--plot", tmp_path / "plot.txt").exit_code == 2
    assert run(*named, "--window", 0).exit_code == 2
    assert "22 columns, but protocol lstr needs 31" in str(error_of("--dataset", "tvseries", "--predictions", golden))
    assert "leave --protocol out" in str(error_of("--dataset", "gtzan", "--predictions", golden, "--protocol", "lstr"))
    assert run(*named, "--json", "--csv").exit_code == 2
    nans = tmp_path / "nan.npz"
    np.savez(nans, scores=np.full((5, 22), np.nan), label=np.zeros(5, int), video=np.zeros(5, int))
    assert "NaN in every frame" in str(error_of("--dataset", "thumos14", "--predictions", nans))
