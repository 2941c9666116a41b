"""GTZAN: ten genres of music, a hundred clips of 30 s each."""

from __future__ import annotations

import re
from pathlib import Path

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.item import Item
from pipelines.datasets.own.media_check import check_media
from pipelines.datasets.own.splits import exact_fractions
from pipelines.datasets.published.gtzan_folds import fold_of_clips
from pipelines.datasets.published.shipped import shipped_list
from pipelines.datasets.rows.feature_files import attach_features
from pipelines.errors import InputError, UsageError
from pipelines.wording import listed

GENRES = ("blues", "classical", "country", "disco", "hiphop", "jazz", "metal", "pop", "reggae", "rock")
FOLDERS = ("genres", "genres_original", "Data/genres_original", "")
# In order of preference when a clip is there twice.
SUFFIXES = (".wav", ".au", ".flac", ".ogg", ".mp3")
SHORTEST = 1.0  # seconds: one feature window
SPLITS = ("random", "fault-filtered")
OBTAIN = (
    "It should contain genres/GENRE/GENRE.00000.wav (or genres_original/…; .wav, .au, .ogg, .flac or .mp3), ten "
    "genres with a hundred clips each: `cotrans data get gtzan --root DIR` fetches them"
)


def open(
    root: Path,
    *,
    split: str = "random",
    validation: float | None = None,
    split_seed: int = 0,
    fold: str | None = None,
    feature_dir: Path | None = None,
) -> Dataset:
    """The clips in `root`, divided by `split`.

    `random`: a tenth for test and `validation` (default 0.1; the paper takes 0.18 when it trains the encoder)
    for validation, drawn with `split_seed`. `fault-filtered`: the fixed lists of 443, 197 and 290 clips
    without repetitions, distortions and artists on both sides; with `fold`, 1 to 5, a part of the first two is for
    validation and the rest for training (`gtzan_folds`).
    """
    if split not in SPLITS:
        raise UsageError(f"gtzan has no split '{split}': choose from {', '.join(SPLITS)}")
    if split == "fault-filtered" and validation is not None:
        raise UsageError("the fault-filtered split of gtzan is a fixed list: --validation does not go with it")
    folds = fold_of_clips(shipped_list("gtzan_fault_filtered"))
    if fold is not None and split != "fault-filtered":
        raise UsageError("--fold is for the fault-filtered split of gtzan: --split fault-filtered")
    if fold is not None and fold not in folds.values():
        raise UsageError(f"gtzan has no fold '{fold}': choose from {', '.join(sorted({*folds.values()}))}")
    clips, problems = _find_clips(root)
    durations, damaged = check_media(clips.values(), SHORTEST)
    problems += damaged
    good = {name: path for name, path in clips.items() if path in durations}
    if split == "random":
        chosen = exact_fractions(sorted(good), split_seed, 0.1 if validation is None else validation, 0.1)
    else:
        chosen, absent = _fault_filtered(set(good), root)
        problems += absent
        if fold is not None:
            chosen.update({name: "validation" if folds[name] == fold else "train" for name in chosen if name in folds})
    items = [
        Item(
            name,
            chosen[name],
            media=path,
            label=GENRES.index(name.partition(".")[0]),
            duration=durations[path],
            group=folds.get(name) if split == "fault-filtered" else None,
        )
        for name, path in sorted(good.items())
        if name in chosen
    ]
    dataset = Dataset("gtzan", "clips", root, GENRES, tuple(items), problems=tuple(problems))
    return attach_features(dataset, feature_dir)


def _find_clips(root: Path) -> tuple[dict[str, Path], list[str]]:
    """Clip names with their files, and what was left out."""
    for folder in FOLDERS:
        base = root / folder
        present = [genre for genre in GENRES if (base / genre).is_dir()]
        if present:
            break
    else:
        raise InputError(f"dataset gtzan: no genre folders in {root}. {OBTAIN}")
    problems = [f"no folder for the genre '{genre}' in {base}" for genre in GENRES if genre not in present]
    clips: dict[str, Path] = {}
    for genre in present:
        strange = []
        for path in sorted((base / genre).iterdir()):
            if path.name.startswith("."):
                continue
            if not re.fullmatch(rf"{genre}\.\d{{5}}", path.stem) or path.suffix.lower() not in SUFFIXES:
                strange.append(path.name)
                continue
            rival = clips.get(path.stem)
            if rival is not None:
                problems.append(f"clip {path.stem} is there twice: {rival.name} and {path.name}")
            if rival is None or _preference(path) < _preference(rival):
                clips[path.stem] = path
        if strange:
            problems.append(f"not clips of '{genre}', left out: {listed(strange)} in {base / genre}")
    if not clips:
        raise InputError(f"dataset gtzan: no clips in {base}. {OBTAIN}")
    return clips, problems


def _preference(path: Path) -> int:
    return SUFFIXES.index(path.suffix.lower())


def _fault_filtered(names: set[str], root: Path) -> tuple[dict[str, str], list[str]]:
    """The split of each clip that is on the lists, and what is not there."""
    chosen: dict[str, str] = {}
    problems = []
    for split, members in shipped_list("gtzan_fault_filtered").items():
        missing = [name for name in members if name not in names]
        if missing:
            problems.append(
                f"{len(missing)} of the {len(members)} clips of the {split} list are not in {root}, going on "
                f"without them: {listed(missing)}"
            )
        chosen.update({name: split for name in members if name in names})
    return chosen, problems
