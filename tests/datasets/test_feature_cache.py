"""Features that are extracted once and kept: every recording has its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipelines.datasets.item import Item
from pipelines.datasets.rows.feature_cache import MOST_WORKERS, WORTH_A_WORKER, _worth, cached_features
from pipelines.datasets.source import FeatureOptions
from pipelines.errors import InputError
from pipelines.features.request import FeatureRequest
from tests.features.made_recordings import write_sound


def test_links_of_one_name_in_several_folders_do_not_meet(tmp_path: Path) -> None:
    """Folders of links into one archive are how people sort clips without copying them."""
    items = []
    for number, label in enumerate(("cat", "dog")):
        real = write_sound(tmp_path / "archive" / f"{label}.wav", 1.0, seed=number)
        link = tmp_path / label / "a.wav"
        link.parent.mkdir()
        link.symlink_to(real)
        items.append(Item(f"{label}/a", "train", media=link, label=number))
    options = FeatureOptions(FeatureRequest("logmel"), cache=str(tmp_path / "cache"), workers=1)
    cat, dog = (cached.features[0] for cached in cached_features(items, options).items)
    assert cat != dog and not np.array_equal(np.load(cat), np.load(dog))


def test_files_that_differ_in_their_suffix_alone_are_refused(tmp_path: Path) -> None:
    sounds = [write_sound(tmp_path / f"a.{suffix}", 1.0, seed=seed) for seed, suffix in enumerate(("wav", "flac"))]
    options = FeatureOptions(FeatureRequest("logmel"), cache=str(tmp_path / "cache"), workers=1)
    with pytest.raises(InputError, match=r"a\.wav and a\.flac have the same name but for the suffix"):
        cached_features([Item(path.name, "train", media=path) for path in sounds], options)
    again = [Item(name, "train", media=sounds[0]) for name in ("one", "two")]  # a file may be there twice
    assert len(cached_features(again, options).items) == 2


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    options = FeatureOptions(FeatureRequest("logmel"), cache=str(tmp_path / "file"), workers=1)
    sound = write_sound(tmp_path / "a.wav", 1.0)
    with pytest.raises(InputError, match=r"cannot write to the cache folder .*file/.*COTRANS_CACHE sets another"):
        cached_features([Item("a", "train", media=sound)], options)


@pytest.mark.parametrize(("threads", "hours", "processes"), [(1, 9, 1), (3, 9, 3), (64, 9, MOST_WORKERS), (3, 0, 0)])
def test_threads_bound_the_processes(threads: int, hours: int, processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    assert hours * 3600 >= MOST_WORKERS * WORTH_A_WORKER or not hours
    assert _worth([Item("a", "train", duration=3600.0)] * hours) == processes
