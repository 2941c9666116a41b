"""`cotrans data inspect` shows what is there."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cotrans_cli import main
from cotrans_cli.commands import data
from pipelines.datasets.opening import open_dataset
from pipelines.datasets.report import describe
from pipelines.errors import InputError
from tests.datasets.dataset_builders import write_features, write_sound, write_thumos_lstr


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    data.app(args=["inspect", *arguments], standalone_mode=False)
    return capsys.readouterr().out


def test_clips(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        write_sound(tmp_path / f"train/cat/{number}.wav", seconds=0.5)
        write_sound(tmp_path / f"test/dog/{number}.wav", seconds=0.5)
    text = run(capsys, "--dataset", "folder", "--root", str(tmp_path))
    lines = [line.split() for line in text.splitlines()]
    assert lines[0] == f"folder: 2 classes, clips labelled, in {tmp_path}".split()
    assert ["train", "3", "0.00", "-", "0"] in lines and ["cat", "3", "0"] in lines and ["dog", "0", "3"] in lines
    assert "labels without a training clip: dog" in text
    value = json.loads(run(capsys, "--dataset", "folder", "--root", str(tmp_path), "--json"))
    assert value["splits"]["test"]["per_class"] == {"cat": 0, "dog": 3}
    assert value["splits"]["train"]["hours"] == pytest.approx(1.5 / 3600, abs=1e-4)


def test_a_folder_alone_is_data_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("cat/0.wav", "cat/1.wav", "dog/0.wav", "dog/1.wav"):
        write_sound(tmp_path / name, seconds=0.5)
    assert run(capsys, str(tmp_path)) == run(capsys, "--dataset", "folder", "--root", str(tmp_path))
    assert "cotrans data inspect clips/" in refused(capsys)
    assert "the folder is given twice" in refused(capsys, str(tmp_path), "--root", str(tmp_path))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main.run(["data", "inspect", *arguments]) == 2
    return capsys.readouterr().err


def test_frames_per_class(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = write_thumos_lstr(tmp_path, {"rgb": 6, "flow": 3})
    value = json.loads(run(capsys, "--dataset", "thumos14", "--root", str(tmp_path), "--json"))
    for split, videos in expected.items():
        counts = sum(array.sum(axis=0) for array in videos.values())
        assert list(value["splits"][split]["per_class"].values()) == counts.tolist()
        assert value["splits"][split]["ambiguous"] == counts[21]
        assert value["splits"][split]["frames"] == sum(map(len, videos.values()))
    assert value["features"] == "9 wide (6 + 3)" and value["hop"] == 0.25
    shown = run(capsys, "--dataset", "thumos14", "--root", str(tmp_path))
    assert "Ambiguous" in shown and "counted every 0.25 s (--hop, if the features have another)" in shown
    assert "\n\nproblems: " in shown


def test_hop_says_how_long_feature_rows_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    videos = write_thumos_lstr(tmp_path, {"rgb": 6})["train"].values()
    value = json.loads(run(capsys, "--dataset", "thumos14", "--root", str(tmp_path), "--hop", "36", "--json"))
    assert value["hop"] == 36 and value["splits"]["train"]["hours"] == pytest.approx(sum(map(len, videos)) / 100)


def test_what_does_not_fit_is_a_problem_and_the_rest_is_counted(tmp_path: Path) -> None:
    write_thumos_lstr(tmp_path, {"rgb": 6})
    dataset = open_dataset("thumos14", tmp_path)
    long, wide = dataset.items[0], dataset.items[1]
    write_features(long.features[0], 99, 6)
    write_features(wide.features[0], len(np.load(wide.targets)), 7)  # type: ignore[arg-type]
    report = describe(dataset)
    assert report.splits["train"].items == 1 and report.splits["test"].items == 2
    assert any(f"{long.name}: 99 feature rows and 30 labelled frames" in problem for problem in report.problems)
    assert any("features of different widths" in problem for problem in report.problems)


def test_decoding_finds_what_headers_hide(tmp_path: Path) -> None:
    for number in range(3):
        write_sound(tmp_path / f"cat/{number}.flac", seconds=3, seed=number)
    path = tmp_path / "cat/1.flac"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    dataset = open_dataset("folder", tmp_path)
    seen: list[tuple[int, int]] = []
    assert describe(dataset).problems == ()
    problems = describe(dataset, decode=True, progress=lambda done, total: seen.append((done, total))).problems
    assert len(problems) == 1 and "1.flac" in problems[0] and seen == [(1, 3), (2, 3), (3, 3)]


def test_reading_everything_finds_nan_in_features(tmp_path: Path) -> None:
    for number in range(2):
        rows = np.load(write_features(tmp_path / f"cat/{number}.npy", 5000, 2))
        rows[4200 * number, 1] = np.nan if number else 0.0
        np.save(tmp_path / f"cat/{number}.npy", rows)
    dataset = open_dataset("folder", tmp_path)
    assert describe(dataset).problems == ()
    (problem,) = describe(dataset, decode=True).problems
    assert problem.startswith("cat/1: NaN or infinity in feature row 4200")


def test_a_missing_root_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the folder .* does not exist") as caught:
        data.app(args=["inspect", "--dataset", "gtzan", "--root", str(tmp_path / "x")], standalone_mode=False)
    assert caught.value.exit_code == 3


@pytest.mark.shared
def test_the_real_numbers_of_thumos14(shared_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = json.loads(run(capsys, "--dataset", "thumos14", "--root", str(shared_dir / "thumos14"), "--json"))
    assert [value["splits"][split]["items"] for split in ("train", "test")] == [200, 213]
    assert [value["splits"][split]["frames"] for split in ("train", "test")] == [203_363, 225_222]
    assert value["splits"]["test"]["per_class"]["PoleVault"] == 13_860
