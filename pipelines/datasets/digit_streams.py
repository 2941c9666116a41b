"""Streams of spoken digits with pauses and noise between them: real sound for per-frame detection.

The root holds recordings DIGIT_SPEAKER_TAKE.wav or .flac (the free spoken digit dataset). They are put
together, in a seeded random order and each once per pass, into streams; what is said when is known to the
sample. One speaker is kept out of training, and validation streams have nobody else.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.dataset import SPLITS, Dataset
from pipelines.datasets.feature_files import attach_features
from pipelines.datasets.item import Item, Segment
from pipelines.datasets.media_check import check_media
from pipelines.datasets.prepared_folder import INDEX, prepared_folder
from pipelines.datasets.stream_mixer import SAMPLE_RATE, Recording, mix_stream, plan_streams, read_recording
from pipelines.errors import InputError, UsageError
from pipelines.files import write_text
from pipelines.wording import listed

OBTAIN = (
    "It should contain recordings named DIGIT_SPEAKER_TAKE.wav or .flac, such as 7_jackson_12.wav: they are in the "
    "folder 'recordings' of the free spoken digit dataset (`cotrans data get digits --root DIR` fetches it)"
)
NAME = re.compile(r"(\d)_([^_]+)_(\d+)")
CLASS_NAMES = ("background", *map(str, range(10)))
VERSION = 3  # of the mixing: another number makes other streams
HIGHEST_PITCH = 0.4  # beyond, digits are not those of people any more


@dataclass(frozen=True)
class MixingOptions:
    """How streams are put together."""

    seconds: float = 60.0  # of a stream, about
    seed: int = 0
    # For training streams only: others are the same whatever one trains on.
    passes: int = 1  # how often each recording is used
    pitch: float = 0.0  # largest relative change of a voice's pitch, formants and speed
    one_voice: bool = False  # nobody else in a stream


def open(
    root: Path,
    *,
    fold: str | None = None,
    test_fold: str | None = None,
    seconds: float = 60.0,
    passes: int = 1,
    pitch: float = 0.0,
    one_voice: bool = False,
    split_seed: int = 0,
    feature_dir: Path | None = None,
    hop: float | None = None,
) -> Dataset:
    """Streams from the recordings in `root`, made once and cached.

    `fold` is the speaker to validate on (default: the first by name), `test_fold` one to test on (default:
    nobody). Streams last about `seconds`; each training recording is used in `passes` of them, with a voice that
    is up to `pitch` (a share) higher or lower, and with nobody else in the stream if `one_voice`. `split_seed`
    draws the order, pauses and noise. `hop` is the seconds between rows of the features in `feature_dir`.
    """
    if not 0 <= pitch <= HIGHEST_PITCH:
        raise UsageError(f"--pitch is the largest change of voices, from 0 to {HIGHEST_PITCH}, not {pitch}")
    paths, problems = _recordings(root)
    durations, damaged = check_media(paths)
    problems += damaged
    good = [path for path in paths if path in durations]
    speakers = sorted({_parts(path)[1] for path in good})
    held_out = {fold or next(iter(speakers), ""): "validation"}
    if test_fold is not None:
        held_out[test_fold] = "test"
    _check_speakers(root, speakers, [*held_out], both=test_fold is not None)
    options = MixingOptions(seconds, split_seed, passes, pitch, one_voice)
    takes: dict[str, list[Path]] = {"train": [], "validation": [], "test": []}
    for path in good:
        takes[held_out.get(_parts(path)[1], "train")].append(path)
    items = [
        item
        for split, members in takes.items()
        if members
        for item in _streams(split, members, root, options, None if split == "train" else _parts(members[0])[1])
    ]
    dataset = Dataset(
        "digits", "frames", root, CLASS_NAMES, tuple(items), hop=hop, background=0, problems=tuple(problems)
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
    if len(speakers) <= len(held_out):
        raise InputError(f"dataset digits: nobody is left to train on: {root} has recordings of {', '.join(speakers)}")


def _streams(split: str, takes: list[Path], root: Path, options: MixingOptions, speaker: str | None) -> list[Item]:
    """The streams of one split, mixed now unless they are cached."""
    if split != "train":
        options = MixingOptions(options.seconds, options.seed)
    identity = json.dumps(
        [VERSION, split, asdict(options), str(root.resolve()), [[path.name, path.stat().st_size] for path in takes]]
    )

    def prepare(folder: Path) -> None:
        _mix_all(folder, split, takes, options)

    folder = prepared_folder(f"digits-{speaker or split}", identity, prepare)
    index: list[dict[str, float | str | list[list[float]]]] = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    return [_item(folder, split, speaker, entry) for entry in index]


def _item(folder: Path, split: str, speaker: str | None, entry: dict[str, float | str | list[list[float]]]) -> Item:
    events = entry["events"]
    assert isinstance(events, list)
    segments = tuple(Segment(start, end, int(label)) for start, end, label in events)
    return Item(
        name=f"{speaker or split}-{entry['name']}",
        split=split,
        media=folder / f"{entry['name']}.wav",
        segments=segments,
        duration=float(str(entry["duration"])),
        group=speaker,
    )


def _mix_all(folder: Path, split: str, takes: list[Path], options: MixingOptions) -> None:
    import soundfile

    # One generator per split, so that validation streams do not change with the training options.
    generator = np.random.default_rng([options.seed, SPLITS.index(split)])
    recordings = [Recording(_parts(path)[0] + 1, read_recording(path), _parts(path)[1]) for path in takes]
    groups = [recordings]
    if options.one_voice:
        voices = sorted({recording.voice for recording in recordings})
        groups = [[recording for recording in recordings if recording.voice == voice] for voice in voices]
    streams = [stream for group in groups for stream in plan_streams(group, options.seconds, options.passes, generator)]
    index = []
    for number, members in enumerate(streams):
        samples, events = mix_stream(_changed_voices(members, options, generator), generator)
        name = f"{number:04d}"
        soundfile.write(folder / f"{name}.wav", _as_integers(samples), SAMPLE_RATE, subtype="PCM_16")
        index.append({"name": name, "duration": len(samples) / SAMPLE_RATE, "events": events})
    write_text(folder / INDEX, json.dumps(index))


def _changed_voices(
    recordings: list[Recording], options: MixingOptions, generator: np.random.Generator
) -> list[Recording]:
    """A voice is changed in the same way in all of a stream, as if another person were speaking."""
    if not options.pitch:
        return recordings
    factors = {recording.voice: 0.0 for recording in recordings}
    for voice in sorted(factors):
        factors[voice] = float(generator.uniform(1 - options.pitch, 1 + options.pitch))
    return [recording.at_pitch(factors[recording.voice]) for recording in recordings]


def _as_integers(samples: NDArray[np.float32]) -> NDArray[np.int16]:
    """(n,) floats in [-1, 1] as 16-bit numbers."""
    return np.asarray(np.clip(np.rint(samples * 32767), -32768, 32767), dtype=np.int16)
