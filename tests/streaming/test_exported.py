"""`stream --model FILE.onnx` gives the answers of the checkpoint that it was exported from."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pipelines.errors import InputError, NonFiniteInputError, UsageError
from pipelines.exporting.exporter import export_model
from pipelines.streaming import StreamModel, StreamSession, open_model
from tests.streaming.made_streams import WIDTH, played, scores_of, write_model, write_rows, write_sound


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


def test_what_an_exported_model_does_not_have(models: tuple[StreamModel, StreamModel], tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.npy", 5)
    for options in ({"snapshot": tmp_path / "state"}, {"resume": tmp_path / "state"}):
        with pytest.raises(UsageError, match="exported"):
            played([tmp_path / "rows.npy"], models[1], **options)
    with pytest.raises(UsageError, match="CPU"):
        open_model(models[1].files[0], device="cuda")
    with pytest.raises(InputError):
        open_model(tmp_path / "none.onnx")
