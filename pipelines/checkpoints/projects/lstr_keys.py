"""The keys of LSTR and TeSTra, and ours."""

from __future__ import annotations

from collections.abc import Mapping

from pipelines.model.lstr.config import LstrConfig

TABLE = "pos_encoding.pe"
_KINDS = ("weight", "bias")
MODEL = {
    "classifier.weight": "classifier.weight",
    "classifier.bias": "classifier.bias",
}
HEADS = {
    f"feature_head_{memory}.input_linear.0.{kind}": f"{memory}_head.{kind}"
    for memory in ("long", "work")
    for kind in _KINDS
}
ATTENTION = {
    "in_proj_weight": "in_projection.weight",
    "in_proj_bias": "in_projection.bias",
    "out_proj.weight": "out_projection.weight",
    "out_proj.bias": "out_projection.bias",
}
SELF_ATTENTION = {f"self_attn.{theirs}": f"self_attention.{ours}" for theirs, ours in ATTENTION.items()}
CROSS_ATTENTION = {f"multihead_attn.{theirs}": f"cross_attention.{ours}" for theirs, ours in ATTENTION.items()}
FEED_FORWARD = {
    f"{theirs}.{kind}": f"{ours}.{kind}"
    for theirs, ours in (("linear1", "expand"), ("linear2", "contract"), ("norm1", "self_norm"))
    for kind in _KINDS
}
# A layer with a memory, and one without: the second norm is not the same.
MEMORY_LAYER = {
    **SELF_ATTENTION,
    **CROSS_ATTENTION,
    **FEED_FORWARD,
    **{f"norm2.{kind}": f"cross_norm.{kind}" for kind in _KINDS},
    **{f"norm3.{kind}": f"feed_forward_norm.{kind}" for kind in _KINDS},
}
PLAIN_LAYER = {**SELF_ATTENTION, **FEED_FORWARD, **{f"norm2.{kind}": f"feed_forward_norm.{kind}" for kind in _KINDS}}


def key_table(config: LstrConfig) -> dict[str, str]:
    """Their keys to ours, for all weights of a model; the table of positions only where there are any."""
    table = {**MODEL, **(HEADS if config.feature_head else {})}
    modules = zip(config.encoder_queries, config.encoder_layers, config.encoder_norms, strict=True)
    for index, (queries, layers, norm) in enumerate(modules):
        if queries:
            table[f"enc_queries.{index}.weight"] = f"long_encoder.stages.{index}.queries"
        rows = MEMORY_LAYER if queries else PLAIN_LAYER
        table |= _stack(rows, f"enc_modules.{index}.layers", f"long_encoder.stages.{index}.layers", layers)
        if norm:
            table |= {f"enc_modules.{index}.norm.{kind}": f"long_encoder.stages.{index}.norm.{kind}" for kind in _KINDS}
    table |= _stack(MEMORY_LAYER, "dec_modules.layers", "work_decoder.layers", config.decoder_layers)
    if config.decoder_norm:
        table |= {f"dec_modules.norm.{kind}": f"work_decoder.norm.{kind}" for kind in _KINDS}
    if config.position_count:
        table[TABLE] = "positions"
    return table


def _stack(rows: Mapping[str, str], theirs: str, ours: str, layers: int) -> dict[str, str]:
    """A table for one layer, written out for all."""
    return {
        f"{theirs}.{layer}.{key}": f"{ours}.{layer}.{value}" for layer in range(layers) for key, value in rows.items()
    }
