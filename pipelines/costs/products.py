"""MACs of every operator that multiplies matrices: shapes in, one number out.

A product of (m, k) and (k, n) is m · k · n MACs. Adding a bias or a matrix is not a MAC.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor

Arguments = tuple[Any, ...]
Formula = Callable[[Arguments, dict[str, Any], Any], int]


def _matrices(first: int, second: int) -> Formula:
    """(…, m, k) at argument `first` times (…, k, n) or (k,) at `second`."""

    def macs(args: Arguments, kwargs: dict[str, Any], result: Any) -> int:
        left, right = args[first], args[second]
        return int(left.numel()) * (int(right.shape[-1]) if right.dim() > 1 else 1)

    return macs


def _outer(args: Arguments, kwargs: dict[str, Any], result: Any) -> int:
    return int(args[1].numel() * args[2].numel())


def _linear(args: Arguments, kwargs: dict[str, Any], result: Any) -> int:
    return int(args[0].numel()) * int(args[1].shape[0])


def _filter(weight: Tensor) -> int:
    return math.prod(map(int, weight.shape[1:]))


def _rows(tensor: Tensor) -> int:
    """Vectors in a tensor (…, d)."""
    return math.prod(map(int, tensor.shape[:-1]))


def _convolution(args: Arguments, kwargs: dict[str, Any], result: Any) -> int:
    """Each number of the output (of the input, when transposed) meets one filter."""
    source, weight, transposed = args[0], args[1], bool(args[6])
    points = source if transposed else result
    return int(points.numel()) * _filter(weight)


def _mkldnn_convolution(args: Arguments, kwargs: dict[str, Any], result: Any) -> int:
    return int(result.numel()) * _filter(args[1])


def _convolution_backward(args: Arguments, kwargs: dict[str, Any], result: Any) -> int:
    gradient, source, weight, transposed, mask = args[0], args[1], args[2], bool(args[7]), args[10]
    points = source if transposed else gradient
    return int(points.numel()) * _filter(weight) * (int(mask[0]) + int(mask[1]))


def _attention(args: Arguments, kwargs: dict[str, Any], result: Any) -> int:
    """Fused attention on (…, m, w), (…, n, w), (…, n, v): scores and weighted sum."""
    query, key, value = args[:3]
    return _rows(query) * int(key.shape[-2]) * (int(query.shape[-1]) + int(value.shape[-1]))


def _attention_backward(args: Arguments, kwargs: dict[str, Any], result: Any) -> int:
    """Scores again, and the gradients of queries, keys (w each), weights and values (v each)."""
    query, key, value = args[1:4]
    return _rows(query) * int(key.shape[-2]) * (3 * int(query.shape[-1]) + 2 * int(value.shape[-1]))


def _lengths(sequences: Tensor) -> list[int]:
    """Tokens of each sequence of a batch (B, T, d), which may be a nested one."""
    if sequences.is_nested:
        sizes: list[list[int]] = sequences._nested_tensor_size().tolist()
        return [size[0] for size in sizes]
    return [int(sequences.shape[1])] * int(sequences.shape[0])


def _multi_head(query: Tensor, key: Tensor, value: Tensor, width: int) -> int:
    """In-projections, scores, weighted sum and out-projection of attention of `width`."""
    total = 0
    for m, n, v in zip(_lengths(query), _lengths(key), _lengths(value), strict=True):
        total += (m + n + v) * width**2  # in-projections
        total += 2 * m * n * width
        total += m * width**2
    return total


def _native_multi_head(args: Arguments, kwargs: dict[str, Any], result: Any) -> int:
    return _multi_head(args[0], args[1], args[2], int(args[3]))


def _encoder_layer(args: Arguments, kwargs: dict[str, Any], result: Any) -> int:
    """PyTorch's fused encoder block: attention, then a feed-forward whose first weight is (hidden, d)."""
    rows, width = args[0], int(args[1])
    weights = [value for value in args if isinstance(value, Tensor) and value.dim() == 2]
    hidden = int(weights[2].shape[0])  # after in-projection (3d, d) and out-projection (d, d)
    return _multi_head(rows, rows, rows, width) + 2 * sum(_lengths(rows)) * width * hidden


def _mkldnn_rnn(args: Arguments, kwargs: dict[str, Any], result: Any) -> int:
    """One layer in one direction: inputs (T, B, i), weights (g, i) and (g, h) for each token."""
    source, from_input, from_hidden = args[0], args[1], args[2]
    tokens = _rows(source)
    return tokens * (int(from_input.numel()) + int(from_hidden.numel()))


PRODUCTS: dict[str, Formula] = {
    "aten.mm": _matrices(0, 1),
    "aten.addmm": _matrices(1, 2),
    "aten.addmm_": _matrices(1, 2),
    "aten._addmm_activation": _matrices(1, 2),
    "aten._int_mm": _matrices(0, 1),
    "aten.bmm": _matrices(0, 1),
    "aten.baddbmm": _matrices(1, 2),
    "aten.baddbmm_": _matrices(1, 2),
    "aten.addbmm": _matrices(1, 2),
    "aten.addbmm_": _matrices(1, 2),
    "aten.mv": _matrices(0, 1),
    "aten.addmv": _matrices(1, 2),
    "aten.addmv_": _matrices(1, 2),
    "aten.dot": _matrices(0, 1),
    "aten.vdot": _matrices(0, 1),
    "aten.addr": _outer,
    "aten.addr_": _outer,
    "aten.linear": _linear,
    "aten.mkldnn_linear": _linear,
    "aten.convolution": _convolution,
    "aten._convolution": _convolution,
    "aten.convolution_overrideable": _convolution,
    "aten.mkldnn_convolution": _mkldnn_convolution,
    "aten.convolution_backward": _convolution_backward,
    "aten._scaled_dot_product_flash_attention_for_cpu": _attention,
    "aten._scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "aten._scaled_dot_product_flash_attention": _attention,
    "aten._scaled_dot_product_flash_attention_backward": _attention_backward,
    "aten._scaled_dot_product_efficient_attention": _attention,
    "aten._scaled_dot_product_efficient_attention_backward": _attention_backward,
    "aten._scaled_dot_product_cudnn_attention": _attention,
    "aten._scaled_dot_product_cudnn_attention_backward": _attention_backward,
    "aten._scaled_dot_product_fused_attention_overrideable": _attention,
    "aten._native_multi_head_attention": _native_multi_head,
    "aten._transformer_encoder_layer_fwd": _encoder_layer,
    "aten.mkldnn_rnn_layer": _mkldnn_rnn,
}

# Parts of the names of operators that multiply matrices or might.
_SUSPECTS = (
    *("mm", "mv", "dot", "conv", "attention", "multi_head", "encoder", "decoder", "linear", "matmul"),
    *("rnn", "lstm", "gru", "einsum", "bilinear", "trilinear", "cdist", "euclidean", "solve"),
)
# Names that hold one of those and multiply no matrices.
_HARMLESS = frozenset(
    {
        "aten.upsample_linear1d",
        "aten.upsample_bilinear2d",
        "aten.upsample_trilinear3d",
        "aten._fused_sdp_choice",
        "aten.gamma",
        "aten.lgamma",
        "aten.digamma",
        "aten.polygamma",
        "aten._thnn_fused_lstm_cell",
        "aten._thnn_fused_gru_cell",
    }
)


def looks_like_product(name: str) -> bool:
    """Whether an operator that is not in `PRODUCTS` may be a matrix product."""
    return name not in _HARMLESS and any(part in name.rsplit(".", 1)[-1] for part in _SUSPECTS)
