"""What `cotrans evaluate` is told: models, datasets, and one line for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_evaluate import Output, evaluate, mistake
from tests.evaluation.evaluation_problems import write_clips, write_model


@pytest.fixture(autouse=True)
def no_data_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTRANS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("COTRANS_DATA", raising=False)


def test_an_unknown_dataset_is_named_before_a_model_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    code, line = mistake(capsys, "--dataset", "imagenet")
    assert code == 2 and "there is no dataset 'imagenet'" in line and "gtzan" in line


def test_a_model_is_an_argument_or_an_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "no.safetensors"
    for arguments in ((str(missing),), ("--model", str(missing)), ("-m", str(missing)), ("--checkpoint", str(missing))):
        code, line = mistake(capsys, *arguments, "--dataset", "folder", "--root", str(tmp_path))
        assert code == 3 and "no.safetensors" in line


def test_the_folder_of_a_run_knows_its_data(tmp_path: Path, capsys: Output) -> None:
    root = write_clips(tmp_path / "clips")
    (tmp_path / "run").mkdir()
    write_model(tmp_path / "run" / "best.safetensors")
    (tmp_path / "run" / "config.toml").write_text(f'[data]\ndataset = "folder"\nroot = "{root}"\n')
    other = write_model(tmp_path / "m.safetensors")
    assert evaluate("--dataset", "folder", "--root", root, "-c", tmp_path / "run", "--csv", "--on", "all") == 0
    named = capsys.readouterr().out
    assert evaluate(tmp_path / "run", "--csv", "--on", "all") == 0
    said = capsys.readouterr()
    assert f"scored on what the run was trained for: --dataset folder --root {root}" in said.err
    assert _scores(said.out) == _scores(named) and len(named.splitlines()) == 2
    assert evaluate(f"mine={tmp_path / 'run'}", "--on", "all", "--quiet") == 0
    assert capsys.readouterr().err == ""
    root.rename(tmp_path / "moved")  # or the run was started in another folder
    code, line = mistake(capsys, str(tmp_path / "run"))
    assert code == 3 and f"was trained on {root}, which is not here: say with --root where it is" in line
    assert evaluate(tmp_path / "run", "--csv", "--on", "all", "--root", tmp_path / "moved") == 0
    assert _scores(capsys.readouterr().out) == _scores(named)
    for models in ((), (other,), (tmp_path / "run", other)):
        code, line = mistake(capsys, *models)
        assert code == 2 and line.endswith("the folder of a run knows its own")
    code, line = mistake(capsys, tmp_path)
    assert code == 3 and f"{tmp_path} is not the folder of a training run" in line


def _scores(table: str) -> list[list[str]]:
    """Name, accuracy and its interval of each model; what is measured differs from run to run."""
    return [line.split(",")[:6] for line in table.splitlines()]


def test_mistakes_are_one_line(tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_clips(tmp_path / "clips")
    model = write_model(tmp_path / "m.safetensors")
    folder = ("--dataset", "folder", "--root", root)
    for arguments, code, words in (
        (("--dataset", "folder", "-c", model), 2, "dataset folder: give its folder with --root"),
        (("--dataset", "folder", "--root", tmp_path / "no", "-c", model), 3, "does not exist"),
        (("--dataset", "foldr", "--root", root, "-c", model), 2, "did you mean 'folder'?"),
        (folder, 2, "which model? --model names a file or the folder of a run"),
        ((*folder, "-c", tmp_path / "no.safetensors"), 3, "no.safetensors"),
        ((*folder, "-c", tmp_path), 3, "is not the folder of a training run"),
        ((*folder, "-c", model, "-c", model), 2, "the same model twice"),
        ((*folder, "-c", model, "--on", "validation"), 3, "the split 'validation' has no items; there are: train (12)"),
        ((*folder, "-c", model, "--split", "validation"), 3, "the split 'validation' has no items"),
        ((*folder, "-c", model, "--on", "dev"), 2, "there is no part 'dev'"),
        ((*folder, "-c", model, "--split", "all", "--on", "test"), 2, "--split all and --on test contradict"),
        ((*folder, "-c", model, "--on", "all", "--baseline"), 2, "leave --on all out, or --baseline"),
        ((*folder, "-c", model, "--on", "train", "--baseline"), 2, "the training recordings, which are among"),
        ((*folder, "-c", model, "--protocol", "lstr"), 2, "leave --protocol out"),
        ((*folder, "-c", model, "--features", "logmel", "--feature-dir", root), 2, "give one of them"),
        ((*folder, "-c", model, "--features", "logmel"), 3, "there is no media"),
        ((*folder, "-c", model, "--save", "p.txt"), 2, "ends in .npz"),
        ((*folder, "-c", model, "--plot", "p.txt"), 2, "ends in .png"),
        ((*folder, "-c", model, "--plot-kind", "macs"), 2, "add --plot FILE"),
        ((*folder, "-c", model, "--weights", "x"), 2, "none are extracted: leave it out"),
        ((*folder, "-c", model, "--data", "speed=2"), 2, "dataset folder has no option --speed"),
        ((*folder, "--predictions", "p.npz", "-c", model), 2, "leave --root, --checkpoint out"),
        (
            (model, "--dataset", "folder", "--predictions", "p.npz", "--report", "r.html"),
            2,
            "scores a file's answers, without model or recordings: leave [NAME=]MODEL, --report out",
        ),
        *(
            ((*folder, "-c", model, option, model / name), 3, f"{option}: cannot write to {model / name}")
            for option, name in (("--save", "p.npz"), ("--plot", "p.png"), ("--report", "p.html"))
        ),
        ((*folder, "-c", model, "--foreign", "nowhere"), 3, "--foreign: nowhere is not there: name a folder"),
        (("nowhere",), 2, "there is no model file and no built-in model 'nowhere'"),
        ((*folder, "-c", model, "--device", "tpu"), 2, "unknown device 'tpu'"),
        ((*folder, "-c", model, "--mode", "fast"), 2, "--mode"),
    ):
        ended, line = mistake(capsys, *arguments)
        assert ended == code and words in line, (arguments, line)
    wide = write_model(tmp_path / "wide.safetensors", input_width=7)
    code, line = mistake(capsys, *folder, "-c", wide)
    assert code == 4 and str(wide) in line and "5 numbers per row, but the model takes 7" in line
    birds = write_model(tmp_path / "birds.safetensors", ("cat", "dog", "wren"))
    code, line = mistake(capsys, *folder, "-c", birds)
    assert code == 4 and "the model does not know owl, of dataset folder; its classes are cat, dog, wren" in line
    two = write_model(tmp_path / "two.safetensors", ("cat", "dog"))
    assert "the model does not know owl" in mistake(capsys, *folder, "-c", two)[1]
    monkeypatch.setenv("COTRANS_DATA", str(root))
    assert evaluate("--dataset", "folder", "-c", model, "--quiet") == 0
    assert capsys.readouterr().err == ""
