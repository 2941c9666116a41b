"""Features of a dataset's media, extracted once and kept.

The files of a recording stand in a folder that is named after the specification of the features and the place of the
media, so other settings or other recordings of the same name never meet.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipelines.datasets.item import Item
from pipelines.datasets.source import FeatureOptions
from pipelines.errors import InputError
from pipelines.features.extraction.engines import Engine, LocalEngine
from pipelines.features.extraction.parallel import extract_in_parallel
from pipelines.features.extraction.recording import Outcome, Target, extract_recording, look_up
from pipelines.features.extraction.sources import Recording
from pipelines.features.spec import FeatureSpec
from pipelines.features.stream_factory import StreamFactory
from pipelines.settings import cache_dir, unwritable_cache

LAYOUT = "npy"
MOST_WORKERS = 8  # unless the recipe says more
WORTH_A_WORKER = 60.0  # seconds of media; with less to do, starting a process takes longer than it saves
OnItem = Callable[[int, int, str], None]  # recordings done, recordings in all, the one that comes next


@dataclass(frozen=True)
class CachedFeatures:
    """Items with their feature files."""

    items: tuple[Item, ...]
    spec: FeatureSpec
    problems: dict[str, str]  # name of an item -> what is wrong with it; it may still be among the items


def cached_features(
    items: Sequence[Item],
    features: FeatureOptions,
    on_item: OnItem | None = None,
    mine: Sequence[int] | None = None,
    wait: Callable[[], None] | None = None,
    device: str = "auto",
    engine: Engine | None = None,
) -> CachedFeatures:
    """The items with features of their media; what is not in the cache is extracted now.

    mine: the indices that this process extracts, of several that share the work; wait: until all have done theirs.
    Without `wait` there are others of which nobody knows how far they are: after its own it takes what they have left.
    Items whose media cannot be used are left out and reported. engine: who extracts, if not processes of this machine.
    """
    assert features.request is not None
    _refuse_clashes([item.media for item in items if item.media is not None])
    streams = StreamFactory(features.request, device)
    spec = streams.prototype().spec
    folder = cache_folder(features, spec)
    target = Target(folder, LAYOUT, "float32", force=False)
    if wait is not None:  # the processes of a distributed run are the workers
        for index in mine or []:
            _outcome(items[index], target, streams)
        wait()
    order = [*dict.fromkeys([*(mine or []), *range(len(items))])]
    known: dict[int, Outcome | None] = {}
    if wait is None:
        known.update(_in_parallel(items, order, target, streams, features.workers, on_item, engine))
    for count, index in enumerate(order):
        if on_item is not None:
            on_item(count, len(items), items[index].name)
        known[index] = known.get(index) or _outcome(items[index], target, streams)
    extracted: list[Item] = []
    problems: dict[str, str] = {}
    for index, item in enumerate(items):
        outcome = known[index]
        if outcome is None:
            problems[item.name] = f"{item.name}: there is no media to extract features from, left out"
            continue
        if outcome.status in ("done", "skipped", "damaged"):
            extracted.append(replace(item, features=(folder / f"{outcome.name}.npy",)))
        if outcome.message:
            problems[item.name] = outcome.message
    if on_item is not None:
        on_item(len(items), len(items), "")
    if items and not extracted:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable_cache(folder, error) from error
        raise InputError(f"no features could be extracted: {next(iter(problems.values()))}")
    return CachedFeatures(tuple(extracted), spec, problems)


def cache_folder(features: FeatureOptions, spec: FeatureSpec) -> Path:
    """Where the features of a specification are kept."""
    return (Path(features.cache) if features.cache else cache_dir() / "features") / _digest(spec)


def _refuse_clashes(media: Sequence[Path]) -> None:
    """Two files that differ in their suffix alone would have one file of features, and one of them the other's."""
    owners: dict[str, Path] = {}
    for path in media:
        owner = owners.setdefault(_recording(path).name, path)
        if owner.name != path.name:
            raise InputError(f"{owner} and {path.name} have the same name but for the suffix: rename one of them")


def _outcome(item: Item, target: Target, streams: StreamFactory) -> Outcome | None:
    """What there is for an item after this; None without media."""
    if item.media is None:
        return None
    recording = _recording(item.media)
    outcome = extract_recording(recording, target, streams, wait=True)
    if outcome.status == "conflict":
        # The same place and name, another file: the old one is of no use to anybody.
        outcome = extract_recording(recording, replace(target, force=True), streams, wait=True)
    return outcome


def _in_parallel(
    items: Sequence[Item],
    order: Sequence[int],
    target: Target,
    streams: StreamFactory,
    workers: int,
    on_item: OnItem | None,
    engine: Engine | None,
) -> dict[int, Outcome]:
    """Extract what is not there in several processes, of this machine or of the engine.

    Outcomes by index, of what went well; the rest is looked at again one by one, where errors get their words.
    """
    media = {index: items[index].media for index in order}
    waiting = [index for index, path in media.items() if path and not _is_there(path, target, streams)]
    count = min(workers or _worth([items[index] for index in waiting]), len(waiting))
    if not waiting or (engine is None and count < 2):
        return {}
    recordings = [_recording(Path(str(items[index].media))) for index in waiting]
    outcomes: dict[int, Outcome] = {}
    done = len(items) - len(waiting)
    if on_item is not None:
        on_item(done, len(items) + 1, "")  # the first takes a while: processes start
    for place, outcome in extract_in_parallel(recordings, target, streams, engine or LocalEngine(count), wait=True):
        done += 1
        if on_item is not None:
            on_item(done, len(items) + 1, items[waiting[place]].name)
        if outcome.status in ("done", "damaged"):
            outcomes[waiting[place]] = outcome
    return outcomes


def _worth(items: Sequence[Item]) -> int:
    """How many processes pay off, of those that `--threads` allows; a recording of unknown length counts as long."""
    import torch

    seconds = sum(WORTH_A_WORKER if item.duration is None else item.duration for item in items)
    return min(torch.get_num_threads(), MOST_WORKERS, int(seconds / WORTH_A_WORKER))


def _is_there(media: Path, target: Target, streams: StreamFactory) -> bool:
    try:
        outcome = look_up(_recording(media), target, streams)
    except InputError:
        return True  # what is wrong with it is said when it is looked at by itself
    return outcome is not None and outcome.status != "conflict"


def _recording(media: Path) -> Recording:
    """A file and the name of its features, which keeps files of the same name in different folders apart."""
    # The folder that the file is named in: links with the same name in several folders may lead to one.
    place = hashlib.sha256(str(media.parent.resolve()).encode()).hexdigest()[:16]
    return Recording(media, f"{place}/{media.stem}")


def _digest(spec: FeatureSpec) -> str:
    text = json.dumps(spec.to_dict(), sort_keys=True)
    name = "".join(letter if letter.isalnum() else "-" for letter in spec.name)
    return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
