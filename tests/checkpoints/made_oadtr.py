"""OadTR state dicts of any size with random weights, in the official names."""

from __future__ import annotations

import torch
from torch import Tensor


def oadtr_weights(
    blocks: int = 1,
    *,
    width: int = 16,
    inputs: int = 12,
    window: int = 8,
    classes: int = 5,
    positions: int | None = None,
    decoder_blocks: int = 0,
    queries: int = 3,
    seed: int = 0,
) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator) / shape[-1] ** 0.5

    def linear(name: str, rows: int, columns: int, bias: bool = True) -> dict[str, Tensor]:
        return {f"{name}.weight": random(rows, columns)} | ({f"{name}.bias": random(rows)} if bias else {})

    def norm(name: str) -> dict[str, Tensor]:
        return {f"{name}.weight": 1 + random(width), f"{name}.bias": random(width)}

    rows = window + 1 if positions is None else positions
    weights = {
        "cls_token": random(1, 1, width),
        **linear("linear_encoding", width, inputs),
        "position_encoding.position_ids": torch.arange(rows).expand(1, -1),
        "position_encoding.pe.weight": random(rows, width),
    }
    for block in range(blocks):
        weights |= norm(f"encoder.net.{2 * block}.fn.norm")
        weights |= linear(f"encoder.net.{2 * block}.fn.fn.qkv", 3 * width, width, bias=False)
        weights |= linear(f"encoder.net.{2 * block}.fn.fn.proj", width, width)
        weights |= norm(f"encoder.net.{2 * block + 1}.fn.norm")
        weights |= linear(f"encoder.net.{2 * block + 1}.fn.fn.net.0", width, width)
        weights |= linear(f"encoder.net.{2 * block + 1}.fn.fn.net.3", width, width)
    weights |= norm("pre_head_ln")
    weights |= linear("mlp_head", classes, width * (2 if decoder_blocks else 1))
    weights |= linear("classifier", classes, width)
    if decoder_blocks:
        weights["decoder_cls_token"] = random(1, queries, width)
        weights |= norm("decoder.norm")
    for block in range(decoder_blocks):
        for attention in ("self_attention", "cross_attention"):
            for part in ("query", "key", "value", "out"):
                weights |= linear(f"decoder.layers.{block}.{attention}.{part}_projection", width, width)
        for convolution in ("conv1", "conv2"):
            weights |= {
                f"decoder.layers.{block}.{convolution}.weight": random(width, width, 1),
                f"decoder.layers.{block}.{convolution}.bias": random(width),
            }
        for number in (1, 2, 3):
            weights |= norm(f"decoder.layers.{block}.norm{number}")
    return weights
