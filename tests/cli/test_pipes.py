"""A reader that goes away (`cotrans … | head -1`) ends a command quietly, and no file that it also writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.evaluation.evaluation_problems import write_clips, write_model

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "arguments",
    [
        "--version",
        "--help",
        "convert --help",
        "flops --paper",
        "flops --n 8 --d 8",
        "models",
        "weights list --json",
        "info {model} --json",
        "convert {model} --out {folder}/other.safetensors",
        "data inspect --dataset folder --root {clips}",
        "evaluate --dataset folder --root {clips} -c {model}",
        "train --dataset folder --root {clips} --write-recipe -",
        "train --dataset folder --root {clips} --epochs 1 --out {folder}/run --json",
        "stream {clips}/test/cat/cat0.npy --model {model} --fast",
    ],
)
def test_a_reader_that_goes_away_is_no_error(arguments: str, tmp_path: Path) -> None:
    said = without_reader(arguments, tmp_path)
    assert "Traceback" not in said and "Broken" not in said and "Exception" not in said and "error" not in said


@pytest.mark.parametrize("form", ["", " --segments", " --format jsonl"])
def test_files_are_finished_though_nobody_reads_the_lines(form: str, tmp_path: Path) -> None:
    stream = "stream {clips}/test/cat/cat0.npy {clips}/test/dog/dog0.npy --model {model} --fast"
    report, summary = tmp_path / "report.html", tmp_path / "summary.json"
    said = without_reader(f"{stream}{form} --report {report} --summary {summary}", tmp_path)
    note = f"standard output: nobody reads it any more; it goes on for {summary} and {report}"
    assert said.count(note) == 1 and "error" not in said and "Traceback" not in said
    assert json.loads(summary.read_text())["frames"] == 20  # all of both
    assert "</html>" in report.read_text()


def without_reader(arguments: str, tmp_path: Path) -> str:
    """What a command says on stderr when nobody reads what it writes; it must end with 0."""
    clips = write_clips(tmp_path / "clips")
    model = write_model(tmp_path / "model.safetensors")
    words = arguments.format(folder=tmp_path, clips=clips, model=model).split()
    command = subprocess.Popen(
        [sys.executable, "-m", "cotrans_cli", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    )
    assert command.stdout is not None and command.stderr is not None
    command.stdout.close()  # before anything was written
    said = command.stderr.read().decode()
    command.stderr.close()
    assert command.wait(120) == 0, said
    return said
