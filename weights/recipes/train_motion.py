"""Trains the network of the extractor `motion` on golf swings: weights/motion_golf.safetensors.

python weights/recipes/train_motion.py GOLF/ motion_golf.safetensors --fold none --maps /tmp/maps

Clips of the folds that are not kept out, three quarters of the pieces from around the swing and the others from
anywhere. The network and a classifier of nine phases, which is written beside it, are trained together; a phase is
asked for 8 frames after its picture. Half of the pieces are mirrored; all are moved by up to one cell, and flow, change
and grey are scaled at random. The clips of the fold that was kept out are scored at the end, whole, as `cotrans
evaluate --dataset golf` does: the figures stand beside the network as .json, the scores of every frame as .npz
(`cotrans evaluate --predictions`). --epochs, --lag and --dilations are for trials: the extractor and the model have the
numbers that stand below.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

from pipelines.datasets.published.golf import PHASES, TABLE, TEST_FOLD, Swing, read_swings
from pipelines.evaluation.scores.ordered_events import score_events
from pipelines.evaluation.scores.predictions import Predictions, make_predictions, write_predictions
from pipelines.features.media import decode
from pipelines.features.media.info import VideoFrame
from pipelines.features.video.motion import CELLS, DILATIONS, MAPS, WIDTH, MotionNetwork, grey_square, motion_maps
from pipelines.files import atomic_write
from pipelines.metrics.class_order import ClassOrder, OrderFilter
from pipelines.metrics.probabilities import probabilities
from weights.recipes.make_golf_swing import swing_order

RATE = 29.97  # frames per second of the clips
LAG = 8  # frames: 0.27 s
PIECE = 64 + LAG  # frames
BEFORE, AFTER = 70, 45  # frames of a clip around its swing
ANYWHERE = 0.25  # share of the pieces that may begin anywhere in a clip: what people do before and after a swing
BATCH = 12
EPOCHS = 60
HIGHEST_RATE = 4e-3
WEIGHT_DECAY = 0.03
LABEL_SMOOTHING = 0.05
LONGEST_STEP = 2.0  # norm of the gradient
# By how much flow, change and grey of a piece may be scaled: (least, most)
SCALES = ((0.8, 1.25), (0.7, 1.4), (0.7, 1.3))
SKIPPED = -100  # the label of frames that are not there


@dataclass(frozen=True, eq=False)
class Clip:
    """A whole clip."""

    swing: Swing
    maps: NDArray[np.float16]  # (frames, 5, 20, 20)
    phases: NDArray[np.int64]  # (frames,)

    @property
    def near(self) -> tuple[int, int]:
        """The frames around the swing: first, and the one after the last."""
        first = max(0, self.swing.events[0] - BEFORE)
        return first, min(len(self.maps), self.swing.events[-1] + AFTER)


def read_clip(path: Path, swing: Swing, kept: Path | None) -> Clip:
    """The maps and phases of all frames. kept: folder in which maps wait for the next run."""
    file = None if kept is None else kept / f"{swing.file}.npy"
    if file is not None and file.is_file():
        maps = np.load(file, mmap_mode="r", allow_pickle=False)
    else:
        frames = [frame for frame in decode(path, audio=False, video=True) if isinstance(frame, VideoFrame)]
        greys = [grey_square(frame.image) for frame in frames]
        pairs = zip([greys[0], *greys], greys, strict=False)
        maps = np.stack([motion_maps(before, now) for before, now in pairs]).astype(np.float16)
        if file is not None:
            with atomic_write(file) as temporary, temporary.open("wb") as stream:
                np.save(stream, maps)
    return Clip(swing, maps, np.searchsorted(swing.events, np.arange(len(maps)), side="right"))


def piece_of(clip: Clip, draw: random.Random) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """A random stretch of a clip, changed at random: (PIECE, 5, 20, 20) maps and (PIECE,) phases."""
    first, last = (0, len(clip.maps)) if draw.random() < ANYWHERE else clip.near
    begin = draw.randint(first, max(first, last - PIECE))
    end = min(begin + PIECE, last)
    maps = clip.maps[begin:end].astype(np.float32)
    if draw.random() < 0.5:
        maps = maps[..., ::-1].copy()
        maps[:, 0] *= -1  # flow to the right is flow to the left in a mirror
    maps = np.roll(maps, (draw.randint(-1, 1), draw.randint(-1, 1)), (2, 3))
    flow, change, grey = (draw.uniform(*bounds) for bounds in SCALES)
    maps *= np.array([flow, flow, change, change, grey], np.float32)[:, None, None]
    missing = PIECE - len(maps)
    return (
        np.concatenate([maps, np.repeat(maps[-1:], missing, axis=0)]),
        np.concatenate([clip.phases[begin:end], np.full(missing, SKIPPED)]),
    )


@dataclass(frozen=True)
class Trial:
    """What may differ between runs."""

    seed: int
    epochs: int
    lag: int  # frames
    dilations: tuple[int, ...]  # of the convolutions in time

    def __str__(self) -> str:
        changed = [f"--seed {self.seed}"]
        if self.epochs != EPOCHS:
            changed.append(f"--epochs {self.epochs}")
        if self.lag != LAG:
            changed.append(f"--lag {self.lag}")
        if self.dilations != DILATIONS:
            changed.append(f"--dilations {' '.join(map(str, self.dilations))}")
        return " ".join(changed)


def train(clips: Sequence[Clip], trial: Trial) -> tuple[MotionNetwork, nn.Linear]:
    """The network and the classifier after all epochs."""
    torch.manual_seed(trial.seed)
    draw = random.Random(trial.seed)
    network, classifier = MotionNetwork(trial.dilations), nn.Linear(WIDTH, len(PHASES))
    parameters = [*network.parameters(), *classifier.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=HIGHEST_RATE, weight_decay=WEIGHT_DECAY)
    steps = trial.epochs * (len(clips) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, HIGHEST_RATE, total_steps=steps, pct_start=0.15)
    order = list(clips)
    for _ in range(trial.epochs):
        draw.shuffle(order)
        for begin in range(0, len(order) - BATCH + 1, BATCH):
            pieces = [piece_of(clip, draw) for clip in order[begin : begin + BATCH]]
            maps = torch.from_numpy(np.stack([maps for maps, _ in pieces]))
            phases = torch.from_numpy(np.stack([phases for _, phases in pieces]))
            tokens = network.tokens(maps.view(-1, MAPS, CELLS, CELLS)).view(BATCH, PIECE, -1)
            logits = classifier(network.through_time(tokens))[:, trial.lag :]
            loss = functional.cross_entropy(
                logits.flatten(0, 1),
                phases[:, : PIECE - trial.lag].flatten(),
                ignore_index=SKIPPED,
                label_smoothing=LABEL_SMOOTHING,
            )
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, LONGEST_STEP)
            optimizer.step()
            schedule.step()
    return network.eval(), classifier.eval()


@torch.inference_mode()
def predictions_of(
    network: MotionNetwork, classifier: nn.Linear, clips: Sequence[Clip], order: ClassOrder, lag: int = LAG
) -> tuple[Predictions, Predictions]:
    """What the model says of every frame, `lag` frames after it or at the end of the clip: by itself, and in order."""
    logits = [classifier(network(torch.from_numpy(clip.maps.astype(np.float32)))).numpy() for clip in clips]
    return said_of(clips, logits, order, lag)


def said_of(
    clips: Sequence[Clip], logits: Sequence[NDArray[np.float32]], order: ClassOrder, lag: int
) -> tuple[Predictions, Predictions]:
    """The same from logits (frames, phases) of each clip, in which a row speaks of the frame `lag` rows before it."""
    scores, named = [], []
    following = OrderFilter(order, 1 / RATE)
    for rows in logits:
        heard = probabilities(np.concatenate([rows, np.repeat(rows[-1:], lag, axis=0)]), "softmax")
        scores.append(heard[lag:])
        named.append(following.decode(heard)[lag:])
    names = np.repeat([clip.swing.file for clip in clips], [len(clip.maps) for clip in clips])
    labels = np.concatenate([clip.phases for clip in clips])
    own = make_predictions(np.concatenate(scores).astype(np.float32), labels, names, classes=PHASES)
    return own, replace(own, scores=np.concatenate(named).astype(np.float32))


def score(own: Predictions, named: Predictions, clips: Sequence[Clip], known: set[str]) -> dict[str, Any]:
    """PCE and frame accuracy of all clips, of those whose players are in no training clip, and PCE player by player."""
    players = np.array([clip.swing.player for clip in clips])[own.video]
    unseen = ~np.isin(players, sorted(known))
    parts = {"all": np.ones(own.frames, np.bool_), "unseen_players": unseen}
    results: dict[str, Any] = {
        name: score_events(own.select(part), PHASES, named.select(part)).to_dict()
        for name, part in parts.items()
        if part.any()
    }
    each = [score_events(own.select(players == player), PHASES).pce for player in np.unique(players)]
    results["players"] = {
        "players": len(each),
        "mean_pce": float(np.mean(each)),
        "tenth_pce": float(np.quantile(each, 0.1)),  # nine of ten players have more
    }
    return results


def dwells(clips: Sequence[Clip]) -> list[float]:
    """Seconds that each phase lasts, the mean over clips."""
    counts = np.array([np.bincount(clip.phases, minlength=len(PHASES)) for clip in clips])
    return [round(float(frames) / RATE, 4) for frames in counts.mean(axis=0)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--fold", default="3", help="not trained on, scored at the end; 'none': all are trained on")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--lag", type=int, default=LAG, help="frames")
    parser.add_argument("--dilations", type=int, nargs="+", default=DILATIONS, help="of the convolutions in time")
    parser.add_argument("--maps", type=Path, help="folder of maps, which are computed once for all runs")
    chosen = parser.parse_args()
    swings = [swing for swing in read_swings(chosen.root / TABLE) if swing.fold != TEST_FOLD]
    clips = [read_clip(chosen.root / "clips" / swing.file, swing, chosen.maps) for swing in swings]
    training = [clip for clip in clips if clip.swing.fold != chosen.fold]
    kept_out = [clip for clip in clips if clip.swing.fold == chosen.fold]
    trial = Trial(chosen.seed, chosen.epochs, chosen.lag, tuple(chosen.dilations))
    network, classifier = train(training, trial)
    description: dict[str, Any] = {
        "network": "motion-golf",
        "trained_on": f"GolfDB, folds {', '.join(sorted({clip.swing.fold for clip in training}))}: "
        f"{len(training)} clips at normal speed",
        "licence": "CC BY-NC 4.0: for non-commercial use",
        "made_by": f"weights/recipes/train_motion.py --fold {chosen.fold} {trial}",
    }
    with atomic_write(chosen.target) as temporary:
        save_file(network.state_dict(), temporary, {"motion": json.dumps(description)})
    beside = {**description, "dwells": dwells(training)}
    with atomic_write(chosen.target.with_name("classifier.safetensors")) as temporary:
        save_file(classifier.state_dict(), temporary, {"classifier": json.dumps(beside)})
    if kept_out:
        order = swing_order(dwells(training)[0])
        own, named = predictions_of(network, classifier, kept_out, order, trial.lag)
        write_predictions(chosen.target.with_suffix(".npz"), own)
        known = {clip.swing.player for clip in training}
        results = {"fold": chosen.fold, **asdict(trial), **score(own, named, kept_out, known)}
        with atomic_write(chosen.target.with_suffix(".json")) as temporary:
            temporary.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
