"""Makes short videos that show no golf swing, to fit the answer "none" of golf-swing with.

python weights/recipes/make_foreign_video.py FOREIGN/ --photos PHOTOS/ --videos VIDEOS/

Of photographs: still pictures, with the noise of a camera or without, a camera that shakes, pans or zooms, and cuts
from one to the next. Of videos: their first seconds, the middle square and, with --crops, two smaller ones. Besides,
made pictures that stand still, flickering noise and balls that fly. All are 160 × 160 and have 29.97 pictures a second,
as the clips of GolfDB have. --every 2 --from 1 takes every second photograph, so that there are others to test with.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pipelines.datasets.mixing.made_pictures import made_pictures
from pipelines.features.media import decode
from pipelines.features.media.info import VideoFrame

RATE = Fraction(30000, 1001)
SIDE = 160  # pixels
WIDE = 240  # pixels of a photograph's shorter side, in which a camera moves
SPARE = WIDE - SIDE
PICTURES = 90  # of a made video
LONGEST = 400  # pictures of a video that is there already
PHOTOGRAPHS = (".jpg", ".jpeg", ".png", ".webp")

Picture = NDArray[np.uint8]  # (height, width, 3) RGB
Draw = np.random.Generator


def photographs(folder: Path, begin: int, every: int) -> list[Picture]:
    """With a shorter side of 240 pixels."""
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in PHOTOGRAPHS)
    pictures = []
    for path in files[begin::every]:
        with Image.open(path) as image:
            scale = WIDE / min(image.size)
            size = tuple(max(WIDE, round(length * scale)) for length in image.size)
            pictures.append(np.asarray(image.convert("RGB").resize((size[0], size[1]))))
    return pictures


def view(photo: Picture, across: float, down: float, side: int = SIDE) -> Picture:
    """A square of a photograph, from so many pixels on."""
    left, top = (int(np.clip(value, 0, WIDE - side)) for value in (across, down))
    return np.asarray(cv2.resize(photo[top : top + side, left : left + side], (SIDE, SIDE)), np.uint8)


def still(photo: Picture, draw: Draw) -> Iterator[Picture]:
    yield from [view(photo, SPARE / 2, SPARE / 2)] * PICTURES


def grainy(photo: Picture, draw: Draw) -> Iterator[Picture]:
    picture, strength = view(photo, SPARE / 2, SPARE / 2), draw.choice([1, 2, 4])
    for _ in range(PICTURES):
        grain = draw.normal(0, strength, picture.shape[:2])[..., None]
        yield np.clip(picture + grain, 0, 255).astype(np.uint8)


def shaking(photo: Picture, draw: Draw) -> Iterator[Picture]:
    place, strength = np.full(2, SPARE / 2), draw.choice([0.3, 1.0, 2.5])
    for _ in range(PICTURES):
        place = place + draw.normal(0, strength, 2) - 0.1 * (place - SPARE / 2)
        yield view(photo, *place)


def panning(photo: Picture, draw: Draw) -> Iterator[Picture]:
    angle, speed = draw.uniform(0, 2 * np.pi), draw.choice([0.3, 0.8, 1.5])
    for time in np.arange(PICTURES) - PICTURES / 2:
        yield view(photo, *(SPARE / 2 + speed * time * np.array([np.cos(angle), np.sin(angle)])))


def zooming(photo: Picture, draw: Draw) -> Iterator[Picture]:
    inwards, speed = draw.random() < 0.5, draw.uniform(0.2, 0.6)
    for time in range(PICTURES):
        side = int(WIDE - speed * (time if inwards else PICTURES - time))
        yield view(photo, (WIDE - side) / 2, (WIDE - side) / 2, side)


def cutting(photos: Sequence[Picture], draw: Draw) -> Iterator[Picture]:
    for _ in range(8):
        picture = view(photos[int(draw.integers(len(photos)))], SPARE / 2, SPARE / 2)
        yield from [picture] * int(draw.integers(8, 45))


def flickering(draw: Draw) -> Iterator[Picture]:
    cells, level, strength = SIDE // int(draw.choice([1, 2, 4, 8, 16])), draw.uniform(40, 200), draw.uniform(4, 80)
    for _ in range(PICTURES):
        grey = np.clip(draw.normal(level, strength, (cells, cells)), 0, 255).astype(np.uint8)
        yield np.repeat(cv2.resize(grey, (SIDE, SIDE))[..., None], 3, axis=2)


def flying(draw: Draw) -> Iterator[Picture]:
    place, speed, size = draw.uniform(20, 140, 2), draw.normal(0, 4, 2), int(draw.integers(6, 28))
    for _ in range(PICTURES):
        place = place + speed
        speed = np.where((place < 10) | (place > 150), -speed, speed)
        picture = np.full((SIDE, SIDE, 3), 120, np.uint8)
        cv2.circle(picture, (int(place[0]), int(place[1])), size, (230, 230, 230), -1)
        yield picture


def played(path: Path, square: tuple[float, float, float]) -> Iterator[Picture]:
    """The first seconds of a video in our rate. square: place across and down and size, each a share."""
    rows, newest = 0, None
    for frame in decode(path, audio=False, video=True):
        assert isinstance(frame, VideoFrame)
        while newest is not None and rows / RATE < frame.time and rows < LONGEST:
            yield newest
            rows += 1
        if rows == LONGEST:
            return
        height, width = frame.image.shape[:2]
        side = int(min(height, width) * square[2])
        top, left = int((height - side) * square[1]), int((width - side) * square[0])
        cut = np.ascontiguousarray(frame.image[top : top + side, left : left + side])
        newest = np.asarray(cv2.resize(cut, (SIDE, SIDE), interpolation=cv2.INTER_AREA), np.uint8)


def write(path: Path, pictures: Iterator[Picture]) -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=RATE, options={"crf": "20"})
        stream.width = stream.height = SIDE
        stream.pix_fmt = "yuv420p"
        for picture in pictures:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))


OF_A_PHOTO: dict[str, Callable[[Picture, Draw], Iterator[Picture]]] = {
    kind.__name__: kind for kind in (still, grainy, shaking, panning, zooming)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path)
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--videos", type=Path, required=True)
    parser.add_argument("--from", dest="begin", type=int, default=0)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--crops", action="store_true")
    parser.add_argument("--count", type=int, default=12, help="of each kind of made video")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.target.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(options.seed)
    photos = photographs(options.photos, options.begin, options.every)
    for number in range(options.count):
        for kind, make in OF_A_PHOTO.items():
            write(options.target / f"{kind}-{number}.mp4", make(photos[draw.integers(len(photos))], draw))
        write(options.target / f"cutting-{number}.mp4", cutting(photos, draw))
        write(options.target / f"flickering-{number}.mp4", flickering(draw))
        write(options.target / f"flying-{number}.mp4", flying(draw))
    for number, (kind, picture) in enumerate(made_pictures(max(1, options.count // 4), options.seed + 100)):
        small = np.asarray(cv2.resize(picture, (SIDE, SIDE)), np.uint8)
        write(options.target / f"made-{kind}-{number}.mp4", iter([small] * PICTURES))
    for path in sorted(options.videos.iterdir()):
        squares = [(0.5, 0.5, 1.0)]
        if options.crops:
            squares += [(draw.random(), draw.random(), size) for size in (0.75, 0.55)]
        for number, square in enumerate(squares):
            write(options.target / f"video-{path.stem}-{number}.mp4", played(path, square))


if __name__ == "__main__":
    main()
