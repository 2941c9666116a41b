"""Pictures that show no object: what a model of pictures should say "none of these" to.

Flat colours, noise, gradients, colour bars, test patterns, some of FFmpeg's, and slides of text, all made from a seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

SIDE = 256  # pixels: what the network's pictures are scaled to before their middle is cut out
Picture = NDArray[np.uint8]  # (SIDE, SIDE, 3) RGB
Draw = np.random.Generator
TEXT = (
    "model stream frame sound video feature window label score data result figure method train test speech learning "
    "of the and with for a in to from on is not we can more than 2024 17 % 3.5 Chapter Thank you Questions? Agenda"
)
SMPTE = ((191, 191, 191), (191, 191, 0), (0, 191, 191), (0, 191, 0), (191, 0, 191), (191, 0, 0), (0, 0, 191))
FFMPEG = ("testsrc", "testsrc2", "smptebars", "rgbtestsrc", "yuvtestsrc", "pal75bars")  # its others are to test with
FULL = ((255, 255, 255), (255, 255, 0), (0, 255, 255), (0, 255, 0), (255, 0, 255), (255, 0, 0), (0, 0, 255), (0, 0, 0))


def flat(draw: Draw) -> Picture:
    """Black, white, a grey or a colour."""
    levels = draw.choice(
        np.array([[0] * 3, [255] * 3, [draw.integers(0, 256)] * 3, draw.integers(0, 256, 3)], np.uint8)
    )
    return np.full((SIDE, SIDE, 3), levels, np.uint8)


def noise(draw: Draw) -> Picture:
    """Grains of one size, grey or coloured, of any strength around any level."""
    cells = max(2, SIDE // int(draw.choice([1, 1, 2, 4, 8, 16, 32])))
    values = draw.normal(0, draw.choice([4, 16, 40, 80, 160]), (cells, cells, int(draw.choice([1, 3]))))
    values = np.broadcast_to(values + draw.integers(0, 256), (cells, cells, 3))
    smooth = cv2.INTER_CUBIC if draw.random() < 0.5 else cv2.INTER_NEAREST
    return _levels(cv2.resize(np.ascontiguousarray(values), (SIDE, SIDE), interpolation=smooth))


def clouds(draw: Draw) -> Picture:
    """Noise whose large grains are stronger than its small ones."""
    steepness, channels = draw.uniform(0.5, 2.0), int(draw.choice([1, 3]))
    frequencies = np.hypot(np.fft.fftfreq(SIDE)[:, None], np.fft.fftfreq(SIDE)[None])
    frequencies[0, 0] = 1
    spectrum = np.fft.fft2(draw.normal(0, 1, (channels, SIDE, SIDE))) / frequencies**steepness
    spectrum[:, 0, 0] = 0
    values = np.fft.ifft2(spectrum).real
    values = values / values.std() * draw.uniform(10, 60) + draw.integers(60, 200)
    return _levels(np.broadcast_to(values.transpose(1, 2, 0), (SIDE, SIDE, 3)))


def gradient(draw: Draw) -> Picture:
    """From one colour to another, along a line or from the middle."""
    across, down = _places()
    angle = draw.uniform(0, 2 * math.pi)
    along = across * math.cos(angle) + down * math.sin(angle)
    share = np.hypot(across, down) if draw.random() < 0.3 else (along - along.min()) / np.ptp(along)
    first, last = draw.integers(0, 256, (2, 3)) if draw.random() < 0.7 else np.array([[0] * 3, [255] * 3])
    return _levels(first + np.clip(share, 0, 1)[..., None] * (last - first))


def bars(draw: Draw) -> Picture:
    """Colour bars or steps of grey, upright or lying."""
    colours = np.array([SMPTE, FULL, [[level] * 3 for level in range(0, 256, 32)]][draw.integers(3)], np.float64)
    picture = colours[np.arange(SIDE) * len(colours) // SIDE][None].repeat(SIDE, axis=0)
    if draw.random() < 0.3:
        begin = int(SIDE * draw.uniform(0.6, 0.8))
        picture[begin:] = picture[begin:, ::-1]
    return _levels(picture if draw.random() < 0.7 else picture.transpose(1, 0, 2))


def pattern(draw: Draw) -> Picture:
    """Squares, stripes, lines, rings or dots in two colours."""
    across, down = _places()
    size = float(draw.choice([4, 8, 16, 32, 64])) * 2 / SIDE
    kind = draw.integers(6)
    if kind == 0:
        on = (np.floor(across / size) + np.floor(down / size)) % 2
    elif kind == 1:
        angle = draw.choice([0, 0.25, 0.5]) * math.pi
        on = np.floor((across * math.cos(angle) + down * math.sin(angle)) / size) % 2
    elif kind == 2:
        on = ((across % size < 4 / SIDE) | (down % size < 4 / SIDE)).astype(np.float64)
    elif kind == 3:
        on = np.floor(np.hypot(across, down) / size) % 2
    elif kind == 4:
        on = (np.hypot(across % size - size / 2, down % size - size / 2) < size / 3).astype(np.float64)
    else:
        on = 0.5 + 0.5 * np.cos(np.hypot(across, down) ** 2 * draw.uniform(20, 300))  # a zone plate
    first, last = draw.integers(0, 256, (2, 3)) if draw.random() < 0.5 else np.array([[0] * 3, [255] * 3])
    return _levels(first + on[..., None] * (last - first))


def card(draw: Draw) -> Picture:
    """A test card: a grid, a circle, bars and a ramp."""
    picture = np.full((SIDE, SIDE, 3), int(draw.choice([0, 64, 128])), np.uint8)
    line = (255, 255, 255)
    for place in range(0, SIDE, int(draw.choice([16, 32]))):
        cv2.line(picture, (place, 0), (place, SIDE), line, 1)
        cv2.line(picture, (0, place), (SIDE, place), line, 1)
    colours = np.array(FULL if draw.random() < 0.5 else SMPTE, np.uint8)
    top = int(draw.integers(60, 110))
    picture[top : top + 50, 40:216] = colours[np.arange(176) * len(colours) // 176]
    picture[top + 60 : top + 80, 40:216] = np.linspace(0, 255, 176)[:, None]
    cv2.circle(picture, (SIDE // 2, SIDE // 2), int(draw.integers(90, 125)), line, 2)
    return picture


def slide(draw: Draw) -> Picture:
    """Lines of text, with a title or without."""
    dark = draw.random() < 0.5
    paper = draw.integers(0, 90, 3) if dark else draw.integers(200, 256, 3)
    if draw.random() < 0.5:
        paper = np.full(3, 0 if dark else 255)
    ink = [int(level) for level in (draw.integers(180, 256, 3) if dark else draw.integers(0, 80, 3))]
    picture = np.full((SIDE, SIDE, 3), paper, np.uint8)
    font = int(draw.choice([cv2.FONT_HERSHEY_SIMPLEX, cv2.FONT_HERSHEY_COMPLEX, cv2.FONT_HERSHEY_DUPLEX]))
    down = 30
    if draw.random() < 0.6:
        cv2.putText(picture, " ".join(draw.choice(TEXT.split(), 2)), (20, 40), font, draw.uniform(0.7, 1.1), ink, 2)
        down = 80
    size = draw.uniform(0.3, 0.7)
    for _ in range(draw.integers(1, 12)):
        text = " ".join(draw.choice(TEXT.split(), draw.integers(2, 9)))
        cv2.putText(picture, text, (20, down), font, size, ink, 1, cv2.LINE_AA)
        down += int(40 * size) + 4
    return picture


def ffmpeg(draw: Draw) -> Picture:
    """A picture out of FFmpeg's moving test patterns, scaled and cut to a square."""
    import av.filter

    graph = av.filter.Graph()
    source = graph.add(str(draw.choice(FFMPEG)), "size=320x240")
    wanted, end = graph.add("format", "rgb24"), graph.add("buffersink")
    source.link_to(wanted)
    wanted.link_to(end)
    graph.configure()
    for _ in range(draw.integers(1, 50)):
        frame = graph.pull()
    assert isinstance(frame, av.VideoFrame)
    return cv2.resize(frame.to_ndarray()[:, 40:280], (SIDE, SIDE)).astype(np.uint8)


def _places() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(SIDE, SIDE) to the right and downwards, from -1 to 1."""
    steps = np.linspace(-1, 1, SIDE)
    across, down = np.meshgrid(steps, steps)
    return across, down


def _levels(values: NDArray[np.floating[Any] | np.integer[Any]]) -> Picture:
    return np.asarray(np.clip(np.rint(values), 0, 255), np.uint8)


KINDS: dict[str, Callable[[Draw], Picture]] = {
    kind.__name__: kind for kind in (flat, noise, clouds, gradient, bars, pattern, card, slide, ffmpeg)
}


def made_pictures(count: int, seed: int) -> Iterator[tuple[str, Picture]]:
    """`count` of each kind, with its name."""
    for place, (name, make) in enumerate(KINDS.items()):
        for number in range(count):
            yield name, make(np.random.default_rng([seed, place, number]))
