"""One way from logits to probabilities."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pipelines.metrics.probabilities import ScoreKind, probabilities


@pytest.mark.parametrize("kind", ["softmax", "sigmoid"])
def test_equals_torch_for_any_leading_axes(kind: ScoreKind) -> None:
    logits = np.random.default_rng(0).normal(size=(3, 2, 5)).astype(np.float32) * 10
    wanted = torch.from_numpy(logits).double()
    wanted = wanted.softmax(-1) if kind == "softmax" else wanted.sigmoid()
    np.testing.assert_allclose(probabilities(logits, kind), wanted.numpy(), rtol=1e-12)
    np.testing.assert_array_equal(probabilities(logits[0, 0], kind), probabilities(logits, kind)[0, 0])


def test_large_logits_do_not_overflow() -> None:
    extreme = np.array([-1000.0, 1000.0, 0.0], np.float32)
    np.testing.assert_allclose(probabilities(extreme, "sigmoid"), [0.0, 1.0, 0.5])
    np.testing.assert_allclose(probabilities(extreme, "softmax"), [0.0, 1.0, 0.0])
    assert probabilities(np.float32([-50.0]), "sigmoid")[0] == pytest.approx(np.exp(-50.0), rel=1e-12)


def test_a_softmax_leaves_classes_out() -> None:
    logits = np.random.default_rng(0).normal(size=(2, 3, 5)).astype(np.float32)
    shares = probabilities(logits, "softmax", left_out=(4,))
    assert (shares[..., 4] == 0).all()
    np.testing.assert_allclose(shares.sum(-1), 1.0, atol=1e-12)
    np.testing.assert_allclose(shares[..., :4], probabilities(logits[..., :4], "softmax"), rtol=1e-12)
