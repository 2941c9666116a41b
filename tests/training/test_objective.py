"""Chunk training has the gradient of window sampling; losses are what they are said to be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from pipelines.model.continual_model import ContinualModel
from pipelines.model.transformer.model import ContinualTransformer
from pipelines.training.fitting.losses import frame_losses
from pipelines.training.fitting.objective import Objective
from pipelines.training.recipes.recipe import AugmentationOptions
from pipelines.training.samples.batching import Batch, BatchLoader
from pipelines.training.samples.sampling import Sample
from tests.training.training_problems import CLASSES, WINDOW, stream_data, tiny_config


def loader(**changes: object) -> BatchLoader:
    values = {
        "recordings": stream_data().train,
        "statistics": None,
        "standardize": False,
        "augmentation": AugmentationOptions(),
        "positions": 2 * WINDOW - 1,
        "lag": 0,
        "queries": 0,
    }
    return BatchLoader(**{**values, **changes})


def gradients(model: ContinualTransformer, mode: str, batch: Batch, total: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad()
    Objective(mode, "cross-entropy", label_smoothing=0.1).loss_of(model, batch, total).backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"encoding": "cyclic", "norm": "pre", "activation": "gelu"},
        {"positions": WINDOW},
        {"class_token_block": 1},
        {"positional": "none"},
        {"lag": 3},
    ],
)
@pytest.mark.parametrize("partial", [False, True])
def test_chunk_gradient_is_window_gradient(changes: dict, partial: bool) -> None:
    """Every window in two chunks of different lengths, at recycling starts that fit."""
    torch.manual_seed(0)
    config = tiny_config(**changes)
    model = ContinualTransformer(config).double()
    make = loader(lag=config.lag, positions=config.position_count if config.positional == "recycling" else 0)
    chunks = [Sample(0, 0, 40, 0 if partial else WINDOW - 1), Sample(1, 6, 30, 6 + WINDOW - 1)]
    batch = _double(make.load(chunks, epoch=0, step=0))
    windows = []
    for row, chunk in enumerate(chunks):
        for last in range(chunk.first, chunk.end):
            begin = max(chunk.begin, last + 1 - WINDOW)
            windows.append(
                (Sample(chunk.recording, begin, last + 1, last), int(batch.start[row]) + begin - chunk.begin)
            )
    single = _double(make.load([sample for sample, _ in windows], epoch=0, step=0))
    single = replace(single, start=torch.tensor([start for _, start in windows]))

    objective = Objective("chunk", "cross-entropy")
    total = objective.weights(batch)
    assert torch.equal(total, objective.weights(single))
    by_chunk = gradients(model, "chunk", batch, total)
    by_window = gradients(model, "window", single, total)
    for name, gradient in by_chunk.items():
        torch.testing.assert_close(gradient, by_window[name], rtol=1e-9, atol=1e-12, msg=name)
    assert max(float(gradient.abs().max()) for gradient in by_chunk.values()) > 1e-3


@pytest.mark.parametrize("changes", [{}, {"lag": 2, "positional": "relative"}], ids=["plain", "lag"])
@pytest.mark.parametrize("mode", ["chunk", "window"])
def test_products_in_16_bits_give_nearly_the_same_loss_and_gradients_in_32(mode: str, changes: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = ContinualTransformer(tiny_config(**changes))
    batch = loader().load([Sample(0, 0, WINDOW, WINDOW - 1), Sample(1, 6, 6 + WINDOW, 5 + WINDOW)], epoch=0, step=0)
    losses = {}
    for bfloat16 in (False, True):
        model.zero_grad()
        objective = Objective(mode, "cross-entropy", bfloat16=bfloat16)
        loss = objective.loss_of(model, batch, objective.weights(batch))
        loss.backward()
        losses[bfloat16] = float(loss.detach())
        assert loss.dtype == torch.float32
        assert {parameter.grad.dtype for parameter in model.parameters() if parameter.grad is not None} == {
            torch.float32
        }
    assert losses[True] != losses[False]
    assert losses[True] == pytest.approx(losses[False], rel=0.02)


def test_late_steps_are_those_of_a_smaller_lag() -> None:
    """What a model says of the last rows when a recording ends is trained at every row."""
    torch.manual_seed(0)
    model = ContinualTransformer(tiny_config(lag=3)).double()
    one = torch.ones(2, dtype=torch.float64)

    def loss(model: ContinualModel, lag: int, length: int, late: float = 0.0) -> float:
        batch = _double(loader(lag=lag).load([Sample(0, 0, length, 0)], epoch=0, step=0))
        return Objective("chunk", "cross-entropy", late=late).loss_of(model, batch, one).item()

    # The loss of the rows that the model with its whole lag would have spoken of by then.
    wanted = [loss(model.with_lag(lag), lag, 40 - (3 - lag)) for lag in range(3)]
    found = set()
    for seed in range(20):
        torch.manual_seed(seed)
        drawn = loss(model, 3, 40, late=1.0)
        found.add(int(np.argmin(np.abs(np.array(wanted) - drawn))))
        assert min(abs(value - drawn) for value in wanted) < 1e-9
    assert found == {0, 1, 2}
    torch.manual_seed(0)
    assert loss(model, 3, 40, late=1e-9) == loss(model, 3, 40)
    assert loss(model, 3, 3, late=1.0) == loss(model, 3, 3)  # nothing would be left to say


def test_a_batch_is_the_sum_of_its_parts() -> None:
    """What a process of a distributed run computes adds up: same weights, shares of the same loss."""
    torch.manual_seed(0)
    model = ContinualTransformer(tiny_config()).double()
    make = loader()
    samples = [Sample(0, 0, 40, 7), Sample(1, 0, 30, 7), Sample(2, 5, 33, 12)]
    objective = Objective("chunk", "cross-entropy")
    whole = _double(make.load(samples, 1, 4))
    parts = [_double(make.load(samples, 1, 4, part)) for part in ([0, 2], [1])]
    total = objective.weights(whole)
    expected = gradients(model, "chunk", whole, total)
    shares = [gradients(model, "chunk", part, total) for part in parts]
    for name, gradient in expected.items():
        torch.testing.assert_close(gradient, shares[0][name] + shares[1][name], rtol=1e-9, atol=1e-12)


def test_ambiguous_frames_have_no_gradient() -> None:
    recording = stream_data().train[0]
    valid = np.ones(len(recording), dtype=bool)
    valid[20:30] = False
    targets = recording.targets.copy()
    samples = [Sample(0, 0, 40, 7)]
    torch.manual_seed(0)
    model = ContinualTransformer(tiny_config()).double()
    results = []
    for wrong in (False, True):
        changed = targets.copy()
        if wrong:
            changed[20:30] = 1.0
        make = loader(recordings=[replace(recording, targets=changed, valid=valid)])
        batch = _double(make.load(samples, 0, 0))
        assert int(batch.weight.sum()) == 33 - 10
        results.append(gradients(model, "chunk", batch, Objective("chunk", "cross-entropy").weights(batch)))
    for name in results[0]:
        assert torch.equal(results[0][name], results[1][name])


DECODER = {"decoder_blocks": 1, "decoder_queries": 3, "decoder_heads": 2, "decoder_feed_forward": 16}


@pytest.mark.parametrize("stride", [1, 3])
@pytest.mark.parametrize(
    "changes",
    [
        {"positional": "static"},
        {"positional": "static", "norm": "pre", "class_token_block": 1},
        {"positional": "static", "blocks": 3, "norm": "pre", "lag": 2},
        {"blocks": 2},
        {"blocks": 2, "positional": "rope", "lag": 1},
        {"blocks": 3, "positional": "alibi", "class_token_block": 2},
        {"blocks": 2, "class_token_block": 1, "positional": "none", "shortcut": "add"},
        {"blocks": 2, "positional": "static", **DECODER},
        {"blocks": 1, "class_token_block": 1, **DECODER},
    ],
)
def test_shared_gradient_is_window_gradient(changes: dict, stride: int) -> None:
    """Windows that share what belongs to a token alone, in two chunks of different lengths, one of them warm."""
    torch.manual_seed(0)
    config = tiny_config(**changes)
    model = ContinualTransformer(config).double()
    make = loader(lag=config.lag, positions=0, queries=config.decoder_queries)
    last = len(make.recordings[0])
    chunks = [Sample(0, last - 20, last, last - 20), Sample(1, 6, 30, 6 + WINDOW - 1)]
    batch = _double(make.load(chunks, epoch=0, step=0))
    shared = Objective("shared", "cross-entropy", label_smoothing=0.1, stride=stride)
    windows = [
        Sample(chunk.recording, max(chunk.begin, end - WINDOW), end, end - 1)
        for chunk in chunks
        for end in range(chunk.end, chunk.first, -stride)
    ]
    apart = _double(make.load(windows, epoch=0, step=0))
    # A window apart begins at index 0 of its own; those of a chunk at their place in it.
    starts = [
        max(chunk.begin, end - WINDOW) - chunk.begin
        for chunk in chunks
        for end in range(chunk.end, chunk.first, -stride)
    ]
    apart = replace(apart, start=torch.tensor(starts))
    plain = Objective("window", "cross-entropy", label_smoothing=0.1)
    results = []
    for objective, samples in ((shared, batch), (plain, apart)):
        model.zero_grad()
        weights = objective.weights(samples)
        loss = objective.loss_of(model, samples, weights)
        loss.backward()
        results.append((weights, loss, {name: parameter.grad.clone() for name, parameter in model.named_parameters()}))
    (weights, loss, found), (wanted_weights, wanted_loss, wanted) = results
    assert torch.equal(weights, wanted_weights)
    torch.testing.assert_close(loss, wanted_loss)
    for name, gradient in wanted.items():
        # Two losses are added in 32 bits where there is a decoder.
        rtol, atol = (1e-6, 1e-8) if config.decoder_blocks else (1e-9, 1e-12)
        torch.testing.assert_close(found[name], gradient, rtol=rtol, atol=atol, msg=name)


def test_shared_windows_without_a_label_have_no_loss_and_no_gradient() -> None:
    model = ContinualTransformer(tiny_config(blocks=2))
    batch = loader(positions=0).load([Sample(0, 0, 12, 0)], 0, 0)
    batch = replace(batch, weight=torch.zeros_like(batch.weight))
    objective = Objective("shared", "cross-entropy")
    loss = objective.loss_of(model, batch, objective.weights(batch))
    loss.backward()
    assert loss == 0 and not any(parameter.grad.any() for parameter in model.parameters() if parameter.grad is not None)


def test_anticipation_is_half_of_the_coming_frames() -> None:
    torch.manual_seed(0)
    model = ContinualTransformer(tiny_config(blocks=2, positional="static", **DECODER))
    make = loader(queries=3, positions=0)
    length = len(make.recordings[0])
    samples = [Sample(0, 0, 8, 7), Sample(0, length - 9, length - 1, length - 2)]  # the second ends before the last
    batch = make.load(samples, 0, 0)
    assert batch.future_weight.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert torch.equal(batch.future[0], torch.from_numpy(make.recordings[0].targets[8:11]))
    objective = Objective("window", "cross-entropy", anticipation=0.5)
    logits, coming = model.predict(batch.tokens, batch.start)
    main = F.cross_entropy(logits, batch.targets[:, -1])
    kept = batch.future_weight.bool()
    anticipated = F.cross_entropy(coming[kept], batch.future[kept])
    loss = objective.loss_of(model, batch, objective.weights(batch))
    torch.testing.assert_close(loss, main + 0.5 * anticipated)


def test_losses_are_those_of_torch() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(20, CLASSES, generator=generator)
    index = torch.randint(CLASSES, (20,), generator=generator)
    targets = F.one_hot(index, CLASSES).float()
    torch.testing.assert_close(
        frame_losses(logits, targets, "cross-entropy", 0.1),
        F.cross_entropy(logits, index, reduction="none", label_smoothing=0.1),
    )
    torch.testing.assert_close(
        frame_losses(logits, targets, "binary"),
        F.binary_cross_entropy_with_logits(logits, targets, reduction="none").mean(dim=1),
    )
    two = targets.clone()
    two[:, 0] = two[:, 1] = 1
    two[:, 2:] = 0
    torch.testing.assert_close(
        frame_losses(logits, two, "cross-entropy"), -torch.log_softmax(logits, 1)[:, :2].mean(dim=1)
    )


def _double(batch: Batch) -> Batch:
    return replace(batch, tokens=batch.tokens.double(), targets=batch.targets.double(), weight=batch.weight.double())
