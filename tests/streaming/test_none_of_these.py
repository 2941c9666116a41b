"""The built-in sound-events has no name for silence and white noise, from the first row of a stream on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from pipelines.checkpoints.builtin import find_model
from pipelines.streaming import PlayOptions, StreamModel, find_sources, open_model
from pipelines.streaming.pipeline import Stream

RATE = 22_050
SECONDS = 3


@pytest.fixture(scope="module")
def sound_events() -> StreamModel:
    return open_model(find_model("sound-events"))


def labels_of(model: StreamModel, sound: np.ndarray, place: Path, rate: int = RATE) -> list[str | None]:
    soundfile.write(place, sound, rate)
    with Stream(find_sources([str(place)]), model, PlayOptions(fast=True)) as stream:
        return [prediction.label for prediction in stream]


@pytest.mark.parametrize("rate", [8_000, 16_000, 22_050, 44_100, 48_000])
@pytest.mark.parametrize("decibels", [-60.0, -20.0, -8.0, -1.0])
def test_white_noise_is_none_at_any_level(
    sound_events: StreamModel, rate: int, decibels: float, tmp_path: Path
) -> None:
    generator = np.random.default_rng([7, rate])
    noise = 10 ** (decibels / 20) * generator.uniform(-1, 1, SECONDS * rate)
    pause = np.zeros(rate)  # noise that begins in the middle of a stream is none, too
    sound = np.concatenate([noise, pause, noise])
    assert labels_of(sound_events, sound, tmp_path / "noise.wav", rate) == [None] * 28


@pytest.mark.parametrize("suffix", ["ogg", "flac"])
def test_encoded_noise_of_two_channels_is_none_however_long(
    sound_events: StreamModel, suffix: str, tmp_path: Path
) -> None:
    noise = 0.2 * np.random.default_rng(8).standard_normal((20 * 44_100, 2))
    noise *= np.linspace(0, 1, len(noise))[:, None]  # and however loud by and by
    assert set(labels_of(sound_events, noise, tmp_path / f"noise.{suffix}", 44_100)) == {None}


def test_silence_is_none_and_a_bark_is_not(sound_events: StreamModel, tmp_path: Path, shared_dir: Path) -> None:
    assert labels_of(sound_events, np.zeros(SECONDS * RATE), tmp_path / "silence.wav") == [None] * 12
    clip = sorted((shared_dir / "esc10" / "dog").glob("*.ogg"))[0]
    sound, rate = soundfile.read(clip)
    assert rate == RATE and labels_of(sound_events, sound, tmp_path / "dog.wav")[-1] == "dog"
