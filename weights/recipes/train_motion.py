"""Trains the network of the extractor `motion` on golf swings: weights/motion_golf.safetensors.

python weights/recipes/train_motion.py GOLF/ motion_golf.safetensors --fold 3

Clips of the other folds, from 70 frames before the first event to 45 after the last. The network and a classifier of
nine phases, which is written beside it, are trained together; a phase is asked for 8 frames after its picture.
Half of the pieces are mirrored; all are moved by up to one cell, and flow, change and grey are scaled at random.
"""

from __future__ import annotations

import argparse
import json
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

from pipelines.datasets.published.golf import PHASES, TABLE, Swing, read_swings
from pipelines.features.media import decode
from pipelines.features.video.motion import CELLS, MAPS, WIDTH, MotionNetwork, grey_square, motion_maps
from pipelines.files import atomic_write

LAG = 8  # frames
PIECE = 64 + LAG  # frames
BEFORE, AFTER = 70, 45  # frames of a clip around its swing
BATCH = 12
EPOCHS = 30
HIGHEST_RATE = 4e-3
WEIGHT_DECAY = 0.03
LABEL_SMOOTHING = 0.05
LONGEST_STEP = 2.0  # norm of the gradient
# By how much flow, change and grey of a piece may be scaled: (least, most)
SCALES = ((0.8, 1.25), (0.7, 1.4), (0.7, 1.3))
SKIPPED = -100  # the label of frames that are not there


@dataclass(frozen=True, eq=False)
class Clip:
    maps: NDArray[np.float16]  # (frames, 5, 20, 20)
    phases: NDArray[np.int64]  # (frames,)


def read_clip(path: Path, swing: Swing) -> Clip:
    """The maps and phases of the frames around a swing."""
    first = max(0, swing.events[0] - BEFORE)
    last = min(swing.frames, swing.events[-1] + AFTER)
    greys = [grey_square(frame.image) for frame in decode(path, audio=False, video=True)]  # type: ignore[union-attr]
    maps = [motion_maps(greys[max(place - 1, 0)], greys[place]) for place in range(first, min(last, len(greys)))]
    phases = np.searchsorted(swing.events, np.arange(first, first + len(maps)), side="right")
    return Clip(np.stack(maps).astype(np.float16), phases)


def piece_of(clip: Clip, draw: random.Random) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """A random stretch of a clip, changed at random: (PIECE, 5, 20, 20) maps and (PIECE,) phases."""
    begin = draw.randint(0, max(0, len(clip.maps) - PIECE))
    maps = clip.maps[begin : begin + PIECE].astype(np.float32)
    if draw.random() < 0.5:
        maps = maps[..., ::-1].copy()
        maps[:, 0] *= -1  # flow to the right is flow to the left in a mirror
    maps = np.roll(maps, (draw.randint(-1, 1), draw.randint(-1, 1)), (2, 3))
    flow, change, grey = (draw.uniform(*bounds) for bounds in SCALES)
    maps *= np.array([flow, flow, change, change, grey], np.float32)[:, None, None]
    missing = PIECE - len(maps)
    phases = clip.phases[begin : begin + PIECE]
    return (
        np.concatenate([maps, np.repeat(maps[-1:], missing, axis=0)]),
        np.concatenate([phases, np.full(missing, SKIPPED)]),
    )


def train(clips: list[Clip], seed: int) -> tuple[MotionNetwork, nn.Linear]:
    """The network and the classifier after all epochs."""
    torch.manual_seed(seed)
    draw = random.Random(seed)
    network, classifier = MotionNetwork(), nn.Linear(WIDTH, len(PHASES))
    parameters = [*network.parameters(), *classifier.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=HIGHEST_RATE, weight_decay=WEIGHT_DECAY)
    steps = EPOCHS * (len(clips) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, HIGHEST_RATE, total_steps=steps, pct_start=0.15)
    for _ in range(EPOCHS):
        draw.shuffle(clips)
        for begin in range(0, len(clips) - BATCH + 1, BATCH):
            pieces = [piece_of(clip, draw) for clip in clips[begin : begin + BATCH]]
            maps = torch.from_numpy(np.stack([maps for maps, _ in pieces]))
            phases = torch.from_numpy(np.stack([phases for _, phases in pieces]))
            tokens = network.tokens(maps.view(-1, MAPS, CELLS, CELLS)).view(BATCH, PIECE, -1)
            logits = classifier(network.through_time(tokens))[:, LAG:]
            loss = functional.cross_entropy(
                logits.flatten(0, 1),
                phases[:, : PIECE - LAG].flatten(),
                ignore_index=SKIPPED,
                label_smoothing=LABEL_SMOOTHING,
            )
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, LONGEST_STEP)
            optimizer.step()
            schedule.step()
    return network.eval(), classifier


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--fold", default="3", help="not trained on")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    swings = [swing for swing in read_swings(chosen.root / TABLE) if swing.fold not in (chosen.fold, "4")]
    clips = [read_clip(chosen.root / "clips" / swing.file, swing) for swing in swings]
    network, classifier = train(clips, chosen.seed)
    description = {
        "network": "motion-golf",
        "trained_on": f"GolfDB without fold {chosen.fold}: {len(clips)} clips at normal speed",
        "licence": "CC BY-NC 4.0: for non-commercial use",
        "made_by": "weights/recipes/train_motion.py",
    }
    with atomic_write(chosen.target) as temporary:
        save_file(network.state_dict(), temporary, {"motion": json.dumps(description)})
    with atomic_write(chosen.target.with_name("classifier.safetensors")) as temporary:
        save_file(classifier.state_dict(), temporary)


if __name__ == "__main__":
    main()
