"""Changed copies of training clips, made once and cached: what a model should not depend on.

What is changed of sound stands in `changed_sound`, of pictures in `changed_video`; of clips whose features take both,
both are changed, at one speed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

from pipelines.datasets.item import Item
from pipelines.datasets.mixing.changed_sound import copy_sound
from pipelines.datasets.mixing.changed_video import SUFFIX, copy_video
from pipelines.datasets.mixing.prepared_folder import INDEX, prepared_folder
from pipelines.errors import InputError
from pipelines.features.media import probe
from pipelines.files import write_text

VERSION = {"audio": 1, "video": 1}  # of the changes: another number makes other copies
SOUND = frozenset({"audio"})
LONGEST = 60.0  # seconds: a longer clip varies by itself, and its copy would take as long as many others
MOST_WORKERS = 8
OnItem = Callable[[int, int, str], None]  # copies done, copies in all, what comes next


def changed_copies(
    items: Sequence[Item],
    copies: int,
    root: Path,
    chosen: Collection[str] | None = None,
    seed: int = 0,
    tracks: frozenset[str] = SOUND,
    on_item: OnItem | None = None,
) -> list[Item]:
    """So many copies of each item of at most a minute that can be decoded, with its label.

    chosen: the names of the items whose copies are wanted. All are made, so that another choice, of another fold, finds
    its own. tracks: what features are made of, "audio", "video" or both; a copy has nothing else.
    """
    copied = [item for item in items if item.media is not None and _seconds(item) <= LONGEST]
    paths = [Path(str(item.media)) for item in copied]
    made = []
    for copy in range(1, copies + 1):
        files = [[str(path), path.stat().st_size] for path in paths]
        versions = [VERSION[track] for track in sorted(tracks)]
        identity = json.dumps([*versions, seed, copy, str(root.resolve()), files])
        kind = "" if tracks == SOUND else f"{'-'.join(sorted(tracks))}-"

        def make(folder: Path, copy: int = copy) -> None:
            _make_all(folder, copied, [seed, copy], tracks, on_item)

        folder = prepared_folder(f"{root.resolve().name}-{kind}copy-{copy}", identity, make, paths)
        names: list[str | None] = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        made += [
            replace(
                item,
                name=f"{item.name}, copy {copy}",
                media=folder / name,
                duration=None,
                features=(),
                copy_of=item.name,
            )
            for item, name in zip(copied, names, strict=True)
            if name is not None and (chosen is None or item.name in chosen)
        ]
    return made


def _seconds(item: Item) -> float:
    """How long a clip is; 0 where only decoding would tell."""
    if item.duration is not None:
        return item.duration
    try:
        return probe(Path(str(item.media))).duration or 0.0
    except InputError:  # of which its own features will tell
        return 0.0


def _make_all(
    folder: Path, items: Sequence[Item], seed: list[int], tracks: frozenset[str], on_item: OnItem | None
) -> None:
    """Copies of all items side by side: decoders and encoders leave Python to others while they work."""
    import torch

    pool = ThreadPoolExecutor(max(1, min(torch.get_num_threads(), MOST_WORKERS, len(items))))
    try:
        waiting = [pool.submit(_make, folder, number, item, seed, tracks) for number, item in enumerate(items)]
        names = []
        for number, (item, copy) in enumerate(zip(items, waiting, strict=True)):
            if on_item is not None:
                on_item(number, len(items), f"copy of {item.name}")
            names.append(copy.result())
    finally:
        pool.shutdown(cancel_futures=True)
    if on_item is not None and items:
        on_item(len(items), len(items), "")
    write_text(folder / INDEX, json.dumps(names))


def _make(folder: Path, number: int, item: Item, seed: list[int], tracks: frozenset[str]) -> str | None:
    """The name of an item's copy in the folder; None where the item cannot be decoded to its end."""
    # A generator for each item: copies stay what they are when other items come or go.
    generator = np.random.default_rng([*seed, *item.name.encode()])
    source, stem = Path(str(item.media)), f"{number:05d}"
    try:
        if tracks == SOUND:
            return copy_sound(source, folder, stem, generator)
        copy_video(source, folder / f"{stem}{SUFFIX}", generator, sound="audio" in tracks)
    except InputError:
        (folder / f"{stem}{SUFFIX}").unlink(missing_ok=True)
        return None
    return f"{stem}{SUFFIX}"
