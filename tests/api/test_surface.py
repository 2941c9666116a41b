"""The public surface: every name, lazily; plain arguments in, frozen results out; nothing printed."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cotrans
import pipelines
from pipelines.errors import CheckpointError, UsageError
from tests.evaluation.evaluation_problems import LABELS, WIDTH, write_clips, write_model
from tests.streaming.made_streams import write_sound

ROOT = Path(__file__).resolve().parents[2]
NAMES = (
    *("open_model", "open_stream", "ContinualTransformer", "ModelConfig", "load_checkpoint", "save_checkpoint"),
    *("convert", "extract", "train", "evaluate", "open_dataset", "CotransError"),
)
SMALL = {"training.epochs": 1, "training.batch_size": 6, "model.window": 6, "model.width": 8, "model.heads": 2}
Output = pytest.CaptureFixture[str]


def test_importing_imports_no_torch() -> None:
    script = (
        "import sys, pipelines, cotrans\n"
        "assert not {'torch', 'numpy', 'pandas', 'rich', 'typer'} & set(sys.modules), sorted(sys.modules)\n"
        f"assert set({NAMES!r}) <= set(dir(cotrans)) and dir(cotrans) == dir(pipelines)\n"
        "from pipelines import CotransError\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_both_modules_have_the_name_and_it_explains_itself(name: str) -> None:
    assert getattr(cotrans, name) is getattr(pipelines, name)
    assert (inspect.getdoc(getattr(pipelines, name)) or "").endswith(".")


@pytest.mark.parametrize("name", ["open_model", "open_stream", "train", "evaluate"])
def test_help_of_the_most_used_names_shows_how(name: str) -> None:
    text = inspect.getdoc(getattr(cotrans, name)) or ""
    assert f"{name}(" in text and len(text.splitlines()) > 8


def test_an_unknown_name_is_an_attribute_error() -> None:
    for module in (cotrans, pipelines):
        with pytest.raises(AttributeError, match="no attribute 'open_modle'"):
            module.open_modle  # type: ignore[attr-defined]


def test_the_page_shows_every_name() -> None:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    shown = "".join(part.partition("```")[0] for part in page.split("```python\n")[1:])
    assert not [name for name in NAMES if name not in shown]


def test_types_are_shipped() -> None:
    assert (ROOT / "pipelines" / "py.typed").is_file()


def test_from_clips_to_a_frame(tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTRANS_CACHE", str(tmp_path / "cache"))
    root, seen = write_clips(tmp_path / "clips"), []
    data = cotrans.open_dataset("folder", str(root))
    frame = data.to_frame()
    assert list(frame.columns) == ["name", "split", "label", "media", "features", "seconds"]
    assert set(frame["label"]) == set(LABELS) and len(frame) == len(data.items)
    run: Any = cotrans.train("folder", root, tmp_path / "run", settings=SMALL, on_progress=seen.append)
    assert {progress.stage for progress in seen} == {"training"} and seen[-1].fraction == 1.0
    assert len(run.history()) == 1 and run.history()["train_loss"][0] > 0
    result = cotrans.evaluate(tmp_path / "run", "folder", root, on="test", on_progress=seen.append)
    assert seen[-1].stage == "evaluation" and result.metric == "accuracy"
    table = result.to_frame()
    assert table["score"][0] == result.score and table["step_macs"][0] > 0
    table.to_csv(tmp_path / "table.csv", index=False)
    assert (tmp_path / "table.csv").read_text().startswith("model,score,")
    model = cotrans.open_model(tmp_path / "run" / "best.safetensors")
    with cotrans.open_stream(str(root / "test" / "cat" / "cat0.npy"), model, fast=True) as stream:
        heard = stream.to_frame()
    assert len(heard) == 10 and list(heard.columns)[-3:] == list(LABELS)
    np.testing.assert_allclose(heard[list(LABELS)].sum(axis=1), 1.0)
    for value in (data, run, result, seen[0]):
        with pytest.raises(dataclasses.FrozenInstanceError):
            value.anything = 1  # type: ignore[union-attr]
    printed = capsys.readouterr()
    assert printed.out == printed.err == ""


def test_extract_and_convert(tmp_path: Path, golden_dir: Path, capsys: Output) -> None:
    clip, seen = write_sound(tmp_path / "a.wav", 1.0), []
    summary = cotrans.extract(clip, tmp_path / "features", "logmel", hop=0.1, on_progress=seen.append)
    assert summary.ok and summary.rows == 10 and seen[-1].fraction == 1.0
    assert np.load(tmp_path / "features" / "a.npy").shape == (10, 192)
    out = tmp_path / "m.safetensors"
    converted = cotrans.convert(golden_dir / "oadtr_b1.pth", out, class_token=False, on_progress=seen.append)
    assert converted.output == out and seen[-1].stage == "proof" and converted.proof.holds
    assert cotrans.load_checkpoint(str(out)).config == converted.config
    with pytest.raises(cotrans.CotransError):
        cotrans.convert(clip)
    printed = capsys.readouterr()
    assert printed.out == printed.err == ""


def test_mistakes_are_the_same_as_on_the_command_line(tmp_path: Path) -> None:
    root, model = write_clips(tmp_path / "clips"), write_model(tmp_path / "m.safetensors")
    with pytest.raises(UsageError, match="unknown mode 'strem'"):
        cotrans.evaluate(model, "folder", root, mode="strem")
    with pytest.raises(UsageError, match="has no option --colour"):
        cotrans.evaluate(model, "folder", root, colour="red")
    with pytest.raises(UsageError, match="epochs must be at least 1"):
        cotrans.train("folder", root, tmp_path / "run", settings={"training.epochs": 0})
    with pytest.raises(CheckpointError):
        cotrans.load_checkpoint(root / "test" / "cat" / "cat0.npy")
    with pytest.raises(UsageError):
        cotrans.extract(root, tmp_path / "f", f"logmel+logmel+{WIDTH}")
