"""LSTR state dicts of any size with random weights, in the official names."""

from __future__ import annotations

import torch
from torch import Tensor

from pipelines.model.lstr.config import LstrConfig
from pipelines.model.lstr.model import sinusoids


def lstr_weights(config: LstrConfig, seed: int = 0, positions: int = 200) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    width, hidden = config.width, config.feed_forward

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator) / shape[-1] ** 0.5

    def linear(name: str, rows: int, columns: int) -> dict[str, Tensor]:
        return {f"{name}.weight": random(rows, columns), f"{name}.bias": random(rows)}

    def norm(name: str) -> dict[str, Tensor]:
        return {f"{name}.weight": 1 + random(width), f"{name}.bias": random(width)}

    def layer(name: str, cross: bool) -> dict[str, Tensor]:
        made = {}
        for attention in ("self_attn", "multihead_attn")[: 1 + cross]:
            made |= {
                f"{name}.{attention}.in_proj_weight": random(3 * width, width) * 2,
                f"{name}.{attention}.in_proj_bias": random(3 * width),
                **linear(f"{name}.{attention}.out_proj", width, width),
            }
        made |= linear(f"{name}.linear1", hidden, width) | linear(f"{name}.linear2", width, hidden)
        for number in range(1, 3 + cross):
            made |= norm(f"{name}.norm{number}")
        return made

    weights = {}
    if config.feature_head:
        weights |= linear("feature_head_long.input_linear.0", width, config.input_width)
        weights |= linear("feature_head_work.input_linear.0", width, config.input_width)
    weights["pos_encoding.pe"] = sinusoids(positions, width).unsqueeze(1)
    modules = zip(config.encoder_queries, config.encoder_layers, config.encoder_norms, strict=True)
    for index, (queries, layers, normed) in enumerate(modules):
        if queries:
            weights[f"enc_queries.{index}.weight"] = torch.randn(queries, width, generator=generator)
        for number in range(layers):
            weights |= layer(f"enc_modules.{index}.layers.{number}", queries > 0)
        if normed:
            weights |= norm(f"enc_modules.{index}.norm")
    for number in range(config.decoder_layers):
        weights |= layer(f"dec_modules.layers.{number}", True)
    if config.decoder_norm:
        weights |= norm("dec_modules.norm")
    return weights | linear("classifier", config.classes, width)
