"""Streams of spoken digits with pauses and noise between them: real sound for per-frame detection.

The root holds recordings DIGIT_SPEAKER_TAKE.wav or .flac (the free spoken digit dataset). They are put
together, in a seeded random order and each once per pass, into streams; what is said when is known to the
sample. One speaker is kept out of training, and validation streams have nobody else.
"""

from __future__ import annotations

import re
from pathlib import Path

import weights
from pipelines.datasets.dataset import Dataset
from pipelines.datasets.item import Item
from pipelines.datasets.mixing.mixed_streams import MixingOptions, Take, mixed_streams
from pipelines.datasets.own.media_check import check_media
from pipelines.datasets.rows.feature_files import attach_features
from pipelines.errors import InputError, UsageError
from pipelines.wording import listed

OBTAIN = (
    "It should contain recordings named DIGIT_SPEAKER_TAKE.wav or .flac, such as 7_jackson_12.wav: they are in the "
    "folder 'recordings' of the free spoken digit dataset (`cotrans data get digits --root DIR` fetches it)"
)
SAMPLE = Path(weights.__file__).parent / "samples" / "digits"
SAMPLE_RATE = 8000  # Hz: that of the recordings
NAME = re.compile(r"(\d)_([^_]+)_(\d+)")
NOBODY = "none"  # in place of a speaker: everybody is trained on
CLASS_NAMES = ("background", *map(str, range(10)))


def open(
    root: Path,
    *,
    fold: str | None = None,
    test_fold: str | None = None,
    seconds: float = 60.0,
    passes: int = 1,
    pitch: float = 0.0,
    one_voice: bool = False,
    rooms: float = 0.0,
    as_files: float = 0.0,
    split_seed: int = 0,
    feature_dir: Path | None = None,
    hop: float | None = None,
) -> Dataset:
    """Streams from the recordings in `root`, made once and cached.

    `fold` is the speaker to validate on (default: the first by name; `none`: nobody), `test_fold` one to test on
    (default: nobody). Streams last about `seconds`; each training recording is used in `passes` of them, with a voice
    that is up to `pitch` (a share) higher or lower, and with nobody else in the stream if `one_voice`; a share `rooms`
    of the training streams is heard through another room and microphone; a share `as_files` of the training recordings
    is heard once more without noise, three at a time, from the first sample on. `split_seed` draws order, pauses and
    noise. `hop` is the seconds between rows of the features in `feature_dir`.
    """
    options = MixingOptions(seconds, split_seed, SAMPLE_RATE, passes, pitch, one_voice, rooms, as_files)
    paths, problems = _recordings(root)
    if root == SAMPLE:
        problems.append(
            f"these are the {len(paths)} recordings that ship with cotrans, a small part of the free spoken digit "
            "dataset: `cotrans data get digits --root DIR` fetches all of it"
        )
    durations, damaged = check_media(paths)
    problems += damaged
    good = [path for path in paths if path in durations]
    speakers = sorted({_parts(path)[1] for path in good})
    held_out = {} if fold == NOBODY else {fold or next(iter(speakers), ""): "validation"}
    if test_fold is not None:
        held_out[test_fold] = "test"
    _check_speakers(root, speakers, [*held_out], both=test_fold is not None and fold != NOBODY)
    takes: dict[str, list[Path]] = {"train": [], "validation": [], "test": []}
    for path in good:
        takes[held_out.get(_parts(path)[1], "train")].append(path)
    if not takes["train"]:  # enough to score a model on somebody new
        problems.append(f"nobody is left to train on: {root} has recordings of {', '.join(speakers)}")
    items = [item for split, members in takes.items() for item in _streams(split, members, root, options)]
    dataset = Dataset(
        "digits",
        "frames",
        root,
        CLASS_NAMES,
        tuple(items),
        hop=hop,
        background=0,
        spotted=True,
        problems=tuple(problems),
    )
    return attach_features(dataset, feature_dir, hop=hop)


def _recordings(root: Path) -> tuple[list[Path], list[str]]:
    folder = root / "recordings" if (root / "recordings").is_dir() else root
    sounds = sorted(path for path in folder.iterdir() if path.suffix.lower() in (".wav", ".flac"))
    named = [path for path in sounds if NAME.fullmatch(path.stem)]
    if not named:
        raise InputError(f"dataset digits: no recordings in {folder}. {OBTAIN}")
    strange = [path.name for path in sounds if not NAME.fullmatch(path.stem)]
    return named, [f"not named DIGIT_SPEAKER_TAKE, left out: {listed(strange)}"] if strange else []


def _parts(path: Path) -> tuple[int, str]:
    """Digit and speaker of a recording."""
    digit, speaker, _ = path.stem.split("_")
    return int(digit), speaker


def _check_speakers(root: Path, speakers: list[str], held_out: list[str], both: bool) -> None:
    for speaker in held_out:
        if speaker not in speakers:
            raise UsageError(f"no recordings of '{speaker}' in {root}: there are {listed(speakers, most=12)}")
    if both and len(held_out) < 2:
        raise UsageError(f"speaker '{held_out[0]}' cannot be for validation and for test")


def _streams(split: str, paths: list[Path], root: Path, options: MixingOptions) -> list[Item]:
    """Training streams, of all speakers together or of each alone; otherwise those of the speaker who is kept out."""
    takes = [Take(path, digit + 1, speaker) for path in paths for digit, speaker in [_parts(path)]]
    if split == "train" and not options.one_voice:
        return mixed_streams("digits", split, takes, root, options) if takes else []
    # A speaker's own streams are the same whoever is kept out, so they and their features are made once.
    return [
        item
        for speaker in sorted({take.voice for take in takes})
        for item in mixed_streams(
            "digits", split, [take for take in takes if take.voice == speaker], root, options, speaker
        )
    ]
