"""Similar mistakes end with the same exit code, whatever the command: the rule is in `pipelines/errors.py`."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from cotrans_cli.main import run
from pipelines.errors import CheckpointError, ConfigurationError, InputError, UsageError
from tests.evaluation.evaluation_problems import write_clips, write_model

USAGE, INPUT = UsageError.exit_code, InputError.exit_code
CONFIGURATION, CHECKPOINT = ConfigurationError.exit_code, CheckpointError.exit_code
DEMO = str(Path(str(files("weights"))) / "demo" / "demo.ogg")
DATA = ("--dataset", "folder", "--root", "clips")

# By kind of mistake: commands that make it.
MISTAKES: dict[tuple[str, int], list[tuple[str, ...]]] = {
    ("a name that nobody knows", USAGE): [
        ("strem", "rows.npy"),
        ("stream", "rows.npy", "--model", "sound-evnts"),
        ("evaluate", *DATA, "--checkpoint", "sound-evnts"),
        ("train", *DATA, "--init", "sound-evnts"),
        ("train", *DATA, "--model", "cotrans-b9"),
        ("train", *DATA, "--recipe", "nothing"),
        ("train", *DATA, "--set", "training.epoch=3"),
        ("train", *DATA, "--positional", "cyclic"),
        ("train", *DATA, "--sampling", "windows"),
        ("flops", "--model", "cotrans-b9"),
        ("weights", "path", "musicnn-mds"),
        ("extract", "rows.npy", "--out", "out", "--features", "vgish"),
        ("extract", "rows.npy", "--out", "out", "--layout", "zip"),
        ("extract", "rows.npy", "--out", "out", "--align", "middle"),
        ("extract", "rows.npy", "--out", "out", "--option", "network=big"),
        ("extract", "rows.npy", "--out", "out", "--output", "logits"),
        ("evaluate", "--dataset", "foldr", "--root", "clips", "-c", "model.safetensors"),
        ("evaluate", *DATA, "-c", "model.safetensors", "--mode", "fast"),
        ("evaluate", *DATA, "-c", "model.safetensors", "--on", "tests"),
        ("data", "inspect", "--dataset", "foldr", "--root", "clips"),
        ("convert", "model.safetensors", "--mode", "fast"),
        ("stream", "rows.npy", "--model", "model.safetensors", "--format", "xml"),
    ],
    ("a number out of range", USAGE): [
        ("flops", "--n", "0", "--d", "8"),
        ("flops", "--model", "cotrans-b1", "--blocks", "-1"),
        ("extract", "rows.npy", "--out", "out", "--hop", "0"),
        ("extract", "rows.npy", "--out", "out", "--hop", "1e12"),
        ("extract", "rows.npy", "--out", "out", "--fps", "1e-9"),
        ("extract", "rows.npy", "--out", "out", "--workers", "0"),
        ("extract", "rows.npy", "--out", "out", "--features", "logmel", "--option", "n_mels=0"),
        ("convert", "model.safetensors", "--window", "0"),
        ("train", *DATA, "--window", "0"),
        ("train", *DATA, "--epochs", "0"),
        ("train", *DATA, "--learning-rate", "-1"),
        ("train", *DATA, "--seeds", "0"),
        ("train", *DATA, "--threads", "0"),
        ("evaluate", *DATA, "-c", "model.safetensors", "--threads", "0"),
        ("evaluate", *DATA, "-c", "model.safetensors", "--bootstrap", "-1"),
        ("evaluate", *DATA, "-c", "model.safetensors", "--validation", "2"),
        ("data", "inspect", *DATA, "--validation", "2"),
        ("stream", "rows.npy", "--model", "model.safetensors", "--threads", "0"),
        *(
            ("stream", "rows.npy", "--model", "model.safetensors", option, value)
            for option in ("--smooth", "--start", "--duration", "--every", "--longest-lag", "--hop", "--threshold")
            for value in ("inf", "nan", "-1", "1e300")
        ),
        ("stream", "rows.npy", "--model", "model.safetensors", "--top-k", "0"),
        ("stream", "rows.npy", "--model", "model.safetensors", "--at-once", "0"),
        ("stream", "rows.npy", "--model", "model.safetensors", "--reconnects", "-1"),
        ("stream", "-", "--model", "model.safetensors", "--rate", "0"),
        ("stream", "-", "--model", "model.safetensors", "--rate", "16000", "--channels", "0"),
        ("stream", "-", "--model", "model.safetensors", "--rate", "16000", "--channels", "-2"),
        ("stream", "-", "--model", "model.safetensors", "--rate", "16000", "--sample-format", ""),
    ],
    ("an option that is missing", USAGE): [
        ("data", "inspect"),
        ("data", "inspect", "--dataset", "gtzan"),
        ("evaluate", "--dataset", "gtzan", "-c", "music-genre"),
        ("train", "--dataset", "gtzan"),
        ("train", "--root", "clips"),
        ("extract", "rows.npy"),
    ],
    ("a file or folder that is not there", INPUT): [
        ("stream", "nothing.npy"),
        ("stream", "rows.npy", "--model", "nothing.safetensors"),
        ("stream", "rows.npy", "--model", "model.safetensors", "--resume", "nothing.state"),
        ("extract", "nothing.wav", "--out", "out", "--features", "logmel"),
        ("evaluate", *DATA, "-c", "nothing.safetensors"),
        ("evaluate", "--dataset", "folder", "--root", "nothing", "-c", "model.safetensors"),
        ("train", "--dataset", "folder", "--root", "nothing"),
        ("train", *DATA, "--init", "nothing.safetensors"),
        ("train", *DATA, "--recipe", "nothing.toml"),
        ("data", "inspect", "--dataset", "folder", "--root", "nothing"),
        ("convert", "nothing.pth"),
        ("flops", "nothing.safetensors"),
        ("info", "nothing.npy"),
        ("weights", "add", "musicnn-msd", "nothing.safetensors"),
    ],
    ("an output that cannot be written", INPUT): [
        ("convert", "model.safetensors", "--out", "/proc/none/x.safetensors"),
        ("extract", DEMO, "--features", "logmel", "--out", "/proc/none"),
        ("train", *DATA, "--write-recipe", "/proc/none/x.toml"),
        ("train", *DATA, "--out", "/proc/none/run"),
        ("flops", "--n", "8", "--d", "8", "--plot", "/proc/none/x.png"),
        ("evaluate", *DATA, "-c", "model.safetensors", "--save", "/proc/none/x.npz"),
    ],
    ("a folder where a model file should be", INPUT): [
        ("stream", "rows.npy", "--model", "empty"),
        ("evaluate", *DATA, "-c", "empty"),
        ("train", *DATA, "--init", "empty"),
        ("convert", "empty"),
        ("flops", "empty"),
        ("info", "empty"),
    ],
    ("values that do not go together", CONFIGURATION): [
        ("flops", "--n", "8", "--d", "10", "--heads", "3"),
        ("flops", "--model", "cooadtr-b1", "--heads", "7"),
        ("train", *DATA, "--set", "model.heads=7", "--out", "out"),
        ("train", *DATA, "--recipe", "wrong.toml"),
        ("stream", "wide.npy", "--model", "model.safetensors"),
        ("evaluate", *DATA, "-c", "wide.safetensors"),
        ("convert", "model.safetensors", "--verify", "wide.npy"),
    ],
    ("a model file that cannot be used", CHECKPOINT): [
        ("stream", "rows.npy", "--model", "broken.safetensors"),
        ("evaluate", *DATA, "-c", "broken.safetensors"),
        ("train", *DATA, "--init", "broken.safetensors", "--out", "out"),
        ("convert", "broken.safetensors"),
        ("convert", "rows.npy"),
        ("flops", "broken.safetensors"),
        ("info", "broken.safetensors"),
    ],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes")
    write_clips(folder / "clips")
    model = write_model(folder / "model.safetensors")
    (folder / "broken.safetensors").write_bytes(model.read_bytes()[:-10])
    (folder / "wrong.toml").write_text("[training]\nepoch = 3\n")
    (folder / "empty").mkdir()
    np.save(folder / "rows.npy", np.zeros((4, 5), np.float32))
    np.save(folder / "wide.npy", np.zeros((4, 99), np.float32))
    write_model(folder / "wide.safetensors", input_width=99)
    return folder


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        pytest.param(code, arguments, id=f"{kind}: {' '.join(arguments)}")
        for (kind, code), commands in MISTAKES.items()
        for arguments in commands
    ],
)
def test_the_same_kind_of_mistake_has_the_same_exit_code(
    code: int,
    arguments: tuple[str, ...],
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.delenv("COTRANS_DATA", raising=False)
    assert run(list(arguments)) == code, capsys.readouterr().err
    said = capsys.readouterr().err.removesuffix("\n")
    assert "Traceback" not in said and "a bug" not in said and "unexpected" not in said
    *remarks, error = said.splitlines()
    assert error.startswith("cotrans: ") and not any(line.startswith("cotrans: ") for line in remarks)


def test_a_resampler_that_was_cut_off_is_no_complaint_at_the_end() -> None:
    """As after Ctrl-C: what an interrupted command leaves behind hangs together in cycles."""
    program = """
import gc, sys
from cotrans_cli.main import main
from pipelines.features.media.resampler import Resampler
gc.disable()
left = [Resampler(8000, 16000)]
left.append(left)
del left
sys.argv = ["cotrans", "info", "nothing.npy"]
main()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == INPUT
    assert ended.stderr.startswith("cotrans: error: ") and len(ended.stderr.splitlines()) == 1, ended.stderr
