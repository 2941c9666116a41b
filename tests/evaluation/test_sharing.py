"""An evaluation in shares: joined, they are the evaluation of one run, number for number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cotrans_cli.main import run
from pipelines.errors import InputError
from pipelines.evaluation.comparison import ComparisonOptions
from pipelines.evaluation.data.contenders import find_contenders
from pipelines.evaluation.data.data_request import parse_request
from pipelines.evaluation.sharing.part import read_part, write_part
from pipelines.evaluation.sharing.share import run_share
from pipelines.running.runner import MODES, Mode, Run, join_runs, run_model
from pipelines.shard import Shard
from tests.datasets.dataset_builders import write_thumos_lstr
from tests.evaluation.evaluation_problems import write_clips, write_model
from tests.running.test_runner import build, streams

Output = pytest.CaptureFixture[str]
TIMES = ("frames_per_second", "step_us_median", "step_us_p95", "real_time_factor")


def without_times(value: Any) -> Any:
    """JSON without what every run measures anew."""
    if isinstance(value, dict):
        return {key: without_times(each) for key, each in value.items() if key not in TIMES}
    return [without_times(each) for each in value] if isinstance(value, list) else value


def assert_same_run(one: Run, other: Run) -> None:
    assert list(one.outputs) == list(other.outputs) and one.frames == other.frames
    for name, output in one.outputs.items():
        same = other.outputs[name]
        assert output.logits.dtype == same.logits.dtype and (output.logits == same.logits).all()
        assert (output.late is None) == (same.late is None)
        if output.late is not None and same.late is not None:
            assert (output.late.logits == same.late.logits).all()


@settings(deadline=None, max_examples=10)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.integers(1, 5), st.sampled_from(MODES))
def test_shares_of_a_run_are_the_run(lengths: list[int], count: int, mode: Mode) -> None:
    """Bit for bit: recordings that run side by side in one run do so in a share."""
    model, recordings = build(lag=2), streams(tuple(lengths))
    names = [recording.name for recording in recordings]
    shares = [run_model(model, recordings, mode, shard=Shard(number, count)) for number in range(1, count + 1)]
    assert_same_run(join_runs(shares, names), run_model(model, recordings, mode))


def test_shares_of_different_runs_do_not_join() -> None:
    model, recordings = build(), streams((3, 4))
    whole = run_model(model, recordings, "stream")
    with pytest.raises(InputError, match="same recording is in several shares"):
        join_runs([whole, whole], ["video 0", "video 1"])
    with pytest.raises(InputError, match="no share of the run has video 2"):
        join_runs([whole], ["video 0", "video 1", "video 2"])


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    write_clips(tmp_path / "clips", train=1, test=22, rows=5)  # 66: more than run side by side
    write_model(tmp_path / "one.safetensors")
    write_model(tmp_path / "two.safetensors", seed=1, lag=2)
    np.save(tmp_path / "clips/test/cat/cat0.npy", np.full((4, 5), np.nan, np.float32))
    return tmp_path


def evaluate(*arguments: object) -> int:
    return run(["evaluate", *map(str, arguments)])


def clip_arguments(folder: Path) -> list[object]:
    model = folder / "two.safetensors"
    return ["--dataset", "folder", "--root", folder / "clips", "--model", model, "--mode", "all", "--quiet"]


def test_joined_parts_are_the_table_of_one_run(clips: Path, capsys: Output) -> None:
    """In three modes, with a lag; a broken recording; shares that have nothing to do."""
    common = clip_arguments(clips)
    assert evaluate(*common, "--json") == 0
    whole = json.loads(capsys.readouterr().out)
    parts = {number: clips / f"part{number}.json" for number in (3, 1, 2)}
    for number, part in parts.items():
        assert evaluate(*common, "--shard", f"{number}/3", "--out", part) == 0
    capsys.readouterr()
    assert [len(run.outputs) for run in read_part(parts[3]).contenders[0].files[0].runs] == [22, 0, 18]
    assert evaluate("--merge", *parts.values(), "--json", "--save", clips / "merged.npz") == 0
    assert without_times(json.loads(capsys.readouterr().out)) == without_times(whole)
    assert whole["damaged"] and (clips / "merged.npz").is_file()


def test_joined_frames_with_everything_that_is_fitted(tmp_path: Path, golden_dir: Path, capsys: Output) -> None:
    """A model with a decoder, references that are fitted to the training part, and the detail of detections."""
    root = tmp_path / "thumos"
    write_thumos_lstr(root, {"rgb": 24, "flow": 12})
    common = ["--dataset", "thumos14", "--root", root, golden_dir / "oadtr_decoder.pth", "--detail", "--quiet"]
    assert evaluate(*common, "--json") == 0
    whole = json.loads(capsys.readouterr().out)
    assert whole["references"] and whole["anticipation"]
    for number in (1, 2):
        assert evaluate(*common, "--shard", f"{number}/2", "--out", tmp_path / f"{number}.json") == 0
    assert evaluate("--merge", tmp_path / "1.json", tmp_path / "2.json", "--json", "--quiet") == 0
    assert without_times(json.loads(capsys.readouterr().out)) == without_times(whole)


def mistake(capsys: Output, *arguments: object) -> str:
    assert evaluate(*arguments) in (2, 3)
    (line,) = capsys.readouterr().err.splitlines()
    return str(line).removeprefix("cotrans: error: ")


def test_parts_that_are_not_one_run(clips: Path, capsys: Output) -> None:
    common = ["--dataset", "folder", "--root", clips / "clips", "--quiet", "--model", clips / "one.safetensors"]
    first, second = clips / "1.json", clips / "2.json"
    for number, part in ((1, first), (2, second)):
        assert evaluate(*common, "--shard", f"{number}/2", "--out", part) == 0
    assert "the part of share 2/2 is missing: run it with --shard 2/2" in mistake(capsys, "--merge", first)
    assert "1.json is given twice" in mistake(capsys, "--merge", first, first)
    again = clips / "again.json"
    again.write_bytes(first.read_bytes())
    assert "are both share 1/2: give each share once" in mistake(capsys, "--merge", first, again, second)
    assert evaluate(*common, "--shard", "2/3", "--out", again) == 0
    assert "one of 2 shares" in mistake(capsys, "--merge", first, again)
    assert evaluate(*common, "--bootstrap", "7", "--shard", "2/2", "--out", again) == 0
    assert "was made with other options" in mistake(capsys, "--merge", first, again)
    assert evaluate(*common[:-1], f"one={clips / 'two.safetensors'}", "--shard", "2/2", "--out", again) == 0
    assert "its model one is another file" in mistake(capsys, "--merge", first, again)
    assert evaluate(*common[:-1], clips / "two.safetensors", "--shard", "2/2", "--out", again) == 0
    assert "is of other models" in mistake(capsys, "--merge", first, again)
    (clips / "clips/test/dog/dog3.npy").unlink()
    assert evaluate(*common, "--shard", "2/2", "--out", again) == 0
    assert "is of other data" in mistake(capsys, "--merge", first, again)
    assert "have changed since the parts were made" in mistake(capsys, "--merge", first, second)


def test_options_that_do_not_go_together(clips: Path, capsys: Output) -> None:
    common = ["--dataset", "folder", "--root", clips / "clips", "--model", clips / "one.safetensors"]
    share = ("--shard", "1/2", "--out", clips / "part.json")
    assert "go together" in mistake(capsys, *common, "--shard", "1/2")
    assert "go together" in mistake(capsys, *common, "--out", clips / "part.json")
    assert "leave --csv out" in mistake(capsys, *common, *share, "--csv")
    assert "--shard 0/3: there is no such share" in mistake(
        capsys, *common, "--shard", "0/3", "--out", clips / "part.json"
    )
    assert "would overwrite" in mistake(capsys, *common, "--shard", "1/2", "--out", clips / "one.safetensors")
    assert "leave --dataset, --model out" in mistake(capsys, "--merge", "part.json", "--dataset", "gtzan", "-m", "x")
    assert "--merge: name the parts" in mistake(capsys, "--merge")
    assert "which dataset?" in mistake(capsys, "--model", clips / "one.safetensors")
    assert "there is no model file and no built-in model 'x'" in mistake(capsys, "--model", "x")


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.data())
def test_a_damaged_part_is_one_line(clips: Path, data: st.DataObject) -> None:
    """Read back as it was, or refused: whatever of it is replaced."""
    path = clips / "part.json"
    if not path.exists():
        request = parse_request("folder", clips / "clips", None, {}, None, [], [], None)
        contenders = find_contenders([str(clips / "two.safetensors")], "folder")
        write_part(path, run_share(contenders, request, ComparisonOptions(), Shard(1, 2)))
    whole = read_part(path)
    write_part(clips / "again.json", whole)
    assert (clips / "again.json").read_bytes() == path.read_bytes()
    value = json.loads(path.read_text())
    place: Any = value
    while isinstance(place, dict | list) and place:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            place[key] = data.draw(st.sampled_from([None, -1, "x", [], {}, [[]], 1e400, "9" * 50]))
            break
        place = place[key]
    (clips / "damaged.json").write_text(json.dumps(value))
    try:
        read_part(clips / "damaged.json")
    except InputError as error:
        assert str(error).startswith(str(clips / "damaged.json")) and "\n" not in str(error)
