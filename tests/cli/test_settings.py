"""The user's config.toml: defaults that options on the command line win over."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotrans_cli.main import run
from pipelines.settings import cache_dir, load_settings


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.toml"
    monkeypatch.setenv("COTRANS_CONFIG", str(path))
    monkeypatch.delenv("COTRANS_CACHE", raising=False)
    return path


def test_device_is_the_default_of_every_command(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text('device = "cuda"\n')
    model = "sound-events"
    clip = str(Path(__file__).resolve().parents[2] / "weights/demo/demo.ogg")
    commands = (
        ["extract", clip, "--features", "logmel", "--out", str(config.parent / "features")],
        ["stream", clip, "--model", model, "--fast"],
        ["evaluate", "--dataset", "folder", "--root", str(config.parent), "--checkpoint", model],
    )
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    for command in commands:
        assert run(command) == 6, command
        assert "--device cuda: PyTorch sees no GPU here" in capsys.readouterr().err
        assert run([*command, "--device", "cpu"]) != 6, command
        capsys.readouterr()


def test_threads_cache_and_model(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    config.write_text(f'threads = 2\ncache = "{config.parent / "kept"}"\ndefault_model = "music-genre"\n')
    assert cache_dir() == config.parent / "kept"
    assert load_settings().default_model == "music-genre"
    before = torch.get_num_threads()
    try:
        clip = str(Path(__file__).resolve().parents[2] / "weights/demo/demo.ogg")
        wrong = ["stream", clip, "--labels", "one,two"]  # seen when the model is loaded
        assert run(wrong) == 2
        assert torch.get_num_threads() == 2
        assert run([*wrong, "--threads", "1"]) == 2
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("thread = 2", "did you mean 'threads'?"),
        ("threads = 0", "threads must be a positive whole number"),
        ('device = "gpu"', "device must be auto, cpu or cuda"),
        ("threads = ", "config.toml"),
    ],
)
def test_mistakes_are_one_line(config: Path, text: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(text)
    assert run(["models"]) == 4
    error = capsys.readouterr().err
    assert says in error and str(config) in error and error.count("\n") == 1
