"""Tiny copies of the layouts in which people keep datasets."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.published.shipped import shipped_list

RATE = 8000  # Hz


def write_sound(path: Path, seconds: float = 1.5, seed: int = 0) -> Path:
    """A short sound file in the format of its suffix."""
    import soundfile

    path.parent.mkdir(parents=True, exist_ok=True)
    samples = np.random.default_rng(seed).normal(0, 0.1, round(seconds * RATE))
    soundfile.write(path, samples, RATE)
    return path


def write_features(path: Path, rows: int, width: int, seed: int = 0, dtype: str = "float32") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, np.random.default_rng(seed).normal(size=(rows, width)).astype(dtype))
    return path


def one_hot(labels: NDArray[np.int64], classes: int) -> NDArray[np.float64]:
    return np.eye(classes)[labels]


def thumos_targets(videos: int = 2, seed: int = 0) -> dict[str, dict[str, NDArray[np.float64]]]:
    """One-hot annotations (rows, 22) of the first few videos of each split, with ambiguous frames."""
    generator = np.random.default_rng(seed)
    lists = shipped_list("thumos14")
    return {
        split: {
            name: one_hot(generator.integers(0, 22, 30 + 3 * k), 22) for k, name in enumerate(lists[split][:videos])
        }
        for split in ("train", "test")
    }


def prototype_features(
    targets: NDArray[np.float64], width: int, noise: float = 1.0, blur: int = 3, seed: int = 0
) -> NDArray[np.float32]:
    """Features from labels: a fixed random vector for each class, blurred over time, with noise. (rows, width)"""
    prototypes = np.random.default_rng(width).normal(size=(targets.shape[1], width))
    clean = targets @ prototypes
    kernel = np.ones(blur) / blur
    blurred = np.apply_along_axis(lambda column: np.convolve(column, kernel, mode="same"), 0, clean)
    return (blurred + noise * np.random.default_rng(seed).normal(size=clean.shape)).astype(np.float32)


def write_thumos_oadtr(
    root: Path, widths: dict[str, int], name: str = "thumos_anet_{}.pickle", protocol: int = 4
) -> dict[str, dict[str, NDArray[np.float64]]]:
    """Annotations and features as OadTR keeps them."""
    root.mkdir(parents=True, exist_ok=True)
    everything = thumos_targets()
    for split, subset in (("train", "val"), ("test", "test")):
        videos = everything[split]
        annotations = {video: {"anno": array, "feature_length": len(array)} for video, array in videos.items()}
        features = {
            video: {part: prototype_features(array, width, seed=len(array)) for part, width in widths.items()}
            for video, array in videos.items()
        }
        with (root / f"thumos_{subset}_anno.pickle").open("wb") as file:
            pickle.dump(annotations, file, protocol=protocol)
        with (root / name.format(subset)).open("wb") as file:
            pickle.dump(features, file, protocol=protocol)
    return everything


def write_thumos_lstr(root: Path, widths: dict[str, int]) -> dict[str, dict[str, NDArray[np.float64]]]:
    """Annotations and features as LSTR keeps them."""
    folders = {"rgb": "rgb_kinetics_resnet50", "flow": "flow_kinetics_bninception", "audio": "audio_vggish"}
    everything = thumos_targets()
    for videos in everything.values():
        for video, array in videos.items():
            for part, width in widths.items():
                (root / folders[part]).mkdir(parents=True, exist_ok=True)
                np.save(root / folders[part] / f"{video}.npy", prototype_features(array, width, seed=len(array)))
            (root / "target_perframe").mkdir(parents=True, exist_ok=True)
            np.save(root / "target_perframe" / f"{video}.npy", array.astype(np.float32))
    return everything
