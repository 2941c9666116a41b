"""The rule for "none of these" of golf-swing: fitted, tried on clips that the network has not seen, and stored.

python weights/recipes/fit_none_golf.py GOLF/ FOREIGN/ out/motion_golf.safetensors --fold 1 --test TEST/ --maps maps/
python weights/recipes/fit_none_golf.py GOLF/ FOREIGN/ weights/motion_golf.safetensors --threshold -0.5 --store

FOREIGN/ and TEST/: what make_foreign_video.py makes. The network stays as it is; a number is added to all logits of a
row, a linear function of what the classifier reads, so that no probability changes and the evidence for any phase is
high for clips and low for FOREIGN/ (pipelines/training/none_of_these/none_shift.py). The evidence of a second counts.
With --fold, a network that train_motion.py trained without the fold, with its classifier beside it: the threshold that
turns a picture of the swing away in one clip of 50 of the fold is printed, and what the rule says to the fold and to
TEST/ with this threshold or the given one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file

from pipelines.checkpoints.builtin import find_model
from pipelines.checkpoints.checkpoint import Checkpoint, load_checkpoint
from pipelines.datasets.published.golf import PHASES, TABLE, TEST_FOLD, Swing, read_swings
from pipelines.features.video.motion import MotionNetwork
from pipelines.metrics.class_order import OrderFilter
from pipelines.metrics.rejection import MOST_REJECTED, Rejection
from pipelines.streaming.predicting.prediction import Interpreter
from pipelines.training.none_of_these.none_shift import with_none_shift
from pipelines.training.none_of_these.rejection import outputs, store_rejection
from pipelines.training.samples.recordings import Recording
from weights.recipes.train_motion import LAG, RATE, read_clip

OVER = 30  # rows: a second
REST = (PHASES[0], PHASES[-1])


def seen(network: MotionNetwork, path: Path, swing: Swing, kept: Path | None) -> Recording:
    """The network's rows of a clip or of another video."""
    with torch.inference_mode():
        maps = read_clip(path, swing, kept).maps
        rows = network(torch.from_numpy(np.asarray(maps, np.float32))).numpy()
    return Recording(path.stem, rows, 0, targets=np.zeros((len(rows), len(PHASES)), np.float32))


def videos(network: MotionNetwork, folder: Path) -> list[Recording]:
    """Of videos without a swing."""
    nothing = Swing("", "", "", (), 0, 0)
    return [seen(network, path, replace(nothing, file=path.name), None) for path in sorted(folder.glob("*.mp4"))]


def answers(checkpoint: Checkpoint, recordings: Sequence[Recording], rule: Rejection) -> list[list[str | None]]:
    """The label of every picture, as a stream names it."""
    assert checkpoint.order is not None
    said = []
    for logits in outputs(checkpoint, recordings):
        order = OrderFilter(checkpoint.order, 1 / RATE)
        interpreter = Interpreter(PHASES, "softmax", rejection=rule, order=order)
        whole = np.concatenate([logits, np.repeat(logits[-1:], LAG, axis=0)])
        said.append([answer.label for answer in interpreter.answers(whole)][LAG:])
    return said


def lowest(checkpoint: Checkpoint, recordings: Sequence[Recording]) -> NDArray[np.float64]:
    """Of each clip the least evidence that a picture of its swing has."""
    least = []
    always = Rejection("energy", -1e9, over=OVER)
    for recording, labels, logits in zip(
        recordings, answers(checkpoint, recordings, always), outputs(checkpoint, recordings), strict=True
    ):
        evidence = always.evidence(np.concatenate([logits, np.repeat(logits[-1:], LAG, axis=0)]))
        means = np.array([evidence[max(0, end - OVER) : end].mean() for end in range(1, len(evidence) + 1)])[LAG:]
        swinging = np.array([label not in REST for label in labels])
        if swinging.any() and len(recording):
            least.append(float(means[swinging].min()))
    return np.array(least)


def of_kinds(recordings: Sequence[Recording], labels: Sequence[Sequence[str | None]]) -> dict[str, float]:
    """The share of pictures without a label by what a video's name begins with."""
    kinds: dict[str, list[float]] = defaultdict(list)
    for recording, said in zip(recordings, labels, strict=True):
        kind = recording.name if recording.name.startswith("video") else recording.name.split("-")[0]
        kinds[kind].append(float(np.mean([label is None for label in said])))
    return {kind: round(float(np.mean(shares)), 3) for kind, shares in kinds.items()}


def tried(checkpoint: Checkpoint, clips: Sequence[Recording], rule: Rejection) -> dict[str, float]:
    """What the rule costs on clips."""
    named = answers(checkpoint, clips, Rejection("energy", -1e9, over=OVER))
    said = answers(checkpoint, clips, rule)
    swing = np.array([label not in REST for labels in named for label in labels])
    none = np.array([label is None for labels in said for label in labels])
    hurt = [
        any(label is None and before not in REST for label, before in zip(*pair, strict=True))
        for pair in zip(said, named, strict=True)
    ]
    return {
        "swing pictures without a label": float(none[swing].mean()),
        "clips with such a picture": float(np.mean(hurt)),
        "rest pictures without a label": float(none[~swing].mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("foreign", type=Path)
    parser.add_argument("network", type=Path)
    parser.add_argument("--fold", default="none", help="not fitted on, tried on")
    parser.add_argument("--test", type=Path)
    parser.add_argument("--maps", type=Path, help="folder of maps, as train_motion.py keeps them")
    parser.add_argument("--threshold", type=float)
    parser.add_argument("--store", action="store_true", help="in the built-in model")
    chosen = parser.parse_args()
    path = find_model("golf-swing")
    checkpoint = load_checkpoint(path)
    network = MotionNetwork()
    network.load_state_dict(load_file(chosen.network))
    network.eval()
    if chosen.fold != "none":
        checkpoint.model.load_state_dict(
            {f"classifier.{name}": value for name, value in load_file(beside(chosen.network)).items()}
        )
    swings = [swing for swing in read_swings(chosen.root / TABLE) if swing.fold != TEST_FOLD]
    clips = [seen(network, chosen.root / "clips" / swing.file, swing, chosen.maps) for swing in swings]
    known = [clip for clip, swing in zip(clips, swings, strict=True) if swing.fold != chosen.fold]
    kept_out = [clip for clip, swing in zip(clips, swings, strict=True) if swing.fold == chosen.fold]
    shifted = with_none_shift(checkpoint, known, videos(network, chosen.foreign))
    assert shifted is not None
    results: dict[str, object] = {"fold": chosen.fold}
    threshold = chosen.threshold
    if kept_out:
        results["threshold"] = float(np.quantile(lowest(shifted, kept_out), MOST_REJECTED))
        threshold = results["threshold"] if threshold is None else threshold
    if threshold is None:
        parser.error("--threshold is needed where no fold is kept out")
    rule = Rejection("energy", threshold, over=OVER)
    results |= {"tried": threshold, **(tried(shifted, kept_out, rule) if kept_out else {})}
    if chosen.test is not None:
        tests = videos(network, chosen.test)
        results["none"] = of_kinds(tests, answers(shifted, tests, rule))
    if chosen.store:
        store_rejection(path, shifted, rule)
    sys.stdout.write(json.dumps(results, indent=1) + "\n")


def beside(network: Path) -> Path:
    """The classifier that was trained with a network."""
    return network.with_name("classifier.safetensors")


if __name__ == "__main__":
    main()
