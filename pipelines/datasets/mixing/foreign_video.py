"""Short videos that belong to no class of anybody: black, flat colours, noise, test patterns, fades, made from numbers.

As with sounds (`foreign_sound`): a model that is to say "none of these" has to be shown some of what is not these.
Slides of text and clouds are not among them: somebody's classes may well look like that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from pipelines.datasets.mixing import made_pictures
from pipelines.datasets.mixing.made_pictures import SIDE, Draw, Picture
from pipelines.features.media import VideoFrame

SEED = 20_261_118
RATE = 20  # pictures a second; only those that become rows are drawn
DARK = 24  # levels of black as cameras and encoders have it, of 255
GRAIN = 3.0  # levels: the noise of a camera with its lid on

Film = Callable[[float], Picture]  # share of the time that is over -> what is seen


class MadeVideo(NamedTuple):
    """A video that belongs to no class."""

    kind: str
    seconds: float
    at: Film

    def frames(self) -> Iterator[VideoFrame]:
        """As `decode` yields them: drawn when they are looked at."""
        count = max(1, round(self.seconds * RATE))
        for number in range(count):
            yield VideoFrame(number / RATE, 1 / RATE, partial(self.at, number / count))


def foreign_videos(seconds: float) -> Iterator[MadeVideo]:
    """Videos of `seconds`, of every kind in turn, until there are as many of each as wanted."""
    for number in range(max(COUNTS.values())):
        for kind, count in COUNTS.items():
            if number < count:
                yield made_video(kind, number, seconds)


def made_video(kind: str, number: int, seconds: float) -> MadeVideo:
    """The video of a kind and a number, the same every time."""
    return MadeVideo(kind, seconds, KINDS[kind]([SEED, list(KINDS).index(kind), number]))


def _flat(levels: Callable[[Draw], object], seed: list[int]) -> Film:
    """One colour; every other one with the noise of a camera, which moves."""
    draw = np.random.default_rng(seed)
    colour = np.broadcast_to(np.asarray(levels(draw), np.float64), 3)
    grain = GRAIN * draw.random() if seed[-1] % 2 else 0.0

    def film(share: float) -> Picture:
        picture = np.broadcast_to(colour, (SIDE, SIDE, 3))
        if grain:
            picture = picture + np.random.default_rng([*seed, round(1e4 * share)]).normal(0, grain, picture.shape)
        return np.clip(np.rint(picture), 0, 255).astype(np.uint8)

    return film


def _noise(seed: list[int]) -> Film:
    """New grains in every picture, of one size and strength, as of a channel without a sender; some stand still."""
    moves = seed[-1] % 4 != 3

    def film(share: float) -> Picture:
        draw = np.random.default_rng(seed)
        cells, strength = int(draw.choice([1, 1, 1, 2, 4, 8])), draw.choice([30, 60, 90, 160])
        level = draw.uniform(60, 200)
        channels = int(draw.choice([1, 3]))
        flat = bool(draw.random() < 0.5)
        picture = np.random.default_rng([*seed, round(1e4 * share) if moves else 0])
        shape = (SIDE // cells, SIDE // cells, channels)
        values = picture.uniform(0, 255, shape) if flat else picture.normal(level, strength, shape)
        grains = np.clip(np.broadcast_to(values, (*shape[:2], 3)), 0, 255).astype(np.uint8)
        return np.ascontiguousarray(grains.repeat(cells, axis=0).repeat(cells, axis=1))

    return film


def _fade(seed: list[int]) -> Film:
    """Slowly from one colour, often black, to another."""
    draw = np.random.default_rng(seed)
    first, last = draw.integers(0, 256, (2, 3))
    if seed[-1] % 2:
        first, last = np.zeros(3), np.full(3, draw.integers(100, 256))

    def film(share: float) -> Picture:
        return np.full((SIDE, SIDE, 3), np.rint(first + share * (last - first)), np.uint8)

    return film


def _still(make: Callable[[Draw], Picture], seed: list[int]) -> Film:
    """A made picture that stays."""
    picture: list[Picture] = []

    def film(share: float) -> Picture:
        if not picture:
            picture.append(make(np.random.default_rng(seed)))
        return picture[0]

    return film


KINDS: dict[str, Callable[[list[int]], Film]] = {
    "black": partial(_flat, lambda draw: draw.choice([0, 16, int(draw.integers(0, DARK))])),
    "white": partial(_flat, lambda draw: draw.choice([255, 235, int(draw.integers(255 - DARK, 256))])),
    "grey": partial(_flat, lambda draw: draw.integers(30, 226)),
    "colour": partial(_flat, lambda draw: draw.integers(0, 256, 3)),
    "noise": _noise,
    "bars": partial(_still, made_pictures.bars),
    "test card": partial(_still, made_pictures.card),
    "test pattern": partial(_still, made_pictures.ffmpeg),
    "pattern": partial(_still, made_pictures.pattern),
    "gradient": partial(_still, made_pictures.gradient),
    "fade": _fade,
}
COUNTS = {
    "black": 6,
    "white": 4,
    "grey": 4,
    "colour": 8,
    "noise": 16,
    "bars": 6,
    "test card": 4,
    "test pattern": 8,
    "pattern": 8,
    "gradient": 4,
    "fade": 4,
}
ALWAYS_FOREIGN = ("black", "white", "grey", "colour", "noise", "bars", "test card", "test pattern")
