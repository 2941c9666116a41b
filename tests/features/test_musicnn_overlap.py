"""Windows that share their work give what each gives alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pipelines.features.audio.musicnn import vgg_layers
from pipelines.features.audio.musicnn.extractor import load_musicnn, shipped_weights
from pipelines.features.audio.musicnn.vgg import FRAMES, without_dead_channels
from pipelines.features.audio.musicnn.vgg_overlap import Blocks, LiveVgg

# The first frames of windows at hops of 0.25 s and of 1 s, at all phases, some that do not overlap, and one alone.
STARTS = [[-14, 2, 18, 34, 48], [120, 182, 244], [2, 4, 6, 8, 10], [0, 16, 400, 416, 1000], [6]]


@pytest.mark.parametrize("engine", ["onnxruntime", "torch"])
@pytest.mark.parametrize("starts", STARTS)
@pytest.mark.parametrize("network_name", ["msd", "mtt"])
def test_shared_work_changes_nothing(
    network_name: str, starts: list[int], engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vgg_layers, "installed", lambda *names: engine == "onnxruntime")
    network = without_dead_channels(load_musicnn(shipped_weights(network_name)))
    live = LiveVgg(network)
    generator = torch.Generator().manual_seed(0)
    span = 4 * torch.rand(starts[-1] - starts[0] + FRAMES, 96, generator=generator)
    windows = [span[start - starts[0] : start - starts[0] + FRAMES] for start in starts]
    with torch.inference_mode():
        expected = network.pooled(torch.stack(windows)).numpy()
    together = live.pooled_windows(span.numpy(), starts, {})
    kept: Blocks = {}
    in_turn = [
        live.pooled_windows(window.numpy(), [start], kept) for start, window in zip(starts, windows, strict=True)
    ]
    np.testing.assert_allclose(together, expected, rtol=0, atol=5e-6)
    np.testing.assert_array_equal(np.concatenate(in_turn), together)  # whichever rows are computed together


@pytest.mark.parametrize(("hop", "most"), [(16, 49), (14, 90)])
def test_what_is_kept_stays_small(hop: int, most: int) -> None:
    live = LiveVgg(without_dead_channels(load_musicnn(shipped_weights("msd"))))
    kept: Blocks = {}
    for start in range(0, 800, hop):
        live.pooled_windows(np.zeros((FRAMES, 96), np.float32), [start], kept)
        assert len(kept) <= most
