"""Windows that share their work give what each gives alone."""

from __future__ import annotations

import pytest
import torch

from pipelines.features.audio.musicnn.extractor import load_musicnn, shipped_weights
from pipelines.features.audio.musicnn.vgg import FRAMES, without_dead_channels
from pipelines.features.audio.musicnn.vgg_overlap import Blocks, pooled_windows

# The first frames of windows at hops of 0.25 s and of 1 s, some that do not overlap, and one alone.
STARTS = [[-14, 2, 18, 34, 48], [120, 182, 244], [0, 16, 400, 416, 1000], [6]]


@pytest.mark.parametrize("starts", STARTS)
@pytest.mark.parametrize("network_name", ["msd", "mtt"])
def test_shared_work_changes_nothing(network_name: str, starts: list[int]) -> None:
    network = without_dead_channels(load_musicnn(shipped_weights(network_name)))
    generator = torch.Generator().manual_seed(0)
    span = 4 * torch.rand(starts[-1] - starts[0] + FRAMES, 96, generator=generator)
    windows = [span[start - starts[0] : start - starts[0] + FRAMES] for start in starts]
    with torch.inference_mode():
        expected = network.pooled(torch.stack(windows))
        together = pooled_windows(network, span, starts, {})
        kept: Blocks = {}
        in_turn = [
            pooled_windows(network, window, [start], kept) for start, window in zip(starts, windows, strict=True)
        ]
    torch.testing.assert_close(together, expected, rtol=0, atol=5e-6)
    torch.testing.assert_close(torch.cat(in_turn), together, rtol=0, atol=1e-6)


def test_what_is_kept_stays_small() -> None:
    network = without_dead_channels(load_musicnn(shipped_weights("msd")))
    kept: Blocks = {}
    with torch.inference_mode():
        for start in range(0, 800, 16):
            pooled_windows(network, torch.zeros(FRAMES, 96), [start], kept)
            assert len(kept) <= 13
