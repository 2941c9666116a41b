"""Every window once an epoch, whichever way it is sampled; the same epoch for the same seed."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.errors import ConfigurationError
from pipelines.training.samples.sampling import SamplingPlan, sampling_plan
from tests.training.training_problems import tiny_config, tiny_recipe


def labelled(plan: SamplingPlan, lengths: list[int], seed: int = 0) -> Counter[tuple[int, int]]:
    """How often each token of each recording has a loss in one epoch."""
    batches = plan.batches(lengths, seed, epoch=3)
    return Counter(
        (sample.recording, token) for batch in batches for sample in batch for token in range(sample.first, sample.end)
    )


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 90), min_size=1, max_size=4),
    chunk=st.integers(1, 40),
    partial=st.booleans(),
    blocks=st.integers(1, 3),
)
def test_chunks_and_windows_cover_the_same_tokens_once(
    lengths: list[int], chunk: int, partial: bool, blocks: int
) -> None:
    deep = tiny_config(blocks=blocks, stacking="deep")
    chunks = sampling_plan(tiny_recipe(chunk=chunk, partial_windows=partial), deep, clips=False)
    windows = sampling_plan(tiny_recipe(sampling="window", partial_windows=partial), tiny_config(), clips=False)
    once = labelled(chunks, lengths)
    assert once == labelled(windows, lengths)
    assert set(once.values()) == {1}
    # Every labelled output has all the tokens that it depends on.
    for batch in chunks.batches(lengths, 0, 3):
        for sample in batch:
            assert sample.begin == 0 or sample.first - sample.begin == blocks * (deep.window - 1)


def test_cold_chunks_begin_as_streams_do_and_cover_every_token_once() -> None:
    plan = sampling_plan(tiny_recipe(chunk=16, cold_chunks=True), tiny_config(), clips=False)
    assert labelled(plan, [50, 9]) == Counter(
        {(0, token): 1 for token in range(50)} | {(1, token): 1 for token in range(9)}
    )
    assert all(sample.begin == sample.first for batch in plan.batches([50, 9], 0, 0) for sample in batch)
    clips = sampling_plan(tiny_recipe(cold_chunks=True), tiny_config(), clips=True)
    assert clips.context == 7  # a clip's window is whole


def test_an_epoch_is_a_function_of_seed_and_epoch() -> None:
    plan = sampling_plan(tiny_recipe(), tiny_config(), clips=False)
    assert plan.batches([50, 60], 1, 2) == plan.batches([50, 60], 1, 2)
    assert plan.batches([50, 60], 1, 2) != plan.batches([50, 60], 1, 3)
    assert plan.batches([50, 60], 1, 2) != plan.batches([50, 60], 2, 2)


def test_a_stride_takes_every_third_window_with_a_phase_that_moves() -> None:
    plan = sampling_plan(tiny_recipe(sampling="window", stride=3), tiny_config(), clips=False)
    ends = {sample.end for sample in plan.samples([40], np.random.default_rng(0))}
    assert np.ptp(np.array(sorted(ends)) % 3) == 0
    phases = {min(s.end for s in plan.samples([40], np.random.default_rng(seed))) for seed in range(20)}
    assert phases == {8, 9, 10}


def test_clips_have_one_loss_at_their_end_or_one_for_each_token() -> None:
    config = tiny_config()
    last = sampling_plan(tiny_recipe(), config, clips=True)
    assert labelled(last, [8, 5]) == Counter({(0, 7): 1, (1, 4): 1})
    every = sampling_plan(tiny_recipe(loss_on="every"), config, clips=True)
    assert len(labelled(every, [8, 5])) == 13


@pytest.mark.parametrize("sampling", ["auto", "window"])
def test_of_a_clip_that_is_far_longer_than_the_others_each_epoch_takes_a_part(sampling: str) -> None:
    """A batch is as long as its longest: ten minutes among clips of five seconds made training ten times slower."""
    plan = sampling_plan(tiny_recipe(loss_on="every", sampling=sampling), tiny_config(), clips=True)
    lengths = [20] * 30 + [70, 2400]
    places = set()
    for epoch in range(10):
        samples = [sample for batch in plan.batches(lengths, 0, epoch) for sample in batch]
        tokens = Counter(sample.recording for sample in samples for _ in range(sample.first, sample.end))
        assert [tokens[place] for place in range(len(lengths))] == [20] * 30 + [70, 80]  # four medians
        assert max(map(len, samples)) <= 80
        ends = [sample.end for sample in samples if sample.recording == 31]
        assert max(ends) <= 2400 and min(sample.begin for sample in samples) >= 0
        places.add(max(ends))
    assert len(places) == 10
    alone = sampling_plan(tiny_recipe(loss_on="every"), tiny_config(), clips=True).samples(
        [2400], np.random.default_rng(0)
    )
    assert [(sample.begin, sample.end) for sample in alone] == [(0, 2400)]


def test_combinations_that_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="two or more exact blocks"):
        sampling_plan(tiny_recipe(sampling="chunk"), tiny_config(blocks=2), clips=False)
    with pytest.raises(ConfigurationError, match="static positions"):
        sampling_plan(tiny_recipe(sampling="chunk"), tiny_config(positional="static"), clips=False)
    with pytest.raises(ConfigurationError, match="no window that it is equal to"):
        sampling_plan(tiny_recipe(sampling="window"), tiny_config(blocks=2, stacking="deep"), clips=False)
    with pytest.raises(ConfigurationError, match="use every"):
        sampling_plan(tiny_recipe(loss_on="last"), tiny_config(), clips=False)
    with pytest.raises(ConfigurationError, match="banded pass shares more"):
        sampling_plan(tiny_recipe(sampling="shared"), tiny_config(), clips=False)
    with pytest.raises(ConfigurationError, match="a clip is one window"):
        sampling_plan(tiny_recipe(sampling="shared"), tiny_config(blocks=2), clips=True)
    shared = sampling_plan(tiny_recipe(sampling="shared", cold_chunks=True), tiny_config(blocks=2), clips=False)
    assert (shared.mode, shared.context, shared.partial_windows) == ("shared", 0, True)
    assert sampling_plan(tiny_recipe(), tiny_config(blocks=2), clips=False).mode == "window"
