"""What all audio extractors promise: pieces of any size give the rows of the whole, and no row hears the future."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pipelines.errors import InputError, UsageError
from pipelines.features.audio import build_audio_extractor
from pipelines.features.audio.row_samples import SampleClock
from pipelines.features.audio.windowed import WindowedExtractor

RATE = 16000
EXTRACTORS = {
    "vggish": {"random_weights": True},
    "musicnn": {},
    "musicnn-musical": {"options": {"network": "msd_musicnn", "output": "middle"}},
    "speech": {},
    "soundnet": {},
    "logmel": {"options": {"n_mels": 20, "window": 0.3}},
    "logmel-frames": {"options": {"n_mels": 20, "frames": 4}},
    "logmel-relative": {"options": {"n_mels": 20, "window": 0.3, "level": "relative"}},
}
_built: dict[tuple[str, float, str], WindowedExtractor] = {}


def extractor(key: str, hop: float = 0.25, align: str = "causal") -> WindowedExtractor:
    """A fresh one; the networks are built once for all tests."""
    if (key, hop, align) not in _built:
        same = next((built for (name, _, _), built in _built.items() if name == key), None)
        name = key.split("-")[0]
        if same is None or name == "logmel":  # the window of logmel depends on the hop
            built = build_audio_extractor(name, hop, align=align, **EXTRACTORS[key])
        else:
            clock = SampleClock(hop, same.sample_rate, same._clock.window, align)
            built = WindowedExtractor(same.spec, clock, same._front_end, same._count, same._rows_of)
        _built[key, hop, align] = built
    return _built[key, hop, align].fresh()


def noise(samples: int, seed: int = 0) -> NDArray[np.float32]:
    return (0.1 * np.random.default_rng(seed).standard_normal(samples)).astype(np.float32)


def rows_of(stream: WindowedExtractor, pieces: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    return np.concatenate([*(stream.push(piece) for piece in pieces), stream.flush()])


def assert_same(actual: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6 * max(1.0, float(np.abs(expected).max())))


@pytest.mark.parametrize("key", EXTRACTORS)
@settings(max_examples=8, deadline=None)
@given(
    samples=st.integers(1, 24000),
    cuts=st.lists(st.floats(0, 1), max_size=8),
    hop=st.sampled_from([0.1, 0.2, 0.25, 1.2]),
    align=st.sampled_from(["causal", "centre", "start"]),
)
@example(samples=16000, cuts=[], hop=0.25, align="causal")
def test_pieces_of_any_size_give_the_rows_of_the_whole(
    key: str, samples: int, cuts: list[float], hop: float, align: str
) -> None:
    audio = noise(samples, seed=samples)
    stream = extractor(key, hop, align)
    whole = rows_of(stream, [audio])
    pieces = np.split(audio, sorted(int(cut * samples) for cut in cuts))
    assert_same(rows_of(extractor(key, hop, align), pieces), whole)
    assert len(whole) == max(1, int((samples + 0.0006 * stream.sample_rate) / (hop * stream.sample_rate)))


@pytest.mark.parametrize("key", EXTRACTORS)
def test_single_samples_give_the_rows_of_the_whole(key: str) -> None:
    audio = noise(5000)
    pieces = list(audio.reshape(-1, 1))
    assert_same(rows_of(extractor(key, 0.1), pieces), rows_of(extractor(key, 0.1), [audio]))


def test_a_caller_may_reuse_the_buffer_that_was_pushed() -> None:
    audio, buffer, stream = noise(8000), np.empty(100, np.float32), extractor("logmel", 0.1)
    rows = []
    for piece in audio.reshape(-1, 100):
        buffer[:] = piece
        rows.append(stream.push(buffer))
    assert_same(np.concatenate([*rows, stream.flush()]), rows_of(extractor("logmel", 0.1), [audio]))


@pytest.mark.parametrize("key", EXTRACTORS)
def test_a_row_is_ready_at_its_time_and_has_not_heard_the_future(key: str) -> None:
    hop, count = 0.25, 3
    early, late = extractor(key, hop), extractor(key, hop)
    samples = int(count * hop * early.sample_rate)
    first, second = noise(2 * samples + 1, 1), noise(2 * samples + 1, 2)  # a hop may end between two samples
    second[:samples] = first[:samples]
    assert len(early.push(first[: samples - 1])) == count - 1
    assert len(early.push(first[samples - 1 : samples])) == 1
    rows, others = rows_of(extractor(key, hop), [first]), late.push(second)
    assert_same(others[:count], rows[:count])
    assert np.abs(others[count:] - rows[count:]).max() > 0


@pytest.mark.parametrize("align", ["causal", "centre", "start"])
def test_windows_lie_where_the_alignment_says(align: str) -> None:
    """A click is heard by exactly the rows whose window holds it."""
    hop, window, click = 0.1, 0.3, 1.03
    audio = np.zeros(2 * RATE, np.float32)
    audio[int(click * RATE)] = 1.0
    stream = build_audio_extractor("logmel", hop, {"window": window, "statistics": "max"}, align=align)
    rows = np.concatenate([stream.push(audio), stream.flush()])
    heard = [row for row in range(20) if rows[row].max() > rows.min() + 1]
    begin = {"causal": hop - window, "centre": -window / 2, "start": 0.0}[align]
    assert heard == [row for row in range(20) if begin <= click - row * hop < begin + window]


def test_the_end_is_padded_for_windows_that_reach_past_it() -> None:
    audio = noise(RATE)
    stream = build_audio_extractor("logmel", 0.25, {"window": 1.0}, align="start")
    assert stream.push(audio).shape == (1, 192)
    padded = build_audio_extractor("logmel", 0.25, {"window": 1.0}, align="start")
    expected = padded.push(np.concatenate([audio, np.zeros(RATE, np.float32)]))
    np.testing.assert_array_equal(stream.flush(), expected[1:4])


def test_no_samples_give_no_rows_and_one_sample_gives_one() -> None:
    assert extractor("logmel").flush().shape == (0, 60)
    stream = extractor("logmel")
    assert stream.push(np.zeros(0, np.float32)).shape == (0, 60)
    assert stream.push(np.ones(1, np.float32)).shape == (0, 60)
    assert stream.flush().shape == (1, 60)
    assert stream.flush().shape == (0, 60)


@pytest.mark.parametrize(
    ("seconds", "hop", "rows"),
    [(30.0, 0.25, 120), (30.013, 0.25, 120), (29.99, 0.25, 119), (30.0, 0.2, 150), (0.7, 0.1, 7), (10.0, 1 / 3, 30)],
)
def test_rows_are_the_complete_hops(seconds: float, hop: float, rows: int) -> None:
    for rate in (8000, 16000, 22050):
        assert SampleClock(hop, rate, 400).rows(round(seconds * rate)) == rows


def test_what_is_not_mono_audio_is_refused() -> None:
    with pytest.raises(InputError, match="mono"):
        extractor("logmel").push(np.zeros((100, 2), np.float32))
    with pytest.raises(InputError, match="NaN"):
        extractor("logmel").push(np.array([0.0, np.nan], np.float32))
    stream = extractor("logmel")
    stream.flush()
    with pytest.raises(UsageError, match="after the end"):
        stream.push(np.zeros(1, np.float32))


def peak_memory(minutes: int) -> int:
    stream = extractor("logmel")
    piece = noise(60 * RATE)
    tracemalloc.start()
    try:
        for _ in range(minutes):
            stream.push(piece)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_stream() -> None:
    peak_memory(1)
    assert peak_memory(4) < peak_memory(1) + 1e6
