"""Makes the `continual_*` files of this folder with the authors' library (see README.md); not part of the tests.

pip install continual-inference==1.2.4 && python tests/golden/make_continual.py
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import reduce
from pathlib import Path

import continual
import torch
from continual.transformer import NaiveResidual, RetroactiveLambda, RetroactiveUnity, SelectOrDelay
from safetensors.torch import save_file
from torch import Tensor, nn

HERE = Path(__file__).parent
WIDTH, HEADS, FEED_FORWARD, WINDOW, INPUT, CLASSES, STEPS = 16, 4, 24, 8, 12, 5, 40


def encoder(layers: int, norm: bool = False, activation: nn.Module | None = None) -> nn.Module:
    factory = continual.TransformerEncoderLayerFactory(
        WIDTH, HEADS, FEED_FORWARD, dropout=0.0, sequence_len=WINDOW, activation=activation or nn.functional.relu
    )
    return continual.TransformerEncoder(factory, layers, nn.LayerNorm(WIDTH) if norm else None)


def sum_last(inputs: Sequence[Tensor]) -> Tensor:
    length = min(part.shape[2] for part in inputs)
    return reduce(torch.add, [part[:, :, -length:] for part in inputs])


def first_form(layers: int) -> nn.Module:
    """CoOadTR's encoder as the library's first form numbered it: no biases in the attention, GELU."""

    def attention(kind: type, **options: object) -> nn.Module:
        return kind(
            WIDTH, HEADS, 0.0, bias=False, batch_first=True, embed_dim_second=True, sequence_len=WINDOW,
            forward_returns_attn_mask=False, **options,
        )  # fmt: skip

    def feed_forward(container: type) -> nn.Module:
        return container(
            continual.Linear(WIDTH, FEED_FORWARD, channel_dim=1), nn.GELU(), nn.Dropout(0.0),
            continual.Linear(FEED_FORWARD, WIDTH, channel_dim=1), nn.Dropout(0.0),
        )  # fmt: skip

    single = attention(continual.SingleOutputMultiheadAttention, query_index=-1)
    last = continual.Sequential(
        continual.BroadcastReduce(SelectOrDelay(single.delay), single, reduce=sum_last, auto_delay=False),
        continual.Lambda(nn.LayerNorm(WIDTH), takes_time=False),
        continual.Residual(feed_forward(continual.Sequential)),
        continual.Lambda(nn.LayerNorm(WIDTH), takes_time=False),
    )
    if layers == 1:
        return last
    retroactive = attention(continual.RetroactiveMultiheadAttention)
    plain = nn.Sequential(
        nn.Linear(WIDTH, FEED_FORWARD), nn.GELU(), nn.Dropout(0.0), nn.Linear(FEED_FORWARD, WIDTH), nn.Dropout(0.0)
    )
    first = continual.Sequential(
        continual.BroadcastReduce(RetroactiveUnity(retroactive.delay), retroactive, reduce="sum", auto_delay=False),
        RetroactiveLambda(nn.Sequential(nn.LayerNorm(WIDTH), NaiveResidual(plain), nn.LayerNorm(WIDTH))),
    )
    return continual.Sequential(first, RetroactiveLambda(last, takes_time=True))


def vision(body: nn.Module, learned: bool, entries: int) -> nn.Module:
    """CoOadTR: projection, recycling positions, encoder, norm, head."""
    return continual.Sequential(
        continual.Linear(INPUT, WIDTH, channel_dim=1),
        continual.RecyclingPositionalEncoding(WIDTH, entries, learned=learned, forward_update_index_steps=1),
        nn.Dropout(0.0),
        body,
        continual.Lambda(nn.LayerNorm(WIDTH), takes_time=False),
        continual.Linear(WIDTH, CLASSES, channel_dim=1),
    )


def write(name: str, model: nn.Module, stream: Tensor, arguments: dict[str, object] | None = None) -> None:
    model.eval()
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases start as 1 and 0: make every one of them matter
            parameter += 0.2 * torch.randn_like(parameter)
        windows = [stream[start : start + WINDOW].T.unsqueeze(0) for start in range(STEPS - WINDOW + 1)]
        scores = torch.cat([model.forward(window)[:, :, -1] for window in windows])
    weights = dict(model.state_dict())
    saved = weights if arguments is None else {"model": weights, "epoch": 4, "args": argparse.Namespace(**arguments)}
    torch.save(saved, HERE / f"{name}.pth")
    expected = HERE / f"{name}.expected.safetensors"
    save_file({"stream": stream, "scores": scores.contiguous()}, expected)
    expected.chmod(0o644)


def main() -> None:
    torch.manual_seed(7)
    wide, narrow = torch.randn(STEPS, INPUT), torch.randn(STEPS, WIDTH)
    for layers in (1, 2):
        head = continual.Linear(WIDTH, CLASSES, channel_dim=1)
        write(f"continual_b{layers}", continual.Sequential(encoder(layers, norm=layers == 2), head), narrow)
        arguments = {"enc_layers": WINDOW, "num_heads": HEADS, "num_embeddings": 2 * WINDOW - 1}
        write(f"cooadtr_b{layers}", vision(first_form(layers), True, 2 * WINDOW - 1), wide, arguments)
    write("continual_vision", vision(encoder(2, activation=nn.GELU()), False, WINDOW), wide)


if __name__ == "__main__":
    main()
