"""What was typed wrongly is named as it was typed, with what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotrans_cli.main import run


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("evaluate --dataset gtzan --mode foo", "unknown --mode 'foo': choose from stream, chunk, window, all"),
        ("convert x.pth --mode foo", "unknown --mode 'foo': choose from exact, recycling"),
        ("flops --norm foo", "unknown --norm 'foo': choose from pre, post"),
        ("train --window many", "--window must be a whole number"),
        ("train --dropout much", "--dropout must be a number"),
        ("train --learning-rate -1", "--learning-rate must be above 0, not -1.0"),
        ("train --sampling foo", "--sampling must be one of auto, chunk, shared, window, not 'foo'"),
        ("train --set optimizer.learning_rate=-1", "optimizer.learning_rate must be above 0, not -1.0"),
        ("strem x.wav", "No such command 'strem'. Did you mean 'stream'?"),
        ("weights get nope", "no weights are called 'nope' (`cotrans weights list` shows the names)"),
    ],
)
def test_what_was_typed_is_named(
    arguments: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(arguments.split()) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"cotrans: error: {said}")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [("flops --sweep", "cotrans flops"), ("--debug data get --root", "cotrans data get"), ("--nothing", "cotrans")],
)
def test_the_help_of_the_command_that_was_typed_is_named(
    arguments: str, named: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COTRANS_DEBUG", "")
    assert run(arguments.split()) == 2
    assert f"(see '{named} --help')" in capsys.readouterr().err


def test_a_file_whose_name_begins_with_a_dash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-a.wav").write_bytes(b"")
    assert run(["stream", "-a.wav", "--fast"]) == 2
    assert capsys.readouterr().err.startswith(
        "cotrans: error: -a.wav reads like options: write ./-a.wav for the file (see"
    )
    for named in (["./-a.wav"], ["--", "-a.wav"]):
        assert run(["stream", *named]) == 3
        assert "-a.wav: the file is empty" in capsys.readouterr().err
    assert run(["stream", "-b.wav"]) == 2
    assert "No such option" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", ["convert m.pth --out there", "train --dataset folder --out runs"])
def test_an_output_that_exists_is_refused_before_anything_is_read(
    arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither the model nor the dataset exists: that would be the next thing to be told."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").write_text("")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/best.safetensors").write_text("")
    assert run(arguments.split()) == 2
    assert "already" in capsys.readouterr().err
