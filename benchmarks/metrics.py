"""How long scoring takes: 225,222 frames × 21 classes, the size of the THUMOS14 test videos.

    python benchmarks/metrics.py [--json]

Side by side on the same scores: ours, scikit-learn's average precision class by class, and the loop over frames of
the official scripts (its cost only: one class, times twenty).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np
from sklearn.metrics import average_precision_score

from pipelines.evaluation.scores.detection import DetectionOptions, score_detection
from pipelines.evaluation.scores.predictions import make_predictions
from pipelines.evaluation.scores.protocols import protocol_for

FRAMES, CLASSES, VIDEOS = 225_222, 21, 213


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--repeat", type=int, default=5, help="runs per row; the median counts")
    arguments = parser.parse_args()

    generator = np.random.default_rng(0)
    label = generator.integers(1, CLASSES, FRAMES) * (generator.random(FRAMES) < 0.3)  # 70 % background
    scores = generator.random((FRAMES, CLASSES), dtype=np.float32)
    scores[np.arange(FRAMES), label] += 0.5 * generator.random(FRAMES, dtype=np.float32)
    video = np.sort(generator.integers(0, VIDEOS, FRAMES))
    protocol = protocol_for("thumos14")

    def ours(bootstrap: int = 0) -> float:
        predictions = make_predictions(scores, label, video)
        return score_detection(predictions, protocol, DetectionOptions(bootstrap=bootstrap)).mAP

    def scikit_learn() -> float:
        return float(np.mean([average_precision_score(label == name, scores[:, name]) for name in range(1, CLASSES)]))

    ours_s, ours_map = _timed(ours, arguments.repeat)
    sklearn_s, sklearn_map = _timed(scikit_learn, max(1, arguments.repeat // 2))
    loop_s, _ = _timed(lambda: _loop(scores[:, 1], label == 1), 1)
    bootstrap_s, _ = _timed(lambda: ours(bootstrap=200), 1)
    assert abs(ours_map - sklearn_map) < 1e-9, (ours_map, sklearn_map)
    rows = {
        "cotrans_s": ours_s,  # checks, mAP and mcAP
        "cotrans_with_200_resamples_s": bootstrap_s,
        "scikit_learn_s": sklearn_s,  # mAP only
        "frame_loop_s": loop_s * (CLASSES - 1),  # mAP and mcAP
    }
    if arguments.json:
        print(json.dumps({"frames": FRAMES, "classes": CLASSES, **rows}, indent=2))
        return
    print(f"{FRAMES:,} frames × {CLASSES} classes")
    for name, seconds in rows.items():
        print(f"{name.removesuffix('_s').replace('_', ' '):28} {seconds:8.2f} s  {seconds / ours_s:7.1f} ×")


def _loop(scores: np.ndarray, positive: np.ndarray) -> tuple[float, float]:
    """AP and calibrated AP of one class, one frame after the other from the highest score."""
    weight = (~positive).sum() / positive.sum()
    true, plain, calibrated = 0, 0.0, 0.0
    for rank, frame in enumerate(np.argsort(-scores), start=1):
        if positive[frame]:
            true += 1
            plain += true / rank
            calibrated += weight * true / (weight * true + rank - true)
    return plain / true, calibrated / true


def _timed(function: Callable[[], object], repeat: int) -> tuple[float, float]:
    """Median seconds over `repeat` runs, and the last result where it is a number."""
    seconds = []
    result: object = 0.0
    for _ in range(repeat):
        begin = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds), result if isinstance(result, float) else 0.0


if __name__ == "__main__":
    main()
