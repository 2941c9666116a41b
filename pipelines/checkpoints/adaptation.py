"""Changes that a conversion may make on request: recycling positions, a deep stack, and leaving the decoder out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor

from pipelines.checkpoints.foreign_files.imported import Imported
from pipelines.checkpoints.projects.own_import import StackReference, filled_model
from pipelines.errors import UsageError
from pipelines.model.transformer.config import Encoding, ModelConfig
from pipelines.model.transformer.model import ContinualTransformer


def recycle(imported: Imported, positions: int, encoding: Encoding) -> Imported:
    """Static positions become recycling ones, the paper's way: cheapest, and no longer the same model.

    A learned table starts as the static one, repeated as often as it takes.
    """
    config = _transformer(imported, "--mode recycling")
    if config.positional != "static":
        raise UsageError(
            f"--mode recycling turns static positions into recycling ones, but this model's are {config.positional}: "
            "leave it out"
        )
    weights = dict(imported.weights)
    table = weights.pop("encoder.positions.table")
    if config.class_token_block == 1 and config.position_count > config.window:
        # A recycling encoding has no position for a class token: it keeps the one that it had.
        weights["encoder.class_token"] = weights["encoder.class_token"] + table[config.window]
    config = replace(config, positional="recycling", encoding=encoding, positions=positions)
    if encoding == "learned":
        weights["encoder.positions.table"] = table[torch.arange(positions) % config.window]
    return _changed(imported, config, weights, {})


def deepen(imported: Imported) -> Imported:
    """The same weights as a stack of single-output blocks: each block keeps keys and values of the rows that it was
    given, as they were then. Linear cost at any depth, and no longer the same model.
    """
    config = _transformer(imported, "--mode deep")
    if config.decoder_blocks:
        raise UsageError("--mode deep has the newest row only, but the decoder reads all of them: add --drop-decoder")
    if config.embedding is not None or config.shortcut != "none":
        raise UsageError("--mode deep is for encoders without an embedding in front or a shortcut: leave it out")
    if config.blocks == 1 or config.stacking == "deep":
        raise UsageError("--mode deep: every block of this model has one output already: leave it out")
    weights = dict(imported.weights)
    if config.class_token_block is not None:
        if config.class_token_block == 1 and config.position_count > config.window:
            # It enters at the last block, where there are no positions, with the one that it had.
            table = weights["encoder.positions.table"]
            weights["encoder.class_token"] = weights["encoder.class_token"] + table[config.window]
            weights["encoder.positions.table"] = table[: config.window]
            config = replace(config, positions=config.window)
        config = replace(config, class_token_block=config.blocks)
    config = replace(config, stacking="deep")
    changed = replace(imported, config=config, weights=weights)
    return replace(changed, reference=StackReference(cast(ContinualTransformer, filled_model(config, weights))))


def drop_decoder(imported: Imported) -> Imported:
    """The model without its decoder: the part of the classifier that read the decoder goes too."""
    config = _transformer(imported, "--drop-decoder")
    if not config.decoder_blocks:
        raise UsageError("--drop-decoder: this model has no decoder; leave it out")
    weights = {name: value for name, value in imported.weights.items() if not name.startswith("decoder.")}
    weights["classifier.weight"] = weights["classifier.weight"][:, : config.width].contiguous()
    config = replace(config, decoder_blocks=0, decoder_queries=0, decoder_heads=0, decoder_feed_forward=0)
    gone = {key: "--drop-decoder" for key, ours in imported.mapped.items() if ours.startswith("decoder.")}
    return _changed(imported, config, weights, gone)


def _transformer(imported: Imported, option: str) -> ModelConfig:
    if not isinstance(imported.config, ModelConfig):
        raise UsageError(f"{option} is about transformers, and this is {imported.kind}: leave it out")
    return imported.config


def _changed(before: Imported, config: ModelConfig, weights: Mapping[str, Tensor], gone: Mapping[str, str]) -> Imported:
    return replace(
        before,
        config=config,
        weights=weights,
        reference=before.reference.changed(config, weights),
        mapped={key: ours for key, ours in before.mapped.items() if ours in weights},
        dropped={
            **before.dropped,
            **{key: "not in the new model" for key, ours in before.mapped.items() if ours not in weights},
            **gone,
        },
    )
