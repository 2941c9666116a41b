"""The wheel and the source archive hold everything, and the installed wheel gives the same predictions as the tree."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from pipelines import __version__

ROOT = Path(__file__).resolve().parents[1]
CLIP = "weights/demo/demo.ogg"


def data_files() -> list[str]:
    """Everything in the packages that is not Python."""
    return [
        path.relative_to(ROOT).as_posix()
        for package in ("cotrans_cli", "pipelines", "weights")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc", ".so")
    ]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist, built the isolated way from what git has."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode and "No matching distribution found for hatchling" in done.stdout + done.stderr:
        pytest.skip("no network: the isolated build fetches hatchling")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_wheel_holds_weights_recipes_and_lists(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    # With a compiler the wheel holds steps in C, and is for machines like this one.
    compiled = "pipelines/model/native/kernels.so" in held
    assert compiled == (sys.platform == "linux" and platform.machine() == "x86_64" and shutil.which("gcc") is not None)
    machines = f"linux_{platform.machine()}" if compiled else "any"
    assert wheel.name == f"cotrans-{__version__}-py3-none-{machines}.whl"
    assert "cotrans.py" in held
    needed = data_files()
    for example in (
        CLIP,
        "weights/registry.toml",
        "weights/models/sound-events.safetensors",
        "weights/models/music-genre.safetensors",
        "weights/models/spoken-digits.safetensors",
        "weights/models/spoken-digits.recordings.txt",
        "weights/recipes/sound-events.toml",
        "weights/musicnn_msd_vgg.safetensors",
        "weights/speech_embedding.safetensors",
        "weights/soundnet.safetensors",
        "pipelines/datasets/published/data/thumos14.json",
        "pipelines/py.typed",
        "pipelines/model/native/kernels.c",
    ):
        assert example in needed
    assert any(name.startswith("pipelines/training/recipes/") for name in needed)
    assert set(needed) <= held, sorted(set(needed) - held)
    assert not any(name.startswith(("tests", "docs", "benchmarks")) for name in held)
    # The whole wheel stays small enough to send around.
    assert wheel.stat().st_size < 40_000_000


@pytest.mark.slow
def test_without_a_compiler_the_wheel_is_pure(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(ROOT)]
    for compiler, wanted in (("", "any"), ("false", "any"), ('gcc "', "any")):  # none on the path; fails; no command
        settings = {**os.environ, "PATH": str(tools)} if not compiler else {**os.environ, "CC": compiler}
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=settings)
        if done.returncode and "No matching distribution found for hatchling" in done.stdout + done.stderr:
            pytest.skip("no network: the isolated build fetches hatchling")
        assert done.returncode == 0, done.stdout + done.stderr
        (wheel,) = tmp_path.glob("*.whl")
        assert wheel.name.endswith(f"-{wanted}.whl")
        with zipfile.ZipFile(wheel) as archive:
            assert not any(name.endswith(".so") for name in archive.namelist())
        wheel.unlink()


@pytest.mark.slow
def test_sdist_builds_the_same_and_carries_the_tests(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.split("/", 1)[1] for name in opened.getnames() if "/" in name}
    assert {"README.md", "LICENSE", "Makefile", "pyproject.toml", "tests/conftest.py", "docs/train.md"} <= names
    assert set(data_files()) <= names
    assert not any(name.startswith((".venv", "runs", ".git/")) for name in names)


@pytest.mark.slow
def test_installed_wheel_predicts_the_same(built: Path, tmp_path: Path) -> None:
    """Outside the tree, from an empty folder: the demo clip by the built-in model, to the last digit."""
    (wheel,) = built.glob("*.whl")
    site = tmp_path / "site"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel)],
        check=True,
        timeout=300,
    )
    installed, tree = (predictions(place, tmp_path) for place in (site, ROOT))
    assert len(tree) > 80
    for mine, theirs in zip(installed, tree, strict=True):
        assert [mine[key] for key in ("index", "time", "label")] == [theirs[key] for key in ("index", "time", "label")]
        assert mine["scores"] == pytest.approx(theirs["scores"], abs=1e-5)


def predictions(place: Path, work: Path) -> list[dict[str, Any]]:
    """What `cotrans stream` with the packages in `place` says about the clip there."""
    program = "import weights; from cotrans_cli.main import main; assert weights.__path__ == [{!r}]; main()"
    arguments = ["stream", str(place / CLIP), "--fast", "--format", "jsonl", "--scores"]
    settings = {
        "PYTHONPATH": str(place),
        "COTRANS_CACHE": str(work / "cache"),
        "COTRANS_CONFIG": str(work / "none.toml"),
    }
    done = subprocess.run(
        [sys.executable, "-c", program.format(str(place / "weights")), *arguments],
        cwd=work,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
