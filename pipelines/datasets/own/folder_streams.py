"""`--mix-streams`: a folder of clips as streams in which they are to be spotted.

The clips of each label folder become events of streams with pauses, noise and bursts between them. What stands in a
folder with a name of `OTHER` has no label: pieces of it, of any length, lie between the words. Training streams also
hold words that are none (backwards, halves, in pieces, or of two), so that a voice alone does not give a word away, and
where there is other sound, two thirds of them hold nothing else: most of what a microphone hears is none of the words.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.item import Item
from pipelines.datasets.mixing.mixed_streams import MixingOptions, Take, mixed_streams
from pipelines.errors import InputError, UsageError
from pipelines.wording import listed

BACKGROUND = "background"
OTHER = (BACKGROUND, "other", "noise", "unknown", "silence", "_background_noise_", "_unknown_", "_silence_")
SAMPLE_RATE = 16000  # Hz
TRAINING_SECONDS = 1200.0  # of training streams, unless --passes says otherwise: what few recordings are stretched to
PAUSE = 0.6  # seconds between two words, about
PITCH, ROOMS = 0.15, 0.5


@dataclass(frozen=True)
class MixingRequest:
    """What a user may say about it; None: as the constants here have it."""

    seconds: float | None = None
    passes: int | None = None
    pitch: float | None = None
    rooms: float | None = None

    def refuse(self) -> None:
        """Raise where something was said and nothing is mixed."""
        for name in ("seconds", "passes", "pitch", "rooms"):
            if getattr(self, name) is not None:
                raise UsageError(f"--{name} is for streams that are mixed from clips: give --mix-streams too")


def mix_clips(dataset: Dataset, request: MixingRequest, seed: int) -> Dataset:
    """The clips of a dataset as streams with labels per frame."""
    words = [name for name in dataset.class_names if name.lower() not in OTHER]
    if not words:
        raise InputError(f"dataset {dataset.name}: {dataset.root} has nothing to spot, only {listed(OTHER)}")
    without = [item.name for item in dataset.items if item.media is None]
    if without:
        raise InputError(f"--mix-streams needs sound, and {listed(without)} in {dataset.root} are features alone")
    names = (BACKGROUND, *words)
    labels = [names.index(name) if name in words else None for name in dataset.class_names]
    options = MixingOptions(
        seconds=60.0 if request.seconds is None else request.seconds,
        seed=seed,
        rate=SAMPLE_RATE,
        passes=request.passes or _passes([item for item in dataset.items if item.split == "train"], labels),
        pitch=PITCH if request.pitch is None else request.pitch,
        rooms=ROOMS if request.rooms is None else request.rooms,
        near_misses=True,
    )
    items: list[Item] = []
    for split in dataset.splits:
        takes = [_take(item, labels) for item in dataset.split(split)]
        if any(take.label is not None for take in takes):
            items += mixed_streams(dataset.root.resolve().name, split, takes, dataset.root, options)
    return replace(dataset, kind="frames", class_names=names, items=tuple(items), background=0, spotted=True)


def _take(item: Item, labels: list[int | None]) -> Take:
    assert item.media is not None and item.label is not None
    return Take(item.media, labels[item.label], item.group or item.name)


def _passes(items: list[Item], labels: list[int | None]) -> int:
    """How often each recording is used, so that there is enough to train on."""
    lengths = [item.duration or 1.0 for item in items if item.label is not None and labels[item.label] is not None]
    return max(1, math.ceil(TRAINING_SECONDS / (sum(lengths) + PAUSE * len(lengths)))) if lengths else 1
