"""Predictions of a model on a set of recordings: arrays in memory, and the .npz file that holds them.

The file has `scores` (frames, classes), `label` (frames,) class numbers or (frames, classes) zeros and ones,
and `video` (frames,), the recording that each frame belongs to (numbers or names). Optional: `classes`
(classes,), their names; `anticipation` (frames, horizons, classes), scores for the frames 1, 2, … ahead.
Frames of one recording stand in order of time. Other arrays are ignored, so files with results beside the
scores can be read.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import InputError
from pipelines.files import atomic_write
from pipelines.metrics.precision import Bools, Floats, Integers, check_not_nan
from pipelines.untrusted.npz_file import read_npz
from pipelines.wording import listed


@dataclass(frozen=True)
class Predictions:
    """Scores and truth of pooled frames; the frames of a video stand together, in order of time."""

    scores: Floats  # (frames, classes)
    label: NDArray[Any]  # (frames,) class numbers, or (frames, classes) bool where a frame may have several classes
    video: Integers  # (frames,) index into `videos`
    videos: tuple[str, ...]
    classes: tuple[str, ...] | None = None
    anticipation: Floats | None = None  # (frames, horizons, classes)

    @property
    def frames(self) -> int:
        return int(self.scores.shape[0])

    @property
    def width(self) -> int:
        """Number of score columns."""
        return int(self.scores.shape[1])

    def starts(self) -> Integers:
        """Row at which each video begins, (videos,)."""
        return np.searchsorted(self.video, np.arange(len(self.videos)))

    def positives(self, columns: Sequence[int]) -> Bools:
        """Truth of some classes, (frames, columns)."""
        return positives_of(self.label, columns)

    def has_label(self, class_number: int) -> Bools:
        """Frames of a class, (frames,); all False where the labels have no such column."""
        if self.label.ndim == 2 and class_number >= self.label.shape[1]:
            return np.zeros(self.frames, dtype=np.bool_)
        return self.positives([class_number])[:, 0]

    def select(self, keep: Bools) -> Predictions:
        """The frames where `keep` (frames,) is True; videos that lose all their frames stay in `videos`."""
        return replace(
            self,
            scores=self.scores[keep],
            label=self.label[keep],
            video=self.video[keep],
            anticipation=None if self.anticipation is None else self.anticipation[keep],
        )


def positives_of(label: NDArray[Any], columns: Sequence[int]) -> Bools:
    """(frames,) numbers or (frames, classes) bool -> (frames, columns) bool."""
    if label.ndim == 2:
        return np.asarray(label[:, list(columns)], dtype=np.bool_)
    return np.asarray(label[:, None] == np.asarray(columns)[None, :], dtype=np.bool_)


def make_predictions(
    scores: NDArray[Any],
    label: NDArray[Any],
    video: NDArray[Any],
    classes: Sequence[str] | None = None,
    anticipation: NDArray[Any] | None = None,
    where: str = "predictions",
) -> Predictions:
    """Check arrays and put the frames of each video together; `where` names them in errors."""
    scores = _as_scores(scores, 2, f"{where}: 'scores'", "(frames, classes)")
    frames, width = scores.shape
    if frames == 0 or width == 0:
        raise InputError(f"{where}: 'scores' is empty, {scores.shape}: there is nothing to score")
    label = _as_label(label, frames, where)
    video = np.asarray(video)
    if video.shape != (frames,):
        raise InputError(f"{where}: 'video' has shape {video.shape}, but there are {frames} frames of scores")
    if video.dtype.kind not in "iuUS":
        raise InputError(f"{where}: 'video' must hold numbers or names, not {video.dtype}")
    if anticipation is not None:
        anticipation = _as_scores(anticipation, 3, f"{where}: 'anticipation'", "(frames, horizons, classes)")
        if anticipation.shape[0] != frames or anticipation.shape[2] != width:
            raise InputError(
                f"{where}: 'anticipation' is {anticipation.shape}, but the scores are {scores.shape}: "
                "it must be (frames, horizons, classes)"
            )
    if classes is not None and len(classes) != width:
        raise InputError(f"{where}: {len(classes)} class names for {width} columns of scores")

    names, first, index = np.unique(video, return_index=True, return_inverse=True)
    appearance = np.argsort(first)  # videos keep the order in which they first appear
    rank = np.empty_like(appearance)
    rank[appearance] = np.arange(len(appearance))
    index = rank[index]
    order = np.argsort(index, kind="stable")
    return Predictions(
        scores=scores[order],
        label=label[order],
        video=index[order],
        videos=tuple(_text(names[position]) for position in appearance),
        classes=None if classes is None else tuple(classes),
        anticipation=None if anticipation is None else anticipation[order],
    )


def read_predictions(path: Path) -> Predictions:
    """Read an .npz file; never runs code from it (no pickles)."""
    if not path.is_file():
        raise InputError(f"there is no file {path}")

    def refuse(why: str) -> InputError:
        return InputError(f"cannot read predictions from {path}: {why}")

    with path.open("rb") as file:
        start = file.read(6)
    if start == np.lib.format.MAGIC_PREFIX:
        raise InputError(f"{path} is a single array: an .npz file with 'scores', 'label' and 'video' is needed")
    if not zipfile.is_zipfile(path):
        raise refuse("it is not an .npz file of plain arrays, or it is cut off, and pickled objects are not loaded")
    arrays = read_npz(path, refuse)
    missing = [name for name in ("scores", "label", "video") if name not in arrays]
    if missing:
        content = listed(list(arrays)) or "nothing"
        raise InputError(f"{path} has no {' and no '.join(map(repr, missing))} (it holds {content})")
    names = arrays.pop("classes", None)
    return make_predictions(
        arrays["scores"],
        arrays["label"],
        arrays["video"],
        classes=None if names is None else [_text(name) for name in np.atleast_1d(names)],
        anticipation=arrays.get("anticipation"),
        where=str(path),
    )


def write_predictions(path: Path, predictions: Predictions) -> None:
    """Write an .npz file that `read_predictions` reads back."""
    arrays: dict[str, NDArray[Any]] = {
        "scores": predictions.scores,
        "label": predictions.label,
        "video": np.array(predictions.videos, dtype=np.str_)[predictions.video],
    }
    if predictions.classes is not None:
        arrays["classes"] = np.array(predictions.classes, dtype=np.str_)
    if predictions.anticipation is not None:
        arrays["anticipation"] = predictions.anticipation
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def _as_scores(array: NDArray[Any], dimensions: int, what: str, shape: str) -> Floats:
    array = np.asarray(array)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{what} must hold numbers, not {array.dtype}")
    if array.ndim != dimensions:
        raise InputError(f"{what} has shape {array.shape}, but must be {shape}")
    # float16 sorts slowly and compares coarsely; integers and float128 go to what the metrics compute in.
    scores: Floats = (
        array
        if array.dtype in (np.float32, np.float64)
        else array.astype(np.float32 if array.dtype == np.float16 else np.float64)
    )
    check_not_nan(scores, what)
    return scores


def _as_label(label: NDArray[Any], frames: int, where: str) -> NDArray[Any]:
    label = np.asarray(label)
    if label.ndim not in (1, 2) or label.shape[0] != frames:
        raise InputError(
            f"{where}: 'label' has shape {label.shape}, but must be ({frames},) or ({frames}, classes) like the scores"
        )
    if label.dtype.kind not in "fiub" or not np.array_equal(label, np.trunc(label)):
        raise InputError(f"{where}: 'label' must hold class numbers, or zeros and ones per class")
    if label.ndim == 2:
        if not np.isin(label, (0, 1)).all():
            raise InputError(f"{where}: a 'label' of shape (frames, classes) must hold only zeros and ones")
        return label.astype(np.bool_)
    if label.min() < 0:
        raise InputError(f"{where}: 'label' holds {int(label.min())}: class numbers start at 0")
    return label.astype(np.int64)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
