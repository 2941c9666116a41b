"""Media at the pace of the clock: where pieces of sound end, and that nothing is lost between them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from pipelines.features.media import AudioBlock
from pipelines.streaming import PlayOptions, Stream, find_sources
from pipelines.streaming.playing.paced_media import PIECE, in_real_time
from pipelines.streaming.playing.pacing import PlaybackClock
from pipelines.streaming.playing.pump import Arrived, Over
from tests.streaming.made_streams import small_model, write_sound

RATE = 16_000


class Pump:
    """What a source gave, without a thread."""

    def __init__(self, blocks: list[AudioBlock]) -> None:
        self._messages: list[Arrived | Over] = [*(Arrived(block, 0.0) for block in blocks), Over(None)]

    def get(self) -> Arrived | Over | None:
        return self._messages.pop(0) if self._messages else None


def pieces(begin: float, *piece_end: Callable[[float], float]) -> list[AudioBlock]:
    sound = np.arange(RATE, dtype=np.float32)
    borders = [0, 5_000, 5_001, 12_345, RATE]
    blocks = [AudioBlock(sound[first:last], RATE, first / RATE) for first, last in pairwise(borders)]
    clock = PlaybackClock()
    clock.start(10.0)  # all of it has been played long ago
    pump: Any = Pump(blocks)
    given = [item.item for item in in_real_time(pump, clock, begin, Event(), *piece_end) if isinstance(item, Arrived)]
    assert all(isinstance(item, AudioBlock) for item in given)
    np.testing.assert_array_equal(np.concatenate([item.samples for item in given]), sound)
    assert [round(item.time * RATE) for item in given] == np.cumsum([0, *(len(one.samples) for one in given)])[
        :-1
    ].tolist()
    return given


def test_sound_comes_in_short_pieces() -> None:
    given = pieces(0.0)
    assert max(piece.end - piece.time for piece in given) == pytest.approx(PIECE)


def test_pieces_end_where_they_are_told_to() -> None:
    ends = [piece.end for piece in pieces(0.0, lambda media: 0.08 * (int((media + 1e-6) / 0.08) + 1))]
    own = {5_000 / RATE, 5_001 / RATE, 12_345 / RATE, 1.0}  # of the blocks
    assert ends == pytest.approx(sorted([*(0.08 * row for row in range(1, 13)), *own]))


def test_what_was_played_before_comes_at_once() -> None:
    given = pieces(0.2)
    assert given[0].end == pytest.approx(0.2) and given[1].end == pytest.approx(0.2 + PIECE)


@pytest.mark.parametrize("hop", [0.02, 0.08, 0.25])
def test_a_piece_of_a_file_ends_with_the_sound_of_its_row(tmp_path: Path, hop: float) -> None:
    """Whatever its rate: the row waits for nothing but the clock."""
    path = write_sound(tmp_path / "sound.wav", 0.9, 22_050)
    ends: list[float] = []
    model = small_model(tmp_path, "logmel", hop=hop)
    options = PlayOptions(late="wait", longest_lag=60.0)
    with Stream(
        find_sources([str(path)]), model, options, on_media=lambda _, item, time: ends.append(item.end)
    ) as stream:
        rows = list(stream)
    assert len(rows) == int(0.9 / hop + 1e-6)
    for row in rows:
        assert min(abs(end - row.index * hop - hop) for end in ends) < 1e-3
    assert len(ends) <= len(rows) + 0.9 / 0.1 + 3
