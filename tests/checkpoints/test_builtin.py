"""Models by name, by file and by the folder of a run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.checkpoints.builtin import builtin_models, builtin_names, find_model
from pipelines.checkpoints.checkpoint import read_header
from pipelines.errors import InputError, UsageError


def test_names_files_and_runs(tmp_path: Path) -> None:
    names = builtin_names()
    assert {"music-genre", "sound-events", "spoken-digits"} <= set(names)
    path = find_model("sound-events")
    assert find_model(path) == path and path.stem == "sound-events"
    best = tmp_path / "best.safetensors"
    best.write_bytes(path.read_bytes())
    assert find_model(tmp_path) == best
    assert find_model(str(best)) == best


def test_built_in_models_say_what_they_are() -> None:
    """Small, with names for their classes and the features that they take."""
    for model in builtin_models():
        assert model.size < 8_000_000
        header = read_header(model.path)
        assert model.features is not None and model.features == header.features
        assert model.class_names == header.class_names and model.window == header.config.window
        assert len(set(model.class_names)) == header.config.classes
        assert "recipe" in header.provenance or "source" in header.provenance  # trained here, or taken from elsewhere


def test_listing_models_needs_no_torch() -> None:
    script = "import sys; from cotrans_cli.main import run; run(['models', '--json']); sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [model["name"] for model in json.loads(done.stdout)] == builtin_names()


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is a folder without a best\.safetensors"):
        find_model(tmp_path)
    with pytest.raises(UsageError, match="did you mean 'sound-events'"):
        find_model("sound_event")
    for missing in ("sound-events.pth", "runs/mine", tmp_path / "nothing"):
        with pytest.raises(InputError, match="there is no model file"):
            find_model(missing)
