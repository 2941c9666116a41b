"""Small stand-ins for the files that the pages speak of: a folder in which every shown command works."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import torch

from pipelines.checkpoints.checkpoint import save_checkpoint
from pipelines.datasets.shipped import shipped_list
from pipelines.model import ContinualTransformer, ModelConfig
from tests.datasets.dataset_builders import write_thumos_oadtr
from tests.docs.pages import ROOT
from tests.features.made_recordings import write_sound, write_video

OADTR_PARTS = {"rgb": 20, "flow": 16}  # together the 36 inputs of the checkpoints in tests/golden
ROWS = 8  # of a feature file: two seconds


def build(folder: Path) -> Path:
    """Fill `folder` with everything that the pages name."""
    for name in ("weights", "tests", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)
    _media(folder)
    # Datasets stay where they are in all copies of the folder, so that their features are extracted once.
    data = folder.parent / "data"
    _gtzan(data / "GTZAN")
    for name in ("THUMOS", "THUMOS14"):
        write_thumos_oadtr(data / name, OADTR_PARTS, name="thumos_kin_{}.pickle")
    for dataset in data.iterdir():
        (folder / dataset.name).symlink_to(dataset)
    shutil.copy(ROOT / "tests/golden/oadtr_decoder.pth", folder / "oadtr.pth")
    shutil.copy(ROOT / "tests/golden/oadtr_b1.pth", folder / "oadtr_b1.pth")
    shutil.copy(ROOT / "tests/golden/oadtr_b1.pth", folder / "FILE")
    shutil.copy(ROOT / "tests/golden/thumos_metrics.npz", folder / "scores.npz")
    for name in ("runs/gtzan-cotrans-b1", "runs/mine"):
        (folder / name).mkdir(parents=True)
        shutil.copy(ROOT / "weights/models/music-genre.safetensors", folder / name / "best.safetensors")
    _features(folder / "features.npy", 36)
    _checkpoint(folder / "model.safetensors")
    _programs(folder / "bin")
    return folder


def _media(folder: Path) -> None:
    write_video(folder / "video.mp4", seconds=2.0)
    write_video(folder / "talk.mp4", seconds=2.0)
    write_sound(folder / "song.mp3", seconds=2.0, rate=44100)
    write_sound(folder / "talk.wav", seconds=2.0)
    write_video(folder / "talks/day1/a.mp4", seconds=1.5)
    write_sound(folder / "talks/talk.wav", seconds=1.5)
    write_video(folder / "videos/one.mp4", seconds=1.0)
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


def _features(path: Path, width: int) -> None:
    np.save(path, np.random.default_rng(0).normal(size=(ROWS, width)).astype(np.float32))


def _checkpoint(path: Path) -> None:
    torch.manual_seed(0)
    config = ModelConfig(input_width=36, width=16, heads=2, feed_forward=16, blocks=1, window=8, classes=4)
    save_checkpoint(path, ContinualTransformer(config).eval(), ("a", "b", "c", "d"), None, {})


def _programs(folder: Path) -> None:
    """`cotrans` and `python` for lines that need a shell."""
    folder.mkdir()
    for name, module in (("cotrans", "-m cotrans_cli "), ("python", "")):
        program = folder / name
        program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" {module}"$@"\n')
        program.chmod(0o755)
