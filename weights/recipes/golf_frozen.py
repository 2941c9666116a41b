"""Frozen features on golf swings: what `efficientnet_lite0` gives without training, beside `motion`, which was trained.

python weights/recipes/golf_frozen.py GOLF/ frozen.json --fold 1 --maps maps/ --rows rows/

Every sixth clip of each fold, and of each clip the frames around its swing: a row costs 6 ms or more of a core.
Pictures enter as they are, 160 × 160. On these rows learn a linear layer, which sees one picture, and a continual
transformer of golf-transformer's sizes; on the same frames the network of `motion` learns as train_motion.py trains
it. All are scored on the frames of the fold that was kept out. docs/results.md has the figures.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from pipelines.datasets.published.golf import PHASES, TABLE, TEST_FOLD, read_swings
from pipelines.evaluation.scores.ordered_events import score_events
from pipelines.evaluation.scores.predictions import Predictions
from pipelines.features.media import decode
from pipelines.features.media.info import VideoFrame
from pipelines.features.video.efficientnet import EfficientNetLite0
from pipelines.features.video.efficientnet_runtime import fast_form
from pipelines.features.video.key_tables import EFFICIENTNET_TABLES
from pipelines.features.video.motion import DILATIONS
from pipelines.features.video.parameters import load_weights
from pipelines.features.video.preprocessing import EFFICIENTNET_MEAN, EFFICIENTNET_SCALE
from pipelines.features.weights.registry import SHIPPED
from pipelines.files import atomic_write
from pipelines.model.transformer.config import ModelConfig
from pipelines.model.transformer.model import ContinualTransformer
from weights.recipes import train_motion
from weights.recipes.make_golf_swing import LAG, swing_order
from weights.recipes.train_motion import SKIPPED, Clip, Trial, dwells, predictions_of, read_clip, said_of

EVERY = 6  # clips of a fold
SIDE = 160  # pixels: the clips as they are
PIECE = 136  # frames: a window and what is learned beside it
BATCH = 12
EPOCHS = 120
HIGHEST_RATE = 1e-3

Values = NDArray[np.float32]
Scores = tuple[float, float, float]  # PCE, rows right, clips in order row by row


def around_the_swing(clip: Clip) -> Clip:
    """The clip without what is far from its swing."""
    first, last = clip.near
    events = tuple(event - first for event in clip.swing.events)
    swing = replace(clip.swing, events=events, frames=last - first)
    return Clip(swing, np.asarray(clip.maps[first:last]), clip.phases[first:last])


def rows_of(path: Path, clip: Clip, compute: Callable[[Tensor], Tensor], kept: Path) -> Values:
    """(frames around the swing, 1280). kept: folder in which rows wait for the next run."""
    file = kept / f"{clip.swing.file}.npy"
    if not file.is_file():
        first, last = clip.near
        images = [frame.image for frame in decode(path, audio=False, video=True) if isinstance(frame, VideoFrame)]
        rows = np.concatenate([compute(prepared(image)).numpy() for image in images[first:last]])
        with atomic_write(file) as temporary, temporary.open("wb") as stream:
            np.save(stream, rows.astype(np.float16))
    return np.asarray(np.load(file, allow_pickle=False), np.float32)


def prepared(image: NDArray[np.uint8]) -> Tensor:
    """(160, 160, 3) RGB -> (1, 3, 160, 160)."""
    if image.shape != (SIDE, SIDE, 3):
        raise SystemExit(f"pictures must be {SIDE} × {SIDE}, not {image.shape}")
    values = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1).float()
    return ((values - EFFICIENTNET_MEAN) / EFFICIENTNET_SCALE).contiguous()[None]


class OnePicture(nn.Module):
    """A linear layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Dropout(0.3), nn.Linear(width, len(PHASES)))

    def forward(self, rows: Tensor) -> Tensor:
        """(B, T, width) -> (B, T, phases)."""
        logits: Tensor = self.layers(rows)
        return logits


class Remembering(nn.Module):
    """A continual transformer, whose row speaks of the frame 8 rows before it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        config = ModelConfig(
            input_width=width,
            width=64,
            heads=4,
            feed_forward=128,
            blocks=1,
            window=48,
            classes=len(PHASES),
            lag=LAG,
            positional="relative",
            embedding=64,
            embedding_dropout=0.2,
            input_dropout=0.1,
            dropout=0.1,
        )
        self.model = ContinualTransformer(config)

    def forward(self, rows: Tensor) -> Tensor:
        """(B, T, width) -> (B, T, phases)."""
        return self.model.steps(rows, self.model.initial_state(len(rows)))[0]


def train_head(head: nn.Module, lag: int, clips: Sequence[Clip], rows: Sequence[Values], draw: random.Random) -> None:
    """On random pieces of all clips; `head` is changed in place."""
    optimizer = torch.optim.AdamW(head.parameters(), lr=HIGHEST_RATE, weight_decay=0.01)
    steps = EPOCHS * (len(clips) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, HIGHEST_RATE, total_steps=steps, pct_start=0.15)
    order = list(range(len(clips)))
    for _ in range(EPOCHS):
        draw.shuffle(order)
        for begin in range(0, len(order) - BATCH + 1, BATCH):
            batch = order[begin : begin + BATCH]
            starts = [draw.randint(0, max(0, len(rows[place]) - PIECE)) for place in batch]
            pieces = [piece(rows[place], start) for place, start in zip(batch, starts, strict=True)]
            phases = torch.full((BATCH, PIECE), SKIPPED)
            for row, (place, start) in enumerate(zip(batch, starts, strict=True)):
                there = clips[place].phases[start : start + PIECE]
                phases[row, : len(there)] = torch.from_numpy(there)
            logits = head(torch.from_numpy(np.stack(pieces)))[:, lag:]
            wanted = phases[:, : PIECE - lag].flatten()
            loss = functional.cross_entropy(
                logits.flatten(0, 1), wanted, ignore_index=SKIPPED, label_smoothing=train_motion.LABEL_SMOOTHING
            )
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(head.parameters(), train_motion.LONGEST_STEP)
            optimizer.step()
            schedule.step()
    head.eval()


def piece(rows: Values, start: int) -> Values:
    """(PIECE, width) from `start` on; after the end the last row stays."""
    there = rows[start : start + PIECE]
    return np.concatenate([there, np.repeat(there[-1:], PIECE - len(there), axis=0)])


def scores_of(said: Predictions) -> Scores:
    """Percent."""
    events = score_events(said, PHASES)
    return 100 * events.pce, 100 * events.row_accuracy, 100 * events.in_order


def compare(
    training: Sequence[Clip], kept_out: Sequence[Clip], rows: dict[str, Values], seed: int
) -> dict[str, Scores]:
    """Scores of both heads on frozen rows (of each file), and of the network that learns from the same frames."""
    learned = np.concatenate([rows[clip.swing.file] for clip in training])
    mean, deviation = learned.mean(axis=0), learned.std(axis=0) + 1e-3
    standard = {file: (values - mean) / deviation for file, values in rows.items()}
    order = swing_order(dwells(training)[0])
    results: dict[str, Scores] = {}
    for name, kind, lag in (("linear", OnePicture, 0), ("transformer", Remembering, LAG)):
        torch.manual_seed(seed)
        head = kind(learned.shape[1])
        train_head(head, lag, training, [standard[clip.swing.file] for clip in training], random.Random(seed))
        with torch.inference_mode():
            logits = [head(torch.from_numpy(standard[clip.swing.file])[None])[0].numpy() for clip in kept_out]
        results[name] = scores_of(said_of(kept_out, logits, order, lag)[0])
    network, classifier = train_motion.train(training, Trial(seed, train_motion.EPOCHS, LAG, DILATIONS))
    return {**results, "motion": scores_of(predictions_of(network, classifier, kept_out, order)[0])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--fold", default="1", help="not trained on, scored")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--maps", type=Path, required=True, help="folder of maps, as train_motion.py keeps them")
    parser.add_argument("--rows", type=Path, required=True, help="folder of rows, which are computed once for all runs")
    chosen = parser.parse_args()
    swings = [swing for swing in read_swings(chosen.root / TABLE) if swing.fold != TEST_FOLD]
    folds = sorted({swing.fold for swing in swings})
    some = [swing for fold in folds for swing in [each for each in swings if each.fold == fold][::EVERY]]
    whole = [read_clip(chosen.root / "clips" / swing.file, swing, chosen.maps) for swing in some]
    network = EfficientNetLite0()
    load_weights(network, "_fc", SHIPPED / "efficientnet_lite0.safetensors", EFFICIENTNET_TABLES)
    compute = fast_form(network.eval(), "features", SIDE, "cpu")
    with torch.inference_mode():
        rows = {
            clip.swing.file: rows_of(chosen.root / "clips" / clip.swing.file, clip, compute, chosen.rows)
            for clip in whole
        }
    clips = [around_the_swing(clip) for clip in whole]
    training = [clip for clip in clips if clip.swing.fold != chosen.fold]
    kept_out = [clip for clip in clips if clip.swing.fold == chosen.fold]
    results: dict[str, dict[str, Scores]] = {}
    for seed in chosen.seeds:
        results[str(seed)] = compare(training, kept_out, rows, seed)
        described = {"fold": chosen.fold, "clips": [len(training), len(kept_out)], "seeds": results}
        with atomic_write(chosen.target) as temporary:
            temporary.write_text(json.dumps(described, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
