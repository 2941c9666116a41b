"""Collects sounds that are none of the classes of sound-events and music-genre, to train their answer "none" with.

python weights/recipes/make_foreign.py FOREIGN/ --gtzan GTZAN/ --digits DIGITS/
python weights/recipes/make_foreign.py FOREIGN/ --no-music --digits DIGITS/ --esc10 ESC10/

Excerpts of five seconds: game, desktop and telephone sounds of Debian packages (fetched with apt-get download and
unpacked with dpkg-deb), music, spoken digits, and white noise of many levels and sampling rates. What sounds like a
class of ESC-10 by its name is left out.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pipelines.datasets.mixing.foreign_sound import MadeSound, made_sound
from pipelines.datasets.mixing.sound_files import Samples, read_sound, write_sound
from pipelines.errors import CotransError

RATE = 16000
LENGTH = 5 * RATE
SEED = 0
# Package: how many of its sounds are taken at the most.
PACKAGES = {
    "tuxpaint-stamps-default": 100,
    "wesnoth-1.16-data": 80,
    "lincity-ng-data": 70,
    "minetest-data": 30,
    "freedroidrpg-data": 30,
    "scorched3d-data": 30,
    "colobot-common-sounds": 40,
    "sonic-pi-samples": 40,
    "sound-theme-freedesktop": 24,
    "unknown-horizons": 20,
    "scratch": 80,
    "micropolis-data": 20,
}
# Their sounds are partly music, which music-genre should have a name for.
MUSICAL = ("sonic-pi-samples", "colobot-common-sounds", "unknown-horizons", "scratch")
SPEECH = ("asterisk-core-sounds-en-wav", "asterisk-core-sounds-fr-wav")
SPOKEN, DIGITS, MUSIC, CLIPS = 24, 16, 40, 80  # excerpts
NOISES = range(1000, 1112)  # numbers of made white noise, beside the first ones, which training adds by itself
LIKE_A_CLASS = re.compile(
    r"fire|flame|lava|water|rain|wave|ocean|lake|dog|wolf|rooster|baby|helicop|harbor|burn|music|/mus|sea_?lion"
    r"|torch|sneez|_desc|symbols/",
    re.IGNORECASE,
)
SOUNDS = (".ogg", ".wav", ".oga", ".flac", ".mp3")


def package_sounds(package: str, place: Path) -> list[Path]:
    """The sound files of a Debian package, unpacked into a folder of its own."""
    folder = place / package
    folder.mkdir()
    subprocess.run(["apt-get", "download", "-qq", package], cwd=folder, check=True)
    subprocess.run(["dpkg-deb", "-x", str(next(folder.glob("*.deb"))), str(folder)], check=True)
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix in SOUNDS and not LIKE_A_CLASS.search(str(path.relative_to(folder)))
    )


def excerpt(sound: Samples, generator: random.Random) -> Samples:
    """Five seconds: a part, or all of it at a random place, every third time repeated with pauses."""
    if len(sound) > LENGTH:
        begin = generator.randrange(len(sound) - LENGTH + 1)
        return sound[begin : begin + LENGTH]
    if generator.random() < 1 / 3 and len(sound) > RATE // 10:
        period = np.concatenate([sound, np.zeros(generator.randrange(RATE), np.float32)])
        sound = np.tile(period, LENGTH // len(period) + 1)[:LENGTH]
    result = np.zeros(LENGTH, np.float32)
    begin = generator.randrange(LENGTH - len(sound) + 1)
    result[begin : begin + len(sound)] = sound
    return result


def chained(paths: list[Path], generator: random.Random) -> Samples:
    """Five seconds of recordings one after the other, with pauses."""
    parts: list[Samples] = []
    while sum(map(len, parts)) < LENGTH:
        parts += [read_sound(generator.choice(paths), RATE), np.zeros(generator.randrange(RATE // 2), np.float32)]
    return np.concatenate(parts)[:LENGTH]


def collected(options: argparse.Namespace, place: Path) -> Iterator[MadeSound]:
    """Excerpts, and made noise, each with its kind."""
    yield from (made_sound("white noise", number, LENGTH / RATE) for number in NOISES)
    for kind, samples in excerpts(options, place):
        yield MadeSound(kind, samples, RATE)


def excerpts(options: argparse.Namespace, place: Path) -> Iterator[tuple[str, Samples]]:
    """The kind and the samples (n,) of each excerpt."""
    for package, most in PACKAGES.items():
        if options.no_music and package in MUSICAL:
            continue
        generator = random.Random(f"{SEED} {package}")
        paths = package_sounds(package, place)
        for path in generator.sample(paths, min(most, len(paths))):
            try:
                sound = read_sound(path, RATE)[: 30 * RATE]
            except CotransError:
                continue  # packages hold a few files that are no sound
            if len(sound) > RATE // 20 and np.abs(sound).max() > 1e-3:
                yield package, excerpt(sound, generator)
    speech = [package_sounds(package, place) for package in SPEECH]
    generator = random.Random(f"{SEED} speech")
    for number in range(SPOKEN):
        yield "speech", chained(speech[number % len(speech)], generator)
    for kind, root, count in (("digits", options.digits, DIGITS), ("music", options.gtzan, MUSIC)):
        if root is None:
            continue
        paths = sorted(path for path in root.rglob("*") if path.suffix in SOUNDS)
        for number in range(count):
            yield (
                kind,
                chained(paths, generator)
                if kind == "digits"
                else excerpt(read_sound(paths[number * len(paths) // count], RATE), generator),
            )
    if options.esc10 is not None:
        paths = sorted(path for path in options.esc10.rglob("*") if path.suffix in SOUNDS)
        for path in generator.sample(paths, min(CLIPS, len(paths))):
            yield "esc10", excerpt(read_sound(path, RATE), generator)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path)
    parser.add_argument("--gtzan", type=Path, help="music, for sound-events")
    parser.add_argument("--digits", type=Path, help="the free spoken digit dataset")
    parser.add_argument("--esc10", type=Path, help="sounds, for music-genre")
    parser.add_argument("--no-music", action="store_true", help="leave out packages that hold music")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        counts: dict[str, int] = {}
        for kind, samples, rate in collected(options, Path(place)):
            (options.target / kind).mkdir(parents=True, exist_ok=True)
            counts[kind] = counts.get(kind, 0) + 1
            path = options.target / kind / f"{counts[kind]:03d}.wav"
            write_sound(path, np.clip(samples, -1, 1), rate, "pcm_s16le")
    sys.stdout.write(", ".join(f"{count} of {kind}" for kind, count in counts.items()) + "\n")


if __name__ == "__main__":
    main()
