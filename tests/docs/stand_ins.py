"""Small stand-ins for the files that the pages speak of: a folder in which every shown command works."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import torch

from pipelines.checkpoints.checkpoint import save_checkpoint
from pipelines.datasets.published.shipped import shipped_list
from pipelines.model import ContinualTransformer, ModelConfig
from tests.datasets.dataset_builders import write_thumos_oadtr
from tests.docs.pages import ROOT
from tests.features.made_recordings import write_sound, write_video
from tests.features.tflite_files import save as save_tflite

OADTR_PARTS = {"rgb": 20, "flow": 16}  # together the 36 inputs of the checkpoints in tests/golden
ROWS = 8  # of a feature file: two seconds


def build(folder: Path) -> Path:
    """Fill `folder` with everything that the pages name."""
    for name in ("tests", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)
    _linked(ROOT / "weights", folder / "weights", own="models")
    _linked(ROOT / "weights/models", folder / "weights/models", own="objects.safetensors")
    # Its card shows the command that makes it anew: not in the tree.
    shutil.copy(ROOT / "weights/models/objects.safetensors", folder / "weights/models")
    _media(folder)
    # Datasets stay where they are in all copies of the folder, so that their features are extracted once.
    data = folder.parent / "data"
    _gtzan(data / "GTZAN")
    _esc10(data / "ESC10")
    _digits(data / "DIGITS")
    _words(data / "words")
    write_sound(data / "speech" / "long.wav", seconds=4.0)
    write_sound(data / "FOREIGN" / "bell.wav", seconds=1.0)
    for name in ("THUMOS", "THUMOS14"):
        write_thumos_oadtr(data / name, OADTR_PARTS, name="thumos_kin_{}.pickle")
    for dataset in data.iterdir():
        (folder / dataset.name).symlink_to(dataset)
    shutil.copy(ROOT / "tests/golden/oadtr_decoder.pth", folder / "oadtr.pth")
    shutil.copy(ROOT / "tests/golden/oadtr_b1.pth", folder / "oadtr_b1.pth")
    for name in ("oadtr_b2.pth", "miniroad.pth", "lstr.pth", "lstr.yaml", "testra_decay.pth", "testra_decay.yaml"):
        shutil.copy(ROOT / "tests/golden" / name, folder / name)
    shutil.copy(ROOT / "tests/golden/oadtr_b1.pth", folder / "FILE")
    shutil.copy(ROOT / "tests/golden/thumos_metrics.npz", folder / "scores.npz")
    for name in ("runs/gtzan-cotrans-b1",):
        (folder / name).mkdir(parents=True)
        shutil.copy(ROOT / "weights/models/music-genre.safetensors", folder / name / "best.safetensors")
    _features(folder / "features.npy", 36)
    _features(folder / "frames.npy", 32)
    _checkpoint(folder / "model.safetensors")
    _programs(folder / "bin")
    return folder


def _linked(source: Path, folder: Path, own: str) -> None:
    """Links to all that is in `source` but for one thing."""
    folder.mkdir()
    for path in source.iterdir():
        if path.name != own:
            (folder / path.name).symlink_to(path)


def _media(folder: Path) -> None:
    write_video(folder / "video.mp4", seconds=2.0)
    write_video(folder / "talk.mp4", seconds=2.0)
    write_sound(folder / "song.mp3", seconds=2.0, rate=44100)
    write_sound(folder / "talk.wav", seconds=2.0)
    for name in ("love_theme.ogg", "battle-epic.ogg"):
        write_sound(folder / name, seconds=21.0)  # the pages begin at second 20
    write_sound(folder / "pi.wav", seconds=2.0)
    write_sound(folder / "dog.ogg", seconds=2.0)
    save_tflite(folder / "network.tflite", [[1, 800]], np.eye(800, 5))
    write_video(folder / "talks/day1/a.mp4", seconds=1.5)
    write_sound(folder / "talks/talk.wav", seconds=1.5)
    write_video(folder / "videos/one.mp4", seconds=1.0)
    for name in ("monday", "tuesday"):
        write_sound(folder / f"recordings/{name}.wav", seconds=4.0)
    lines = ("file,start,end,label", "monday.wav,0,2,dog", "tuesday.wav,1,3,dog")
    (folder / "recordings/labels.csv").write_text("\n".join(lines) + "\n")
    for label, place in (("dog", 0), ("rain", 10)):
        for number in range(5):
            write_sound(folder / f"clips/{label}/{label}-{number}.wav", seconds=1.5, seed=place + number)


def _gtzan(root: Path) -> None:
    """A few short clips of the published lists, in all genres."""
    lists = shipped_list("gtzan_fault_filtered")
    for split, count in (("train", 2), ("validation", 1), ("test", 1)):
        for genre in sorted({name.split(".")[0] for name in lists["train"]}):
            for place, name in enumerate([name for name in lists[split] if name.startswith(genre)][:count]):
                write_sound(root / "genres" / genre / f"{name}.wav", seconds=1.0, rate=22050, seed=place)


def _esc10(root: Path) -> None:
    for place, label in enumerate(("dog", "rain", "rooster")):
        for fold in range(1, 5):
            write_sound(root / label / f"{fold}-{100 + place}-A-{place}.ogg", seconds=1.0, seed=10 * place + fold)


def _digits(root: Path) -> None:
    for place, speaker in enumerate(("george", "jackson", "theo", "yweweler")):
        for digit in range(10):
            write_sound(root / f"{digit}_{speaker}_0.wav", seconds=0.4, rate=8000, seed=10 * place + digit)


def _words(root: Path) -> None:
    for place, word in enumerate(("go", "hello", "left", "right", "stop")):
        for take in range(5):
            write_sound(root / word / f"{take}.wav", seconds=0.4, seed=10 * place + take)
    write_sound(root / "background" / "talk.wav", seconds=3.0)


def _features(path: Path, width: int) -> None:
    np.save(path, np.random.default_rng(0).normal(size=(ROWS, width)).astype(np.float32))


def _checkpoint(path: Path) -> None:
    torch.manual_seed(0)
    config = ModelConfig(input_width=36, width=16, heads=2, feed_forward=16, blocks=1, window=8, classes=4)
    save_checkpoint(path, ContinualTransformer(config).eval(), ("a", "b", "c", "d"), None, {})


def _programs(folder: Path) -> None:
    """`cotrans` and `python` for lines that need a shell, and an `ffmpeg` that gives two seconds of silence."""
    folder.mkdir()
    python = f'PYTHONPATH="{ROOT}" exec "{sys.executable}"'
    programs = {
        "cotrans": f'{python} -m cotrans_cli "$@"',
        "python": f'{python} "$@"',
        "ffmpeg": "head -c 64000 /dev/zero",
    }
    for name, line in programs.items():
        program = folder / name
        program.write_text(f"#!/bin/sh\n{line}\n")
        program.chmod(0o755)
