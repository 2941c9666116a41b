"""The built-in model spoken-digits on voices that it was not trained on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from cotrans_cli.main import run

GOLDEN = Path(__file__).parents[1] / "golden" / "speech_embedding.npz"


def digits_in(path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Labels of the segments that are as long as a digit can be."""
    assert run(["stream", str(path), "--model", "spoken-digits", "--fast", "--segments", "--least", "0.2"]) == 0
    return [line.split()[3] for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("kind", ["speech", "noisy"])
def test_digits_of_espeak(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """ "seven eight nine" in 1.2 s, with digital silence and with noise around it: the "eight" runs into the "nine"."""
    soundfile.write(tmp_path / "words.wav", np.load(GOLDEN)[f"{kind}_samples"], 16000)
    spoken = digits_in(tmp_path / "words.wav", capsys)
    assert spoken[0] == "7" and spoken[-1] == "9"


@pytest.mark.shared
def test_a_file_with_one_short_digit_is_answered(shared_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Recordings that are hardly longer than the model's lag."""
    for digit in (4, 7):
        recording = shared_dir / "spoken_digits" / f"{digit}_george_0.flac"
        assert soundfile.info(recording).duration < 0.7
        assert str(digit) in digits_in(recording, capsys)
