"""Sound that is resampled while it is decoded."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from pipelines.features.media import AudioBlock, DamagedMediaError, Resampler, VideoFrame
from pipelines.features.media.resampled_audio import at_rate

SAMPLES = np.random.default_rng(0).normal(size=22_050).astype(np.float32)
BEGIN = 3.0  # media seconds


def in_pieces(rate: int = 22_050, damaged: bool = False) -> Iterator[AudioBlock | VideoFrame]:
    """A second of sound in pieces of all sizes, with a picture among them."""
    places = [0, 1, 500, 501, 9000, len(SAMPLES)]
    for first, last in itertools.pairwise(places):
        yield AudioBlock(SAMPLES[first:last], rate, BEGIN + first / rate)
    yield VideoFrame(BEGIN, 0.1, lambda: np.zeros((1, 1, 3), np.uint8))
    if damaged:
        raise DamagedMediaError("a.wav", "it ends in the middle", BEGIN + 1)


@pytest.mark.parametrize("damaged", [False, True])
def test_pieces_are_those_of_the_resampled_whole(damaged: bool) -> None:
    items: list[AudioBlock | VideoFrame] = []
    if damaged:
        with pytest.raises(DamagedMediaError, match="ends in the middle"):
            items.extend(at_rate(in_pieces(damaged=True), 16_000))
    else:
        items.extend(at_rate(in_pieces(), 16_000))
    blocks = [item for item in items if isinstance(item, AudioBlock)]
    assert len(items) == len(blocks) + 1
    whole = Resampler(22_050, 16_000)
    np.testing.assert_array_equal(
        np.concatenate([block.samples for block in blocks]), np.concatenate([whole.push(SAMPLES), whole.flush()])
    )
    assert all(block.rate == 16_000 for block in blocks)
    assert blocks[0].time == BEGIN
    for before, after in itertools.pairwise(blocks):
        assert after.time == pytest.approx(before.end, abs=1e-9)


def test_sound_that_has_the_rate_is_left_alone() -> None:
    items = list(in_pieces(16_000))
    assert list(at_rate(items, 16_000)) == items
