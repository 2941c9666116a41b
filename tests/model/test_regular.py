"""The regular model is the regular model: batch mode equals torch.nn.TransformerEncoder."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pipelines.errors import CheckpointError, InputError
from pipelines.model import RegularAttention, from_torch_encoder, load_torch_encoder
from tests.model.small import small_model, stream


def torch_encoder(norm_first: bool, activation: str, layers: int = 2, bias: bool = True) -> nn.TransformerEncoder:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(
        16, 4, 24, batch_first=True, norm_first=norm_first, activation=activation, bias=bias
    )
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).eval()


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_equals_torch(norm_first: bool, activation: str, layers: int) -> None:
    reference = torch_encoder(norm_first, activation, layers)
    encoder = from_torch_encoder(reference, window=9)
    rows = torch.randn(3, 9, 16)
    with torch.no_grad():
        wanted = reference(rows)
        torch.testing.assert_close(encoder(rows), wanted, rtol=1e-6, atol=1e-6)
        state = encoder.initial_state(3)
        for token in rows.unbind(1):
            output, state = encoder.step(token, state)
        torch.testing.assert_close(output, wanted[:, -1], rtol=1e-5, atol=1e-5)


def test_loader_names_what_does_not_fit() -> None:
    encoder = from_torch_encoder(torch_encoder(False, "relu"), window=4)
    weights = torch_encoder(False, "relu").state_dict()
    with pytest.raises(CheckpointError, match=r"missing \['blocks.1.expand.bias'\]"):
        load_torch_encoder(encoder, {k: v for k, v in weights.items() if k != "layers.1.linear1.bias"})
    with pytest.raises(CheckpointError, match=r"layers\.0\.surprise"):
        load_torch_encoder(encoder, {**weights, "layers.0.surprise": torch.zeros(1)})
    with pytest.raises(CheckpointError, match=r"another shape: blocks\.0\.expand\.bias"):
        load_torch_encoder(encoder, {**weights, "layers.0.linear1.bias": torch.zeros(5)})


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_groups_of_rows_change_nothing(rows: int) -> None:
    query, key, value = torch.randn(3, 2, 2, 7, 4, dtype=torch.float64).unbind(0)
    torch.testing.assert_close(RegularAttention(rows)(query, key, value), RegularAttention()(query, key, value))
    model, grouped = (small_model(torch.float64, blocks=2, attention_rows=r) for r in (None, rows))
    tokens = stream(2, 4, torch.float64)
    torch.testing.assert_close(grouped(tokens), model(tokens))


def test_a_window_is_no_longer_than_the_window() -> None:
    with pytest.raises(InputError, match="1 to 4 tokens, not 5"):
        small_model()(stream(1, 5))
