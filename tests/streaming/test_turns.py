"""Sources that take turns in one thread: when each has its turn, what is computed together, and what goes wrong."""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import Thread, Timer, current_thread
from typing import Any

import numpy as np
import pytest

from pipelines.features.extractor import Rows
from pipelines.features.joint import FeatureStream
from pipelines.features.request import FeatureRequest
from pipelines.features.stream_factory import StreamFactory
from pipelines.streaming.playing.rota import Rota, take_turns
from pipelines.streaming.playing.turns import Bell, Turns, a_while


def a_stream(seconds: float) -> FeatureStream:
    """A feature stream that has accepted some sound."""
    stream = StreamFactory(FeatureRequest("logmel", hop=0.1)).prototype()
    stream.accept_audio(np.zeros(round(16_000 * seconds), np.float32), 16_000)
    return stream


def play(slots: dict[int, Turns[None]], bell: Bell, threads: int = 1) -> None:
    rota = Rota(slots, bell)
    helpers = [Thread(target=take_turns, args=(rota,)) for _ in range(threads)]
    for helper in helpers:
        helper.start()
    for helper in helpers:
        helper.join()


def test_everybody_has_a_turn_when_it_is_due() -> None:
    begin = time.monotonic()
    turns: list[tuple[str, float]] = []

    def player(name: str, hop: float) -> Turns[None]:
        for number in range(1, 4):
            yield begin + number * hop
            turns.append((name, time.monotonic() - begin - number * hop))

    play({0: player("often", 0.03), 1: player("seldom", 0.08)}, Bell())
    assert sorted(name for name, _ in turns) == ["often"] * 3 + ["seldom"] * 3
    assert min(late for _, late in turns) >= 0.0


def test_a_bell_calls_before_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.streaming.playing.turns.PATIENCE", 60.0)
    bell, called = Bell(), []

    def player(slot: int) -> Turns[None]:
        while slot not in called:
            yield a_while()

    def call(slot: int) -> None:
        called.append(slot)
        bell.ring(slot)

    for slot in (0, 1):
        Timer(0.05 * (slot + 1), call, [slot]).start()
    begin = time.monotonic()
    play({0: player(0), 1: player(1)}, bell)
    assert time.monotonic() - begin < 60.0


def test_rows_that_are_wanted_together_are_computed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []

    def counted(streams: Sequence[FeatureStream]) -> list[Rows]:
        batches.append(len(streams))
        return [np.full((len(streams), 1), number, np.float32) for number, _ in enumerate(streams)]

    monkeypatch.setattr("pipelines.streaming.playing.turns.rows_of_streams", counted)
    given: dict[int, Any] = {}
    begin = time.monotonic() + 0.5  # all have joined by then

    def player(slot: int, asks: int) -> Turns[None]:
        yield begin
        for _ in range(asks):
            given[slot] = yield a_stream(0.0)

    play({slot: player(slot, 1 + slot) for slot in range(3)}, Bell())
    assert batches == [3, 2, 1]
    assert all(computed.seconds >= 0.0 for computed in given.values())


def test_each_source_gets_its_own_rows() -> None:
    lengths: dict[int, int] = {}

    def player(slot: int) -> Turns[None]:
        computed = yield a_stream(0.35 + 0.1 * slot)
        assert computed is not None
        lengths[slot] = len(computed.rows)

    play({slot: player(slot) for slot in range(4)}, Bell())
    assert lengths == {0: 3, 1: 4, 2: 5, 3: 6}


def test_what_goes_wrong_in_a_batch_is_told_to_its_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(streams: Sequence[FeatureStream]) -> list[Rows]:
        raise MemoryError("no room")

    monkeypatch.setattr("pipelines.streaming.playing.turns.rows_of_streams", broken)
    told: list[str] = []

    def player(asks: bool) -> Turns[None]:
        try:
            yield a_stream(0.0) if asks else time.monotonic() + 0.02
            told.append("went on")
        except MemoryError as error:
            told.append(str(error))

    play({0: player(True), 1: player(True), 2: player(False)}, Bell())
    assert sorted(told) == ["no room", "no room", "went on"]


def test_sources_begin_one_after_the_other_while_no_turn_is_overdue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.streaming.playing.rota.JOINING", 0.03)
    began: list[float] = []
    busy: list[float] = []

    def player(slot: int) -> Turns[None]:
        began.append(time.monotonic())
        if slot == 0:  # as long as its turns are overdue, nobody joins
            until = time.monotonic() + 0.2
            while time.monotonic() < until:
                yield time.monotonic()
            busy.append(time.monotonic())
        yield time.monotonic() + 0.5

    play({slot: player(slot) for slot in range(3)}, Bell())
    assert len(began) == 3
    assert busy[0] <= began[1] and began[1] + 0.03 <= began[2]


def test_a_source_joins_at_once_when_all_before_it_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.streaming.playing.rota.JOINING", 3600.0)
    played: list[int] = []

    def player(slot: int) -> Turns[None]:
        played.append(slot)
        yield time.monotonic() + 0.01

    play({slot: player(slot) for slot in range(3)}, Bell())
    assert played == [0, 1, 2]


def test_threads_share_the_turns_and_no_slot_has_two_at_a_time() -> None:
    """While one computes, another plays what has become due; each source goes on in its order."""
    given: dict[int, list[int]] = {slot: [] for slot in range(12)}
    inside: set[int] = set()
    names: set[str] = set()

    def player(slot: int) -> Turns[None]:
        for number in range(15):
            yield time.monotonic() + 0.002
            assert slot not in inside
            inside.add(slot)
            names.add(current_thread().name)
            time.sleep(0.002)  # somebody else's turn, if it were let
            inside.remove(slot)
            computed = yield a_stream(0.1)
            assert computed is not None and len(computed.rows) == 1
            given[slot].append(number)

    play({slot: player(slot) for slot in range(12)}, Bell(), threads=3)
    assert all(numbers == list(range(15)) for numbers in given.values())
    assert len(names) > 1
