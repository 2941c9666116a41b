"""Models by name, by file and by the folder of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.checkpoints.builtin import builtin_models, builtin_names, find_model
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
        assert model.header.features is not None
        assert len(set(model.header.class_names)) == model.header.config.classes
        assert "recipe" in model.header.provenance


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is a folder without a best\.safetensors"):
        find_model(tmp_path)
    with pytest.raises(UsageError, match="did you mean 'sound-events'"):
        find_model("sound_event")
    for missing in ("sound-events.pth", "runs/mine", tmp_path / "nothing"):
        with pytest.raises(InputError, match="there is no model file"):
            find_model(missing)
