"""Changed copies of clips: the same sound through other codecs, a little faster or slower, with noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipelines.datasets.item import Item
from pipelines.datasets.mixing.changed_copies import changed_copies
from pipelines.datasets.mixing.changed_sound import CODECS, RATE, SPEED, Codec, changed
from pipelines.datasets.mixing.sound_files import read_sound, write_sound
from tests.datasets.dataset_builders import write_sound as write_noise

SECONDS = 2.0


def melody() -> np.ndarray:
    times = np.arange(round(SECONDS * RATE)) / RATE
    return (0.3 * np.sin(2 * np.pi * (300 + 100 * times) * times)).astype(np.float32)


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.encoder)
def test_every_codec_keeps_the_sound_and_changes_the_samples(codec: Codec, tmp_path: Path) -> None:
    sound = melody()
    path = tmp_path / f"copy{codec.suffix}"
    write_sound(path, sound, RATE, codec.encoder, min(codec.bit_rates, default=None))
    decoded = read_sound(path, RATE)
    # Codecs begin with a delay, and some fill up their last frame.
    spectra = np.fft.rfft(sound, 1 << 17) * np.conj(np.fft.rfft(decoded, 1 << 17))
    likeness = np.fft.irfft(spectra).max() / np.linalg.norm(sound) / np.linalg.norm(decoded)
    assert likeness > 0.9 and not np.array_equal(decoded[: len(sound)], sound[: len(decoded)])


def test_a_change_is_small_and_seeded() -> None:
    sound = melody()
    first, again, other = (changed(sound, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert len(first) != len(other)
    for samples in (first, other):
        assert (1 - 1.1 * SPEED) * len(sound) < len(samples) < (1 + 1.1 * SPEED) * len(sound)
        assert np.isfinite(samples).all() and 0.05 < np.abs(samples).max() <= 1.0


def test_copies_have_the_labels_of_their_items_and_are_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COTRANS_CACHE", str(tmp_path / "cache"))
    items = []
    for number in range(6):
        path = tmp_path / "clips" / f"{number}.wav"
        write_noise(path, seconds=1.0, seed=number)
        items.append(Item(f"clip {number}", "train", media=path, label=number % 2))
    copies = changed_copies([*items, Item("features alone", "train", label=0)], 2, tmp_path / "clips")
    assert [copy.label for copy in copies] == [item.label for item in items] * 2
    assert len({copy.name for copy in copies} | {item.name for item in items}) == 18
    assert all(copy.media is not None and copy.media.is_file() and copy.split == "train" for copy in copies)
    assert len({copy.media.suffix for copy in copies if copy.media}) > 1
    before = {copy.media: copy.media.stat().st_mtime_ns for copy in copies if copy.media}
    assert changed_copies(items, 2, tmp_path / "clips") == copies
    assert before == {path: path.stat().st_mtime_ns for path in before}
    chosen = changed_copies(items, 2, tmp_path / "clips", {"clip 1", "clip 4"})
    assert chosen == [copies[place] for place in (1, 4, 7, 10)]
    # Of fewer items, each has the copy that it had.
    fewer = changed_copies(items[:3], 1, tmp_path / "clips")
    for few, many in zip(fewer, copies, strict=False):
        assert few.media is not None and many.media is not None
        np.testing.assert_array_equal(read_sound(few.media, RATE), read_sound(many.media, RATE))
