"""`stream --model FILE.onnx` gives the answers of the checkpoint that it was exported from."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pipelines.errors import CheckpointError, CotransError, InputError, NonFiniteInputError, UsageError
from pipelines.exporting.exporter import ExportOptions, export_model
from pipelines.streaming import StreamModel, StreamSession, open_model
from tests.streaming.made_streams import WIDTH, played, scores_of, write_model, write_rows, write_sound
from tests.streaming.test_snapshots import broken_off


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[StreamModel, StreamModel]:
    """A checkpoint, and the same model exported."""
    folder = tmp_path_factory.mktemp("models")
    path = write_model(folder / "rows.safetensors")
    return open_model(path), open_model(export_model(path, folder / "rows.onnx").path)


def test_sources_of_a_batch_get_the_same_answers(models: tuple[StreamModel, StreamModel], tmp_path: Path) -> None:
    lengths = (40, 23, 31)
    files = [tmp_path / f"{length}.npy" for length in lengths]
    for seed, (file, length) in enumerate(zip(files, lengths, strict=True)):
        write_rows(file, length, seed)
    for at_once in (1, 3):
        theirs, ours = (played(files, model, at_once=at_once) for model in models)
        for number, length in enumerate(lengths):
            assert len(scores_of(ours, number)) == length
            np.testing.assert_allclose(scores_of(ours, number), scores_of(theirs, number), rtol=1e-4, atol=1e-5)
        assert [prediction.label for prediction in ours if prediction.source_number == 0] == [
            prediction.label for prediction in theirs if prediction.source_number == 0
        ]


def test_rows_that_pause_and_restart_keep_their_own_state(models: tuple[StreamModel, StreamModel]) -> None:
    tokens = np.random.default_rng(0).normal(size=(20, 2, WIDTH)).astype(np.float32)
    sessions = [StreamSession(model.model, 2) for model in models]
    for number, token in enumerate(tokens):
        given = {row: token[row] for row in range(2) if row == 0 or number % 3}
        if number == 12:
            for session in sessions:
                session.restart([0])
        theirs, ours = (session.step(given) for session in sessions)
        for row in given:
            np.testing.assert_allclose(ours[row], theirs[row], rtol=1e-4, atol=1e-5)
    assert [session.seen(0) for session in sessions] == [8, 8]


def test_what_is_not_a_number_changes_no_state(models: tuple[StreamModel, StreamModel]) -> None:
    session = StreamSession(models[1].model, 2)
    good = np.ones(WIDTH, np.float32)
    first = session.step({0: good, 1: good})
    with pytest.raises(NonFiniteInputError) as caught:
        session.step({0: good, 1: np.full(WIDTH, np.nan, np.float32)})
    assert caught.value.rows == [1]
    other = StreamSession(models[1].model, 2)
    assert np.array_equal(other.step({0: good, 1: good})[0], first[0])
    assert np.array_equal(other.step({0: good, 1: good})[1], session.step({0: good, 1: good})[1])


def test_the_command_needs_no_torch(tmp_path: Path) -> None:
    """Features that are made of sound without a network, and rows that were made before."""
    path = write_model(tmp_path / "sound.safetensors", "logmel")
    exported = export_model(path, tmp_path / "sound.onnx").path
    write_sound(tmp_path / "sound.wav")
    script = (
        "import sys\n"
        "from cotrans_cli.main import run\n"
        "assert run(sys.argv[1:]) == 0\n"
        "heavy = {'torch', 'librosa', 'scipy', 'pandas', 'matplotlib', 'onnx', 'cv2'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    words = ["stream", "sound.wav", "--model", str(exported), "--fast", "--threads", "1", "--out", "labels.jsonl"]
    done = subprocess.run([sys.executable, "-c", script, *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "labels.jsonl").read_text().splitlines()]
    theirs = played([tmp_path / "sound.wav"], open_model(path))
    assert [line["label"] for line in lines] == [prediction.label for prediction in theirs]
    np.testing.assert_allclose(
        [line["score"] for line in lines], [prediction.score for prediction in theirs], atol=1e-5
    )


def test_a_stream_that_was_broken_off_goes_on(models: tuple[StreamModel, StreamModel], tmp_path: Path) -> None:
    files = [tmp_path / "a.npy", tmp_path / "b.npy"]
    for seed, file in enumerate(files):
        write_rows(file, 30 + 7 * seed, seed)
    whole = played(files, models[0], at_once=2)
    before, after = broken_off(files, models[1], tmp_path / "state", 25, at_once=2)
    for number in range(2):
        later = [prediction for prediction in after if prediction.source_number == number]
        first = later[0].index
        joined = [prediction for prediction in before if prediction.source_number == number][:first] + later
        assert [prediction.index for prediction in joined] == list(range(30 + 7 * number))
        np.testing.assert_allclose(scores_of(joined, number), scores_of(whole, number), rtol=1e-4, atol=1e-5)
    assert any(prediction.index > 0 for prediction in after)


def test_a_snapshot_belongs_to_the_exported_model_or_to_its_checkpoint(tmp_path: Path) -> None:
    """Two blocks: the checkpoint's state has sums that the graph computes anew."""
    path = write_model(tmp_path / "rows.safetensors", blocks=2)
    theirs, ours = open_model(path), open_model(export_model(path, tmp_path / "rows.onnx").path)
    write_rows(tmp_path / "a.npy", 12)
    for maker, other in ((theirs, ours), (ours, theirs)):
        played([tmp_path / "a.npy"], maker, snapshot=tmp_path / "state")
        assert played([tmp_path / "a.npy"], maker, resume=tmp_path / "state") == []
        with pytest.raises(CheckpointError, match="or by the exported model instead of the checkpoint") as caught:
            played([tmp_path / "a.npy"], other, resume=tmp_path / "state")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("seconds", [2.0, 0.73, 0.01])
def test_features_inside_of_the_graph(tmp_path: Path, seconds: float) -> None:
    """Sound in, answers out: those of the checkpoint with its extractor, row by row, also from a snapshot."""
    path = write_model(tmp_path / "sound.safetensors", "logmel")
    theirs = open_model(path)
    ours = open_model(export_model(path, tmp_path / "sound.onnx", ExportOptions(with_features=True)).path)
    sounds = [write_sound(tmp_path / "a.wav", seconds), write_sound(tmp_path / "b.wav", 1.3)]
    expected, heard = (played(sounds, model, at_once=2) for model in (theirs, ours))
    for number in range(2):
        np.testing.assert_allclose(scores_of(heard, number), scores_of(expected, number), rtol=1e-3, atol=1e-4)
    times = [[(event.source_number, event.index, event.time) for event in run] for run in (expected, heard)]
    assert sorted(times[0]) == sorted(times[1])
    if seconds == 2.0:
        before, after = broken_off(sounds[:1], ours, tmp_path / "state", 9)
        joined = before[: after[0].index] + after
        np.testing.assert_allclose(scores_of(joined), scores_of(expected, 0), rtol=1e-3, atol=1e-4)
    write_rows(tmp_path / "rows.npy")
    with pytest.raises(CotransError, match=r"rows\.npy"):
        played([tmp_path / "rows.npy"], ours)


def test_what_an_exported_model_does_not_have(models: tuple[StreamModel, StreamModel], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="CPU"):
        open_model(models[1].files[0], device="cuda")
    with pytest.raises(InputError):
        open_model(tmp_path / "none.onnx")
