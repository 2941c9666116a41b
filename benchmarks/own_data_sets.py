"""Sets as a newcomer has them, made of public ones: what `cotrans train FOLDER` is measured on.

    python benchmarks/own_data_sets.py SET OUT/ --root PUBLIC/ [--draw 0]

| SET | PUBLIC/ | what is made |
| --- | --- | --- |
| esc10, three | ESC-10: CLASS/FOLD-….ogg | links to the clips of 5 s: all of it, or dog, rain and clock tick |
| events | the same | 36 recordings of 30 s, each with up to six pieces of 2.5 s in faint noise, and labels.csv |
| words | digits: DIGIT_SPEAKER_TAKE.flac | twelve takes of each speaker and digit, by digit |
| golf | GolfDB: swings.csv and clips/ | 120 pieces of 2 s around the impact, by view, without sound |

--draw: chance, by number; clips of `esc10` and `three` are not drawn.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

THREE = ("clock_tick", "dog", "rain")
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
TAKES = 12  # of each word and speaker
RECORDINGS, SECONDS, EVENT, RATE = 36, 30.0, 2.5, 22_050
EVENTS = 6  # in a recording, at most
NOISE = 1e-3  # behind the events
SWINGS, CUT = 120, 2.0  # clips, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=SETS, metavar="SET", help=", ".join(SETS))
    parser.add_argument("out", type=Path)
    parser.add_argument("--root", type=Path, required=True, help="the public set")
    parser.add_argument("--draw", type=int, default=0, help="which draw of clips")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True)
    SETS[arguments.name](arguments.root.resolve(), arguments.out, np.random.default_rng(arguments.draw))


def esc10(root: Path, out: Path, chance: np.random.Generator, classes: tuple[str, ...] = ()) -> None:
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        if folder.name in classes or not classes:
            (out / folder.name).symlink_to(folder, target_is_directory=True)


def three(root: Path, out: Path, chance: np.random.Generator) -> None:
    esc10(root, out, chance, THREE)


def events(root: Path, out: Path, chance: np.random.Generator) -> None:
    """Each recording has clips of one fold, which its name begins with."""
    import soundfile

    rows = []
    for number in range(RECORDINGS):
        fold = 1 + number % 4
        name = f"{fold}-recording-{number:02d}.wav"
        clips = sorted(root.glob(f"*/{fold}-*"))
        sound = chance.normal(0, NOISE, round(SECONDS * RATE))
        slots = np.sort(chance.choice(int(SECONDS / EVENT) // 2, chance.integers(3, EVENTS + 1), replace=False))
        for slot in slots.tolist():
            clip = clips[chance.integers(len(clips))]
            values, rate = soundfile.read(clip)
            assert rate == RATE, clip
            begin = 2 * EVENT * slot + chance.uniform(0, EVENT)
            piece = _loudest(values, round(EVENT * RATE))
            place = round(begin * RATE)
            piece = piece[: len(sound) - place]
            sound[place : place + len(piece)] += piece
            rows.append((name, f"{begin:.3f}", f"{min(begin + EVENT, SECONDS):.3f}", clip.parent.name))
        soundfile.write(out / name, sound, RATE)
    with (out / "labels.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("file", "start", "end", "label"), *rows])


def _loudest(values: np.ndarray, length: int) -> np.ndarray:
    energy = np.concatenate([[0.0], np.square(values).cumsum()])
    begin = int(np.argmax(energy[length:] - energy[:-length])) if len(values) > length else 0
    return values[begin : begin + length]


def words(root: Path, out: Path, chance: np.random.Generator) -> None:
    speakers = sorted({path.stem.split("_")[1] for path in root.glob("0_*_*.flac")})
    for digit, word in enumerate(DIGITS):
        (out / word).mkdir()
        for speaker in speakers:
            takes = sorted(root.glob(f"{digit}_{speaker}_*.flac"))
            for place in sorted(chance.choice(len(takes), TAKES, replace=False).tolist()):
                (out / word / f"{speaker}_{takes[place].stem.rpartition('_')[2]}.flac").symlink_to(takes[place])


def golf(root: Path, out: Path, chance: np.random.Generator) -> None:
    with (root / "swings.csv").open(encoding="utf-8", newline="") as file:
        swings = [row for row in csv.DictReader(file) if (root / "clips" / row["file"]).is_file()]
    for place in sorted(chance.choice(len(swings), SWINGS, replace=False).tolist()):
        swing = swings[place]
        (out / swing["view"]).mkdir(exist_ok=True)
        cut_video(root / "clips" / swing["file"], out / swing["view"] / f"{swing['player']}_{swing['file']}", swing)


def cut_video(source: Path, target: Path, swing: dict[str, str]) -> None:
    """The two seconds around the impact, encoded again."""
    import av

    with av.open(str(source)) as played, av.open(str(target), "w") as written:
        rate = played.streams.video[0].average_rate
        assert rate is not None
        length = min(round(CUT * float(rate)), int(swing["frames"]))
        begin = min(max(0, int(swing["impact"]) - length // 2), int(swing["frames"]) - length)
        stream = written.add_stream("libx264", rate=rate)
        stream.width, stream.height = played.streams.video[0].width, played.streams.video[0].height
        stream.pix_fmt = "yuv420p"
        for index, frame in enumerate(played.decode(video=0)):
            if begin <= index < begin + length:
                written.mux(stream.encode(av.VideoFrame.from_ndarray(frame.to_ndarray(format="rgb24"), "rgb24")))
        written.mux(stream.encode(None))


def join_clips(clips: Sequence[Path], out: Path, pause: float = 0.0) -> list[tuple[float, float]]:
    """Write media of one kind in a row, each followed by silence or black; seconds at which each and its pause end.

    Sound at the rate of the first clip, pictures of its size at its rate.
    """
    return (_join_video if clips[0].suffix == ".mp4" else _join_sound)(clips, out, pause)


def _join_sound(clips: Sequence[Path], out: Path, pause: float) -> list[tuple[float, float]]:
    import soundfile
    import soxr

    parts, ends, rate = [], [], soundfile.info(clips[0]).samplerate
    for clip in clips:
        values, own = soundfile.read(clip, always_2d=True)
        sound = values.mean(axis=1)
        parts.append(sound if own == rate else soxr.resample(sound, own, rate))
        end = sum(map(len, parts)) / rate
        parts.append(np.zeros(round(pause * rate)))
        ends.append((end, sum(map(len, parts)) / rate))
    soundfile.write(out, np.concatenate(parts), rate)
    return ends


def _join_video(clips: Sequence[Path], out: Path, pause: float) -> list[tuple[float, float]]:
    import av

    ends, count = [], 0
    with av.open(str(clips[0])) as first, av.open(str(out), "w") as written:
        rate = first.streams.video[0].average_rate
        assert rate is not None
        stream = written.add_stream("libx264", rate=rate)
        stream.width, stream.height = first.streams.video[0].width, first.streams.video[0].height
        stream.pix_fmt = "yuv420p"
        black = np.zeros((stream.height, stream.width, 3), np.uint8)
        for clip in clips:
            with av.open(str(clip)) as played:
                own = played.streams.video[0].average_rate
                assert own is not None
                length = round(played.streams.video[0].frames * float(rate) / float(own))
                pictures = [
                    frame.reformat(stream.width, stream.height).to_ndarray(format="rgb24")
                    for frame in played.decode(video=0)
                ]
            places = np.minimum((np.arange(length) * float(own) / float(rate)).astype(int), len(pictures) - 1)
            blacks = [black] * round(pause * float(rate))
            for picture in [*(pictures[place] for place in places), *blacks]:
                written.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
            count += length + len(blacks)
            ends.append(((count - len(blacks)) / float(rate), count / float(rate)))
        written.mux(stream.encode(None))
    return ends


SETS: dict[str, Callable[[Path, Path, np.random.Generator], None]] = {
    "three": three,
    "esc10": esc10,
    "events": events,
    "words": words,
    "golf": golf,
}


if __name__ == "__main__":
    main()
