"""A reader that goes away (`cotrans … | head -1`) ends a command quietly."""

from __future__ import annotations

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
    assert "Traceback" not in said and "Broken" not in said and "Exception" not in said and "error" not in said
