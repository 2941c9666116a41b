"""Packed weights: exact scales, exact sums, bounds of what rounding costs, and the same promises for every kind."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pipelines.errors import MissingDependencyError, UsageError
from pipelines.model import PerFrameConfig, make_model
from pipelines.model.linear import float16, int8, packing
from pipelines.model.linear.float16 import Float16Projection
from pipelines.model.linear.int8 import Int8InputProjection, Int8Projection
from pipelines.model.linear.packing import check_kernel, with_precision
from pipelines.model.linear.projection import SMALL, PackedProjection, Projection
from pipelines.model.precision import PRECISIONS, Precision, parse_precision
from tests.model.small import POSITIONAL, exists, relative_error, run_steps, run_windows, small_model, stream
from tests.model.test_kinds import CONFIGS, LENGTH, seeded, stepped

PACKED: dict[Precision, type[PackedProjection]] = {"float16": Float16Projection, "int8": Int8Projection}
# Largest difference of logits, relative to the largest logit, of models as small as these: rounding does not average.
BOUNDS: dict[Precision, float] = {"float16": 2e-3, "int8": 6e-2}


def seeded_layer(inputs: int, outputs: int, seed: int = 0) -> Projection:
    generator = torch.Generator().manual_seed(seed)
    layer = Projection(inputs, outputs)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(outputs, inputs, generator=generator))
        layer.bias.copy_(torch.randn(outputs, generator=generator))
    return layer


def rows_of(count: int, width: int, seed: int = 1) -> Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed))


def test_scales_of_a_hand_made_layer() -> None:
    weight = torch.tensor([[254.0, -127.0, 2.0], [0.5, 0.25, -0.5], [0.0, 0.0, 0.0]])
    packed = Int8Projection(weight, torch.tensor([1.0, 2.0, 3.0]))
    assert packed.weight.dtype == torch.int8
    assert packed.weight.t().tolist() == [[127, -64, 1], [127, 64, -127], [0, 0, 0]]  # halves go to the even number
    assert packed.scale[:2].tolist() == [2.0, torch.tensor(0.5 / 127).item()]
    # A row whose largest is 127 loses nothing: 127·254 - 2·128 + 0·2 and so on, with the weights as they were rounded.
    rows = torch.tensor([[127.0, -2.0, 0.0], [0.0, 0.0, 0.0]])
    exact = rows @ packed.dense_weight().T + torch.tensor([1.0, 2.0, 3.0])
    torch.testing.assert_close(packed(rows), exact, rtol=1e-6, atol=0)
    assert packed(rows)[1].tolist() == [1.0, 2.0, 3.0]
    assert packed(rows)[0, 0].item() == 127 * 254 + 2 * 128 + 1


@given(st.integers(1, 9), st.integers(2, 70), st.integers(1, 40), st.integers(0, 2**31), st.floats(-4, 4))
@settings(max_examples=40, deadline=None)
def test_int8_is_within_half_a_step_of_each_factor(
    count: int, inputs: int, outputs: int, seed: int, magnitude: float
) -> None:
    layer = seeded_layer(inputs, outputs, seed)
    rows = rows_of(count, inputs, seed) * 10**magnitude
    packed = Int8Projection(layer.weight, layer.bias)
    row_step = rows.abs().amax(-1, keepdim=True) / 127
    weight_step = packed.scale
    # |xw - q(x) q(w)| <= |x| Δw / 2 + Δx / 2 |w| + Δx Δw / 4, summed.
    bound = (
        rows.abs().sum(-1, keepdim=True) * weight_step / 2
        + row_step / 2 * layer.weight.abs().sum(-1)
        + inputs * row_step * weight_step / 4
    )
    difference = (packed(rows) - layer(rows)).abs()
    assert (difference <= bound * 1.0001 + 1e-5 * (1 + layer(rows).abs())).all()


def test_features_with_units_of_their_own() -> None:
    """Columns that differ by eight orders of magnitude, with offsets that dwarf what varies."""
    units = 10.0 ** torch.linspace(-4, 4, 96)
    layer = seeded_layer(96, 32)
    with torch.no_grad():
        layer.weight.div_(units)
    rows = (rows_of(50, 96) + 3) * units
    plain, entered = (kind(layer.weight, layer.bias) for kind in (Int8Projection, Int8InputProjection))
    assert relative_error(entered(rows), layer(rows)) < 0.01
    assert relative_error(plain(rows), layer(rows)) > 0.1  # why there are two kinds
    torch.testing.assert_close(entered.dense_weight(), layer.weight, rtol=0, atol=(1 / 254) * 4 / units.min().item())


def test_small_layers_lose_less_of_their_rows() -> None:
    small, large = (seeded_layer(256, outputs) for outputs in (255, 256))
    rows = rows_of(20, 256)
    errors = []
    for layer in (small, large):
        packed = Int8Projection(layer.weight, layer.bias)
        as_rounded = rows @ packed.dense_weight().T + layer.bias  # what the rounding of weights alone gives
        errors.append(relative_error(packed(rows), as_rounded))
    assert errors[0] < 5e-5 and 5e-4 < errors[1] < 2e-2


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [
        (Float16Projection, 24),
        (Float16Projection, SMALL // 15 + 2),
        (Int8Projection, 24),
        (Int8InputProjection, 24),
        (Int8Projection, SMALL // 15 + 2),
    ],
)
def test_rows_do_not_know_of_each_other_and_parts_are_parts(kind: type[PackedProjection], inputs: int) -> None:
    layer = seeded_layer(inputs, 15)
    packed = kind(layer.weight, layer.bias)
    rows = rows_of(6, inputs) * torch.tensor([1e-3, 1.0, 1e3, 1.0, 2.0, 0.0]).unsqueeze(1)
    together = packed(rows)
    if kind is not Float16Projection:  # whose sums are float32, and their order that of the number of rows
        assert torch.equal(together, torch.cat([packed(row.unsqueeze(0)) for row in rows]))
        assert torch.equal(packed.project_part(rows, 4, 9), together[:, 4:9])
        assert torch.equal(packed(rows.view(2, 3, inputs)), together.view(2, 3, 15))
    torch.testing.assert_close(packed.project_part(rows, 4, 9), together[:, 4:9], rtol=1e-5, atol=1e-5)
    unbiased = packed.project_part(rows, 4, biased=False)
    torch.testing.assert_close(unbiased + layer.bias[4:], together[:, 4:], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(packed.project_part(rows[:1], 4, 9), together[:1, 4:9], rtol=1e-5, atol=1e-5)
    assert not list(packed.parameters())


@given(st.integers(1, 4), st.integers(1, 70) | st.just(SMALL // 20 + 1), st.integers(0, 2**31), st.integers(-6, 6))
@settings(max_examples=25, deadline=None)
def test_float16_is_within_its_rounding(count: int, inputs: int, seed: int, magnitude: int) -> None:
    layer, rows = seeded_layer(inputs, 20, seed), rows_of(count, inputs, seed) * 10.0**magnitude
    difference = (Float16Projection(layer.weight, layer.bias)(rows) - layer(rows)).abs()
    # Weights alone are rounded, to 11 bits; rows of any size stay float32.
    assert (difference <= (2.0**-11 + 1e-5) * (rows.abs() @ layer.weight.abs().T) + 1e-6).all()


def test_float16_without_fbgemm_has_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, rows = seeded_layer(512, 256), rows_of(3, 512)
    packed = Float16Projection(layer.weight, layer.bias)
    quick = packed(rows), packed.project_part(rows, 5, 70, biased=False)
    monkeypatch.setattr(float16, "has_fbgemm", lambda: False)
    assert relative_error(packed(rows), quick[0]) < 1e-5
    assert relative_error(packed.project_part(rows, 5, 70, biased=False), quick[1]) < 1e-5


@pytest.mark.parametrize("precision", ["float16", "int8"])
@pytest.mark.parametrize("kind", CONFIGS)
def test_every_kind_of_model(kind: str, precision: Precision) -> None:
    model = seeded(kind, torch.float32)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    tokens = stream(2, LENGTH)
    exact, _ = stepped(model, tokens)
    packed = with_precision(model, precision)
    assert any(isinstance(layer, PackedProjection) for layer in packed.modules())
    outputs, state = stepped(packed, tokens)
    assert outputs.dtype == torch.float32 and not torch.equal(outputs, exact)
    assert relative_error(outputs, exact) < BOUNDS[precision]
    with torch.no_grad():
        chunked, _ = packed.steps(tokens, packed.initial_state(2))
    torch.testing.assert_close(chunked, outputs, rtol=0, atol=BOUNDS[precision] / 4 * outputs.abs().max().item())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())  # left as it was
    assert packed.dtype == torch.float32 and state.batch_size == 2


@pytest.mark.parametrize("blocks", [1, 2, 3])
@pytest.mark.parametrize("positional", ["none", "static", "learned n", "rope", "alibi", "relative"])
def test_every_way_of_a_transformer(positional: str, blocks: int) -> None:
    if not exists(positional, blocks):
        pytest.skip("there is no such model")
    model = small_model(blocks=blocks, **POSITIONAL[positional])
    tokens = stream(2, 12)
    for precision in ("float16", "int8"):
        packed = with_precision(model, parse_precision(precision))
        steps, windows = run_steps(packed, tokens), run_windows(packed, tokens)
        assert relative_error(steps, run_steps(model, tokens)) < 2 * BOUNDS[parse_precision(precision)]
        assert relative_error(steps, windows) < 2 * BOUNDS[parse_precision(precision)]


def test_a_stream_goes_on_in_another_precision(tmp_path: Path) -> None:
    model = small_model(blocks=2)
    tokens = stream(1, 12)
    _, state = stepped(model, tokens[:, :6])
    model.snapshot(state, tmp_path / "state.safetensors")
    packed = with_precision(model, "int8")
    restored = packed.restore(tmp_path / "state.safetensors")
    assert relative_error(run_steps(packed, tokens[:, 6:], restored), run_steps(model, tokens)[:, 6:]) < BOUNDS["int8"]


@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_lagging_copies_stay_packed(precision: Precision) -> None:
    packed = with_precision(small_model(blocks=1, lag=2), precision)
    twin = packed.with_lag(0)
    mine, theirs = (model.encoder.blocks[0].in_projection for model in (packed, twin))
    assert (
        type(theirs) is type(mine)
        and isinstance(mine, PackedProjection)
        and theirs.weight.data_ptr() == mine.weight.data_ptr()
    )


def test_a_single_input_stays_as_it_is() -> None:
    torch.manual_seed(0)
    model = make_model(PerFrameConfig(input_width=1, embedding=5, classes=3)).eval()
    packed = with_precision(model, "int8")
    assert type(packed.input_layers[0]) is Projection
    tokens = torch.randn(2, 7, 1)
    assert torch.equal(packed.steps(tokens, packed.initial_state(2))[0], model.steps(tokens, model.initial_state(2))[0])


def test_float32_is_the_model_itself() -> None:
    model = small_model()
    assert with_precision(model, "float32") is model


@pytest.mark.parametrize(
    ("product", "said"),
    [
        (lambda rows, weight: (rows.short() @ weight.short()).clamp(-(2**15), 2**15 - 1).int() // 2, "overflow"),
        (None, "has no int8 products"),
    ],
)
def test_a_machine_without_the_kernel(product: object, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(rows: Tensor, weight: Tensor) -> Tensor:
        raise NotImplementedError("Could not run 'aten::_int_mm' with arguments from the 'CPU' backend")

    monkeypatch.setattr(int8.torch, "_int_mm", product or missing)
    monkeypatch.setattr(packing, "is_better_here", lambda: False)
    with pytest.raises(MissingDependencyError, match=said) as error:
        with_precision(small_model(), "int8")
    assert "\n" not in str(error.value) and "--precision float32" in str(error.value)


def test_a_device_without_the_kernel() -> None:
    check_kernel("float32", torch.device("cuda"))
    with pytest.raises(MissingDependencyError, match="--device cpu"):
        check_kernel("int8", torch.device("cuda"))


def test_names() -> None:
    assert [parse_precision(name) for name in PRECISIONS] == ["float32", "float16", "int8"]
    with pytest.raises(UsageError, match="float32, float16, int8"):
        parse_precision("int4")
