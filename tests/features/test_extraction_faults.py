"""Extraction of damaged recordings, to full disks and with too little memory: one line each, the rest is done."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from pipelines.errors import UsageError
from pipelines.features.extraction.run import extract
from pipelines.features.files.feature_files import read_features
from tests.features.extraction_problems import LOGMEL, ROOT, options, statuses, tree, write_folder
from tests.features.made_recordings import sound, write_sound, write_video


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path)


def test_a_name_that_is_too_long_is_one_line(folder: Path, tmp_path: Path) -> None:
    write_sound(folder / f"{'x' * 250}.wav")
    summary = extract([str(folder)], tmp_path / "out", LOGMEL)
    assert summary.count("done") == 3
    assert summary.count("failed") == 1
    assert "File name too long" in summary.problems[0]


def test_damaged_recordings_keep_what_could_be_decoded(tmp_path: Path) -> None:
    path = write_sound(tmp_path / "in/a.wav", 4.0)
    path.write_bytes(path.read_bytes()[:70_000])
    for _ in range(2):  # it is said again when there is nothing left to do
        summary = extract([str(path)], tmp_path / "out", LOGMEL)
        assert statuses(summary) == {"a": "damaged"}
        assert summary.outcomes[0].rows == 8
        assert not summary.ok
        assert "ends in the middle" in summary.problems[0]
    manifest = read_features(tmp_path / "out/a.npy").manifest
    assert manifest is not None
    assert manifest.notes


def damaged_files(folder: Path) -> int:
    """A hundred files with something wrong with each."""
    generator = np.random.default_rng(8)
    folder.mkdir()
    good = {suffix: write_sound(folder / f"good.{suffix}", 3.0) for suffix in ("wav", "flac", "ogg", "mp3")} | {
        suffix: write_video(folder / f"good.{suffix}", 3.0) for suffix in ("mp4", "mkv", "avi")
    }
    contents = {suffix: path.read_bytes() for suffix, path in good.items()}
    for path in good.values():
        path.unlink()
    suffixes = list(contents)
    for index in range(100):
        suffix = suffixes[index % len(suffixes)]
        content = bytearray(contents[suffix])
        kind = index % 10
        if kind < 3:  # truncated: early, in the middle, late
            content = content[: int(len(content) * (0.01, 0.4, 0.7)[kind])]
        elif kind == 3:
            content = bytearray(generator.bytes(5000))
        elif kind == 4:
            content = bytearray()
        elif kind == 5:  # a wrong suffix on something that is no media at all
            content = bytearray(b"<html><body>404 Not Found</body></html>" * 20)
        elif kind == 6:  # audio without samples
            suffix = ("wav", "flac")[index // 10 % 2]
            soundfile.write(folder / "none", np.zeros(0, np.float32), 16000, format=suffix.upper())
            content = bytearray((folder / "none").read_bytes())
            (folder / "none").unlink()
        elif kind == 7:  # video without frames
            content = bytearray(write_video(folder / "none.mp4", 0.0, audio=False).read_bytes())
            suffix = "mp4"
            (folder / "none.mp4").unlink()
        elif suffix == "wav":  # noise and silence are good samples: cut this one too
            content = content[: len(content) // 2]
        elif kind == 8:  # a good beginning, then noise
            content[len(content) // 3 :] = generator.bytes(len(content) - len(content) // 3)
        else:  # only the header, then zeros
            content[200:] = bytes(len(content) - 200)
        (folder / f"{index:03}.{suffix}").write_bytes(content)
    return 100


@pytest.mark.parametrize("features", ["logmel", "mobilenet_v2"])
def test_a_hundred_damaged_files(tmp_path: Path, features: str, capfd: pytest.CaptureFixture[str]) -> None:
    count = damaged_files(tmp_path / "in")
    write_video(tmp_path / "in/good.mp4", 1.0)
    chosen = options(features, random_weights=True, hop=0.5)
    summary = extract([str(tmp_path / "in")], tmp_path / "out", chosen)
    reached = statuses(summary)
    assert len(reached) == count + 1
    assert reached.pop("good") == "done"
    assert len(summary.problems) == sum(status in ("failed", "damaged") for status in reached.values())
    for outcome in summary.outcomes:
        if outcome.name == "good":
            continue
        assert outcome.status in ("failed", "damaged"), outcome
        if outcome.message:
            assert outcome.source in outcome.message
            assert "\n" not in outcome.message
            assert "unexpected" not in outcome.message
    assert not any(name.endswith((".part", ".lock")) for name in tree(tmp_path / "out"))
    assert capfd.readouterr().out == ""


def test_no_audio_track_is_one_line(tmp_path: Path) -> None:
    path = write_video(tmp_path / "silent.mp4", 1.0, audio=False)
    assert extract([str(path)], tmp_path / "out", LOGMEL).problems == (f"{path}: has no audio track",)


def test_a_full_disk_stops_the_run(folder: Path, tmp_path: Path) -> None:
    script = """
import resource, signal, sys
from pathlib import Path
from pipelines.errors import CotransError
from pipelines.features.extraction.run import extract, ExtractionOptions
from pipelines.features.spec import FeatureSpec
from pipelines.features.request import FeatureRequest
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
try:
    extract([sys.argv[1]], Path(sys.argv[2]), ExtractionOptions(FeatureRequest("logmel")))
except CotransError as error:
    print(error)
"""
    command = [sys.executable, "-c", script, str(folder), str(tmp_path / "out")]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == f"the disk is full: cannot write to {tmp_path}/out; make room, or choose another folder\n"
    assert tree(tmp_path / "out") == {}


MEASURED = """
import resource, sys
from pathlib import Path
from pipelines.features.extraction.run import extract, ExtractionOptions
from pipelines.features.spec import FeatureSpec
from pipelines.features.request import FeatureRequest
options = FeatureRequest("logmel", hop=0.5, options={"sample_rate": 8000})
summary = extract([sys.argv[1]], Path(sys.argv[2]), ExtractionOptions(options))
assert summary.ok, summary.problems
print(summary.rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_recording(tmp_path: Path) -> None:
    """Two hours need no more than 100 MB above what two minutes need."""
    rate, peaks = 8000, {}
    minute = sound(60, rate)
    for name, minutes in (("short", 2), ("long", 120)):
        with soundfile.SoundFile(tmp_path / f"{name}.flac", "w", rate, 1, "PCM_16") as file:
            for _ in range(minutes):
                file.write(minute)
        command = [sys.executable, "-c", MEASURED, str(tmp_path / f"{name}.flac"), str(tmp_path / "out")]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
        rows, peak = done.stdout.split()
        assert int(rows) == minutes * 120
        peaks[name] = float(peak)
    assert peaks["long"] - peaks["short"] < 100, peaks


def test_names_that_would_share_a_file_are_refused(tmp_path: Path) -> None:
    write_sound(tmp_path / "in/a.wav")
    write_sound(tmp_path / "in/a.times.wav")
    with pytest.raises(UsageError, match=r"would both be written to .*a\.times\.npy"):
        extract([str(tmp_path / "in")], tmp_path / "out", LOGMEL)


def test_an_output_folder_that_takes_nothing(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="is a file"):
        extract([str(folder)], tmp_path / "file", LOGMEL)
    if os.geteuid() != 0:  # root may write anywhere
        (tmp_path / "shut").mkdir(mode=0o500)
        with pytest.raises(Exception, match="cannot write to"):
            extract([str(folder)], tmp_path / "shut", LOGMEL)
