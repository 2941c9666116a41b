"""Speech is none of these where no class sounds like it, and the clips decide about that."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile

from pipelines.datasets.item import Item
from pipelines.datasets.mixing.foreign_sound import RATE, made_sound
from pipelines.datasets.mixing.spoken_sounds import SPEECH, spoken_sounds
from pipelines.datasets.published.digit_streams import SAMPLE
from pipelines.training.none_of_these.voices import classes_like_speech
from pipelines.training.recipes.recipe_file import build_recipe
from pipelines.training.samples.opening import open_data
from tests.training.test_foreign import settings

SHIPPED = sorted(SAMPLE.glob("*.flac"))


def made_class(folder: Path, kind: str, count: int = 8) -> list[Path]:
    folder.mkdir(parents=True)
    for number in range(count):
        sound = made_sound(kind, 1000 + number, 2.0)
        soundfile.write(folder / f"{number}.wav", sound.samples, sound.rate)
    return sorted(folder.iterdir())


def items(*classes: list[Path]) -> list[Item]:
    return [
        Item(f"{label} {path.name}", "train", label=label, media=path)
        for label, paths in enumerate(classes)
        for path in paths
    ]


def test_made_speech_is_the_same_every_time_and_of_its_length() -> None:
    first, again = list(spoken_sounds(2.0, 3)), list(spoken_sounds(2.0, 3))
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.samples, other.samples)
        assert one.kind == SPEECH and len(one.samples) == 2 * one.rate and 0.02 < np.abs(one.samples).max() <= 1.0
    assert not np.array_equal(first[0].samples, first[1].samples)


def test_words_sound_like_speech_and_bells_and_knocks_do_not(tmp_path: Path) -> None:
    bells, knocks = made_class(tmp_path / "bell", "bell"), made_class(tmp_path / "knocks", "knocks")
    told = items(bells, SHIPPED, knocks)
    assert classes_like_speech(told, ["bell", "words", "knocks"]) == ("words",)
    assert classes_like_speech(items(bells, knocks), ["bell", "knocks"]) == ()
    silent = tmp_path / "silent.wav"
    soundfile.write(silent, np.zeros(0), RATE)
    assert classes_like_speech(items([silent], [tmp_path / "gone.wav"]), ["silent", "gone"]) == ()


@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="needs espeak-ng")
def test_other_voices_sound_like_speech_too(tmp_path: Path) -> None:
    said = []
    for number, word in enumerate(("window", "hello", "computer", "forward")):
        said.append(tmp_path / f"{number}.wav")
        subprocess.run(["espeak-ng", "-v", "en-gb", "-w", str(said[-1]), word], check=True)
    bells = made_class(tmp_path / "bell", "bell")
    assert classes_like_speech(items(said, bells), ["said", "bell"]) == ("said",)


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    for kind in ("bell", "knocks"):
        made_class(tmp_path / "clips" / kind, kind)
    return tmp_path / "clips"


def test_speech_is_foreign_where_no_class_sounds_like_it(clips: Path) -> None:
    remarks: list[str] = []
    data = open_data(build_recipe(None, settings(clips)), remark=remarks.append)
    spoken = [recording for recording in data.foreign.fit if recording.name == SPEECH]
    assert len(spoken) == len(list(spoken_sounds(0.1))) and not any("speech" in remark for remark in remarks)
    assert SPEECH not in {recording.name for recording in data.foreign.always}  # models may have a name for it


def test_speech_may_have_a_name_where_a_class_sounds_like_it(clips: Path) -> None:
    (clips / "words").mkdir()
    for path in SHIPPED[:12]:
        shutil.copy(path, clips / "words")
    remarks: list[str] = []
    data = open_data(build_recipe(None, settings(clips)), remark=remarks.append)
    assert SPEECH not in {recording.name for recording in data.foreign.fit}
    assert "words sounds like speech, so other speech may get a name" in remarks


def test_who_gives_foreign_recordings_has_said_what_is_foreign(clips: Path, tmp_path: Path) -> None:
    made_class(tmp_path / "foreign", "tone")
    data = open_data(build_recipe(None, settings(clips, **{"data.foreign": str(tmp_path / "foreign")})))
    assert SPEECH not in {recording.name for recording in (*data.foreign.fit, *data.foreign.train)}
