"""int8 weights without VNNI: rows of seven bits, exact sums, and the promises of the other int8 layers."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.model.linear import int8, int8_fbgemm, packing
from pipelines.model.linear.float16 import Float16Projection
from pipelines.model.linear.int8 import Int8InputProjection, Int8Projection
from pipelines.model.linear.int8_fbgemm import FbgemmInt8InputProjection, FbgemmInt8Projection, has_fbgemm_int8
from pipelines.model.linear.projection import SMALL
from tests.model.small import relative_error, run_steps, small_model, stream
from tests.model.test_kinds import CONFIGS, LENGTH, seeded, stepped
from tests.model.test_linear import rows_of, seeded_layer

pytestmark = pytest.mark.skipif(not has_fbgemm_int8(), reason="this build of PyTorch has no int8 products of FBGEMM")
LARGE = SMALL // 15 + 2  # inputs of a layer of 15 outputs


def test_large_products_do_not_overflow() -> None:
    """All weights and all numbers of a row at their largest, with either sign: pairs of products fill 16 bits."""
    signs = torch.tensor([[1.0], [-1.0]])
    packed = FbgemmInt8Projection(signs.expand(2, SMALL).contiguous(), None)
    rows = signs.expand(2, SMALL).contiguous()
    expected = torch.tensor([[SMALL, -SMALL], [-SMALL, SMALL]], dtype=torch.float32)
    torch.testing.assert_close(packed(rows), expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(packed(rows[:1]), expected[:1], rtol=1e-6, atol=0)


@given(
    st.integers(1, 9), st.integers(2, 70), st.integers(1, 40), st.integers(0, 2**31), st.floats(-4, 4), st.booleans()
)
@settings(max_examples=60, deadline=None)
def test_within_half_a_step_of_each_factor(
    count: int, inputs: int, outputs: int, seed: int, magnitude: float, fine: bool
) -> None:
    layer = seeded_layer(inputs, outputs, seed)
    rows = rows_of(count, inputs, seed) * 10**magnitude
    packed = FbgemmInt8Projection(layer.weight, layer.bias)
    packed.fine = fine
    row_step = rows.abs().amax(-1, keepdim=True) / 63 / (126 if fine else 1)
    # |xw - q(x) q(w)| <= |x| Δw / 2 + Δx / 2 |w| + Δx Δw / 4, summed.
    bound = (
        rows.abs().sum(-1, keepdim=True) * packed.scale / 2
        + row_step / 2 * layer.weight.abs().sum(-1)
        + inputs * row_step * packed.scale / 4
    )
    difference = (packed(rows) - layer(rows)).abs()
    assert (difference <= bound * 1.0001 + 1e-5 * (1 + layer(rows).abs())).all()


@pytest.mark.parametrize("kind", [FbgemmInt8Projection, FbgemmInt8InputProjection])
@pytest.mark.parametrize("inputs", [24, LARGE])
def test_rows_do_not_know_of_each_other_and_parts_are_parts(kind: type[FbgemmInt8Projection], inputs: int) -> None:
    layer = seeded_layer(inputs, 15)
    packed = kind(layer.weight, layer.bias)
    rows = rows_of(6, inputs) * torch.tensor([1e-3, 1.0, 1e3, 1.0, 2.0, 0.0]).unsqueeze(1)
    together = packed(rows)
    for row, expected in zip(rows, together, strict=True):
        # The whole numbers are the same; scaling back is one product of three factors, in another order.
        torch.testing.assert_close(packed(row.unsqueeze(0))[0], expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(packed.project_part(rows, 4, 9), together[:, 4:9])
    assert torch.equal(packed(rows.view(2, 3, inputs)), together.view(2, 3, 15))
    unbiased = packed.project_part(rows, 4, biased=False)
    torch.testing.assert_close(unbiased + layer.bias[4:], together[:, 4:], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(packed.project_part(rows[:1], 4, 9), together[:1, 4:9], rtol=1e-5, atol=1e-5)


def test_what_is_no_number_stays_in_its_row() -> None:
    layer = seeded_layer(LARGE, 15)
    packed = FbgemmInt8Projection(layer.weight, layer.bias)
    rows = rows_of(3, LARGE)
    rows[1, 5] = float("nan")
    outputs = packed(rows)
    assert outputs[1].isnan().all() and outputs[[0, 2]].isfinite().all()
    assert packed(rows[1:2]).isnan().all()
    assert not packed(torch.full((1, LARGE), float("inf"))).isfinite().any()


def test_the_other_int8_layers_agree() -> None:
    """They differ by the bit that a row has less here, and hold the same weights."""
    layer, rows = seeded_layer(LARGE, 15), rows_of(4, LARGE)
    for here, there in ((FbgemmInt8Projection, Int8Projection), (FbgemmInt8InputProjection, Int8InputProjection)):
        mine, theirs = here(layer.weight, layer.bias), there(layer.weight, layer.bias)
        assert torch.equal(mine.dense_weight(), theirs.dense_weight())
        assert relative_error(mine(rows), theirs(rows)) < (2e-2 if here is FbgemmInt8Projection else 2e-4)


def test_copies_have_the_same_numbers() -> None:
    layer, rows = seeded_layer(LARGE, 15), rows_of(1, LARGE)
    packed = FbgemmInt8Projection(layer.weight, layer.bias)
    expected = packed(rows)  # after which it holds what FBGEMM packed
    assert torch.equal(copy.deepcopy(packed)(rows), expected)


@pytest.mark.parametrize("vnni", [False, True])
@pytest.mark.parametrize("kind", CONFIGS)
def test_every_kind_of_model_with_all_its_layers_in_int8(
    kind: str, vnni: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layers of the models that tests take are small, which int8 leaves alone: here none counts as small."""
    monkeypatch.setattr(packing, "SMALL", 1)
    monkeypatch.setattr(int8, "SMALL", 1)
    monkeypatch.setattr(packing, "is_better_here", lambda: not vnni)
    if vnni and int8.int8_problem():
        pytest.skip("int8 products overflow here")
    model = seeded(kind, torch.float32)
    tokens = stream(2, LENGTH)
    exact, _ = stepped(model, tokens)
    packed = packing.with_precision(model, "int8")
    kinds = {type(layer) for layer in packed.modules()}
    assert kinds & (
        {Int8Projection, Int8InputProjection} if vnni else {FbgemmInt8Projection, FbgemmInt8InputProjection}
    )
    outputs, _ = stepped(packed, tokens)
    assert relative_error(outputs, exact) < 6e-2
    with torch.no_grad():
        chunked, _ = packed.steps(tokens, packed.initial_state(2))
    assert relative_error(chunked, outputs) < 2e-2


def test_chosen_where_there_is_no_vnni(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model(blocks=1, width=160, feed_forward=480)
    tokens = stream(1, 12)
    monkeypatch.setattr(int8_fbgemm.torch.cpu, "_is_vnni_supported", lambda: False)
    packed = packing.with_precision(model, "int8")
    kinds = {type(layer) for layer in packed.modules()}
    assert FbgemmInt8Projection in kinds and Float16Projection in kinds and Int8Projection not in kinds
    assert relative_error(run_steps(packed, tokens), run_steps(model, tokens)) < 0.06
    portable = packing.with_precision(model, "int8", portable=True)  # for a file that runs elsewhere
    assert FbgemmInt8Projection not in {type(layer) for layer in portable.modules()}
    monkeypatch.setattr(int8_fbgemm.torch.cpu, "_is_vnni_supported", lambda: True)
    assert FbgemmInt8Projection not in {type(layer) for layer in packing.with_precision(model, "int8").modules()}
