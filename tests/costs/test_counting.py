"""The counter sees every matrix product, also those that other counters miss."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipelines.costs.counting import MacCounter, count_macs
from pipelines.errors import ConfigurationError

MODES = [torch.enable_grad, torch.no_grad, torch.inference_mode]
Mode = Callable[[], AbstractContextManager[None]]


def rand(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(0))


PRODUCTS: list[tuple[str, Callable[[], object], int]] = [
    ("mm", lambda: torch.mm(rand(3, 4), rand(4, 5)), 60),
    ("addmm", lambda: torch.addmm(rand(5), rand(3, 4), rand(4, 5)), 60),
    ("bmm", lambda: torch.bmm(rand(2, 3, 4), rand(2, 4, 5)), 120),
    ("baddbmm", lambda: torch.baddbmm(rand(2, 3, 5), rand(2, 3, 4), rand(2, 4, 5)), 120),
    ("addbmm", lambda: torch.addbmm(rand(3, 5), rand(2, 3, 4), rand(2, 4, 5)), 120),
    ("mv", lambda: torch.mv(rand(3, 4), rand(4)), 12),
    ("addmv", lambda: torch.addmv(rand(3), rand(3, 4), rand(4)), 12),
    ("dot", lambda: torch.dot(rand(7), rand(7)), 7),
    ("addr", lambda: torch.addr(rand(3, 5), rand(3), rand(5)), 15),
    ("matmul broadcast", lambda: torch.matmul(rand(2, 6, 3, 4), rand(4, 5)), 720),
    ("matmul vector", lambda: rand(3, 4) @ rand(4), 12),
    ("einsum", lambda: torch.einsum("bhmw,bhnw->bhmn", rand(2, 3, 4, 5), rand(2, 3, 6, 5)), 720),
    ("tensordot", lambda: torch.tensordot(rand(2, 3, 4), rand(5, 4), dims=([2], [1])), 120),
    ("linear", lambda: F.linear(rand(2, 3, 4), rand(5, 4), rand(5)), 120),
    ("linear of a vector", lambda: F.linear(rand(4), rand(5, 4)), 20),
    ("conv1d", lambda: F.conv1d(rand(2, 4, 9), rand(6, 4, 3)), 2 * 6 * 7 * 4 * 3),
    ("conv2d in groups", lambda: F.conv2d(rand(1, 4, 8, 8), rand(6, 2, 3, 3), groups=2), 6 * 36 * 2 * 9),
    ("conv_transpose1d", lambda: F.conv_transpose1d(rand(1, 4, 8), rand(4, 6, 3)), 4 * 8 * 6 * 3),
    ("lstm", lambda: nn.LSTM(32, 16)(rand(5, 2, 32)), 10 * 64 * (32 + 16)),
    ("gru", lambda: nn.GRU(32, 16)(rand(5, 2, 32)), 10 * 48 * (32 + 16)),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "function", "macs"), PRODUCTS)
def test_every_kind_of_product_is_counted(name: str, function: Callable[[], object], macs: int, mode: Mode) -> None:
    with mode():
        assert count_macs(function).total == macs


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("causal", [False, True])
def test_fused_attention_on_cpu(mode: Mode, causal: bool) -> None:
    query, key, value = rand(2, 3, 5, 8), rand(2, 3, 7, 8), rand(2, 3, 7, 8)
    with mode():
        count = count_macs(F.scaled_dot_product_attention, query, key, value, is_causal=causal)
    assert count.total == 2 * 3 * 5 * 7 * (8 + 8)
    assert [row.operator for row in count.operators] == ["aten._scaled_dot_product_flash_attention_for_cpu"]


def test_fused_attention_going_back() -> None:
    query, key, value = (rand(1, 2, 5, 8).requires_grad_() for _ in range(3))
    counter = MacCounter()
    with counter:
        F.scaled_dot_product_attention(query, key, value).sum().backward()
    pairs = 2 * 5 * 5
    assert counter.count.total == pairs * 8 * (2 + 5)


def encoder_layer_macs(tokens: int, width: int, hidden: int) -> int:
    return 4 * tokens * width**2 + 2 * tokens**2 * width + 2 * tokens * width * hidden


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_fused_encoder_path_counts_like_the_plain_one(norm_first: bool) -> None:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=norm_first).eval()
    rows = rand(2, 5, 32)
    expected = 2 * encoder_layer_macs(5, 32, 64)
    plain = count_macs(layer, rows)
    assert plain.of("aten._transformer_encoder_layer_fwd") == 0
    assert plain.total == expected
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            fused = count_macs(layer, rows)
        assert fused.of("aten._transformer_encoder_layer_fwd") == fused.total == expected


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_the_fused_encoder_path_on_nested_sequences() -> None:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    stack = nn.TransformerEncoder(layer, 2).eval()
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        count = count_macs(stack, rand(2, 5, 32), src_key_padding_mask=padding)
    assert count.total == 2 * (encoder_layer_macs(5, 32, 64) + encoder_layer_macs(3, 32, 64))


def test_native_multi_head_attention() -> None:
    attention = nn.MultiheadAttention(32, 4, batch_first=True).eval()
    rows = rand(2, 5, 32)
    expected = 2 * (4 * 5 * 32**2 + 2 * 5 * 5 * 32)
    assert count_macs(attention, rows, rows, rows).total == expected
    with torch.no_grad():
        count = count_macs(attention, rows, rows, rows)
    assert count.of("aten._native_multi_head_attention") == count.total == expected


def test_a_product_that_is_not_known_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match=r"does not know the operator aten\._trilinear"):
        count_macs(nn.Bilinear(3, 4, 5), rand(2, 3), rand(2, 4))


def test_training_counts_both_directions() -> None:
    layer = nn.Linear(8, 4, bias=False)
    rows = rand(3, 8).requires_grad_()
    counter = MacCounter()
    with counter:
        forward = layer(rows)
        assert counter.count.total == 3 * 8 * 4
        forward.sum().backward()
    assert counter.count.total == 3 * 3 * 8 * 4
    conv = count_macs(lambda: F.conv1d(rand(1, 4, 9).requires_grad_(), rand(6, 4, 3).requires_grad_()).sum().backward())
    assert conv.total == 3 * 6 * 7 * 4 * 3


def test_rows_name_operator_shapes_and_calls() -> None:
    counter = MacCounter()
    with counter:
        for _ in range(2):
            torch.mm(rand(3, 4), rand(4, 5))
        torch.mv(rand(3, 4), rand(4))
    first, second = counter.count.operators
    assert (first.operator, first.shapes, first.calls, first.macs) == ("aten.mm", "3x4 4x5", 2, 120)
    assert (second.operator, second.shapes, second.calls, second.macs) == ("aten.mv", "3x4 4", 1, 12)
