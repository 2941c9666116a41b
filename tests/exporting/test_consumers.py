"""The two programs of docs/export.md run, without PyTorch, and give the model's scores."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray

from pipelines.checkpoints.checkpoint import load_checkpoint
from pipelines.exporting.exporter import export_model
from tests.streaming.made_streams import CLASSES, write_model, write_rows

PAGE = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")
SUBSET = Path(__file__).parent / "onnxruntime_subset"
MOST_LINES = 40


def program(language: str) -> str:
    """The only block of a language on the page."""
    (block,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)
    return str(block)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`genre.onnx`, `rows.npy` and `rows.f32` as the page names them."""
    folder = tmp_path_factory.mktemp("consumer")
    path = write_model(folder / "model.safetensors")
    export_model(path, folder / "genre.onnx")
    write_rows(folder / "rows.npy", 20).tofile(folder / "rows.f32")
    return folder


@pytest.fixture(scope="module")
def expected(folder: Path) -> NDArray[np.float32]:
    """(rows, classes) in PyTorch."""
    model = load_checkpoint(folder / "model.safetensors").model
    rows = torch.from_numpy(np.load(folder / "rows.npy"))
    with torch.inference_mode():
        return np.asarray(model.steps(rows[None], model.initial_state(1))[0][0].numpy())


def test_python(folder: Path, expected: NDArray[np.float32]) -> None:
    text = program("python")
    assert len(text.splitlines()) <= MOST_LINES and "torch" not in text and "cotrans" not in text
    script = text + "\nimport sys\nassert 'torch' not in sys.modules\n"
    result = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [line[0] for line in lines] == [CLASSES[best] for best in expected.argmax(1)]
    np.testing.assert_allclose(np.array([line[1:] for line in lines], np.float32), expected, rtol=1e-4, atol=1e-5)


def test_cpp(folder: Path, expected: NDArray[np.float32]) -> None:
    compiler = shutil.which("g++") or shutil.which("clang++")
    libraries = sorted((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*"))
    if compiler is None or not libraries:
        pytest.skip("there is no C++ compiler, or no library in the wheel of onnxruntime")
    text = program("cpp")
    assert len(text.splitlines()) <= MOST_LINES
    (folder / "step.cpp").write_text(text, encoding="utf-8")
    header = os.environ.get("ONNXRUNTIME_INCLUDE", str(SUBSET))
    (folder / "libonnxruntime.so.1").symlink_to(libraries[0])  # the name that a program looks for
    command = [compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-I", header, "step.cpp", "libonnxruntime.so.1"]
    built = subprocess.run([*command, f"-Wl,-rpath,{folder}", "-o", "step"], cwd=folder, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    with (folder / "rows.f32").open("rb") as rows:
        result = subprocess.run(["./step", "genre.onnx"], cwd=folder, stdin=rows, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    scores = np.array([line.split() for line in result.stdout.splitlines()], np.float32)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)
