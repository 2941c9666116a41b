"""OadTR: the official model with its decoder, and the variants without decoder and without class token.

The files also come from CoOadTR's repository, whose regular models have the class token at any block.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor

from pipelines.checkpoints.checkpoint import empty_model, shape_text
from pipelines.checkpoints.foreign_files.imported import Hints, Imported, Wanted, agreed, ask_together
from pipelines.checkpoints.foreign_files.key_table import expand, rename
from pipelines.checkpoints.foreign_files.source_file import SourceFile
from pipelines.checkpoints.projects.oadtr_reference import OadtrReference
from pipelines.errors import CheckpointError, UsageError
from pipelines.model.transformer.config import ModelConfig

TABLE = "position_encoding.pe.weight"
HEAD = "mlp_head.weight"
DECODER_QUERIES = "decoder_cls_token"
DECODER_HIDDEN = "decoder.layers.0.conv1.weight"

MODEL = {
    "linear_encoding.weight": "input_projection.weight",
    "linear_encoding.bias": "input_projection.bias",
    TABLE: "encoder.positions.table",
    "pre_head_ln.weight": "final_norm.weight",
    "pre_head_ln.bias": "final_norm.bias",
    HEAD: "classifier.weight",
    "mlp_head.bias": "classifier.bias",
}
BLOCK = {
    "encoder.net.{twice}.fn.norm.weight": "encoder.blocks.{block}.attention_norm.weight",
    "encoder.net.{twice}.fn.norm.bias": "encoder.blocks.{block}.attention_norm.bias",
    "encoder.net.{twice}.fn.fn.qkv.weight": "encoder.blocks.{block}.in_projection.weight",
    "encoder.net.{twice}.fn.fn.proj.weight": "encoder.blocks.{block}.out_projection.weight",
    "encoder.net.{next}.fn.norm.weight": "encoder.blocks.{block}.feed_forward_norm.weight",
    "encoder.net.{next}.fn.norm.bias": "encoder.blocks.{block}.feed_forward_norm.bias",
    "encoder.net.{next}.fn.fn.net.0.weight": "encoder.blocks.{block}.expand.weight",
    "encoder.net.{next}.fn.fn.net.0.bias": "encoder.blocks.{block}.expand.bias",
    "encoder.net.{next}.fn.fn.net.3.weight": "encoder.blocks.{block}.contract.weight",
    "encoder.net.{next}.fn.fn.net.3.bias": "encoder.blocks.{block}.contract.bias",
}
# Biases that a model may have or not.
IN_BIAS = {"encoder.net.{twice}.fn.fn.qkv.bias": "encoder.blocks.{block}.in_projection.bias"}
OUT_BIAS = {"encoder.net.{twice}.fn.fn.proj.bias": "encoder.blocks.{block}.out_projection.bias"}
_KINDS = ("weight", "bias")
DECODER = {
    DECODER_QUERIES: "decoder.queries",
    "decoder.norm.weight": "decoder.norm.weight",
    "decoder.norm.bias": "decoder.norm.bias",
    "classifier.weight": "decoder.classifier.weight",
    "classifier.bias": "decoder.classifier.bias",
}
DECODER_BLOCK = {
    **{
        f"decoder.layers.{{block}}.{attention}.{part}_projection.{kind}": (
            f"decoder.blocks.{{block}}.{attention}.{part}_projection.{kind}"
        )
        for attention in ("self_attention", "cross_attention")
        for part in ("query", "key", "value", "out")
        for kind in _KINDS
    },
    **{
        f"decoder.layers.{{block}}.{theirs}.{kind}": f"decoder.blocks.{{block}}.{ours}.{kind}"
        for theirs, ours in (
            ("conv1", "expand"),
            ("conv2", "contract"),
            ("norm1", "self_norm"),
            ("norm2", "cross_norm"),
            ("norm3", "feed_forward_norm"),
        )
        for kind in _KINDS
    },
}
DROPPED = {
    "position_encoding.position_ids": "the numbers 0, 1, 2, …",
    "decoder_position_encoding.position_ids": "the numbers 0, 1, 2, …",
    "decoder_position_encoding.pe.weight": "OadTR never adds it",
}


def recognise(keys: Collection[str]) -> bool:
    """Whether these are the keys of an OadTR."""
    return "linear_encoding.weight" in keys and any(key.startswith("encoder.net.0.") for key in keys)


def read(source: SourceFile, hints: Hints) -> Imported:
    """An OadTR as one of our models."""
    weights, path = source.weights, source.path
    _check_known(weights, source)
    arguments = source.arguments
    blocks = sum(key.endswith(".fn.fn.qkv.weight") for key in weights)
    width = weights["pre_head_ln.weight"].shape[0]
    decoder_blocks = _decoder_blocks(weights, width)
    window, heads, decoder_heads = _numbers(weights, arguments, hints, decoder_blocks)
    token_key, token_block, token_note = _class_token(weights, arguments, hints, window, blocks)
    used = ("window", "heads", "class_token", "class_token_block", *(("decoder_heads",) if decoder_blocks else ()))
    hints.refuse_others(used, "an OadTR" if decoder_blocks else "an OadTR without decoder")
    rows = window + (1 if token_block == 1 and weights[TABLE].shape[0] > window else 0)
    config = ModelConfig(
        input_width=weights["linear_encoding.weight"].shape[-1],
        width=width,
        heads=heads,
        feed_forward=weights["encoder.net.1.fn.fn.net.0.weight"].shape[0],
        blocks=blocks,
        window=window,
        classes=weights[HEAD].shape[0],
        activation="gelu",
        norm="pre",
        in_projection_bias="encoder.net.0.fn.fn.qkv.bias" in weights,
        out_projection_bias="encoder.net.0.fn.fn.proj.bias" in weights,
        dropout=_dropout(arguments),
        positional="static",
        positions=rows,
        class_token_block=token_block,
        decoder_blocks=decoder_blocks,
        decoder_queries=weights[DECODER_QUERIES].shape[1] if decoder_blocks else 0,
        decoder_heads=decoder_heads,
        decoder_feed_forward=weights[DECODER_HIDDEN].shape[0] if decoder_blocks else 0,
    )
    table = _table(config, token_key)
    shapes = {name: tuple(value.shape) for name, value in empty_model(config).state_dict().items()}
    notes = list(token_note)
    cut = dict(weights)
    if weights[TABLE].shape[0] == window + 1 and rows == window:
        cut[TABLE] = weights[TABLE][:window]
        notes.append(f"position {window} of the table was for a class token: not used")
    renamed = rename(cut, table, _dropped(weights, table), shapes, path)
    return Imported.of(
        renamed,
        kind=_kind(config),
        config=config,
        notes=tuple(notes),
        class_names=_class_names(arguments, config.classes),
        reference=OadtrReference(
            weights, window, blocks, config.heads, token_key, token_block or 0, decoder_blocks, config.decoder_heads
        ),
    )


def _check_known(weights: Mapping[str, Tensor], source: SourceFile) -> None:
    """The keys that sizes are read from."""
    if "position_encoding.pe" in weights:
        raise CheckpointError(
            f"{source.path} has OadTR's 'fixed' positions, which the official code adds by place in the batch, "
            "not in the window: there is no model to convert"
        )
    needed = (TABLE, "pre_head_ln.weight", HEAD, "encoder.net.1.fn.fn.net.0.weight", "encoder.net.0.fn.fn.qkv.weight")
    missing = [key for key in needed if key not in weights]
    if missing:
        raise CheckpointError(f"{source.path} looks like an OadTR, but lacks {', '.join(missing)}")
    sized = {"linear_encoding.weight": 2, HEAD: 2, DECODER_QUERIES: 3, DECODER_HIDDEN: 1}  # dimensions, at least
    for key in (*needed, *sized):
        if key in weights and (weights[key].dim() < sized.get(key, 1) or not weights[key].numel()):
            shape = shape_text(weights[key].shape)
            raise CheckpointError(f"{source.path} looks like an OadTR, but its {key} is {shape}")
    patch = source.arguments.get("patch_dim", 1)
    if patch != 1:
        raise CheckpointError(f"{source.path} has patches of {patch} frames (patch_dim); only 1 can be streamed")


def _numbers(
    weights: Mapping[str, Tensor], arguments: Mapping[str, Any], hints: Hints, decoder_blocks: int
) -> tuple[int, int, int]:
    """Window, heads and heads of the decoder (0 without)."""
    rows = weights[TABLE].shape[0]
    advice = f"its table has {rows} positions: {rows - 1} and one for the class token, or {rows}"
    window = Wanted("window", "--window", hints.window, arguments.get("enc_layers"), advice)
    heads = Wanted("number of heads", "--heads", hints.heads, arguments.get("num_heads"), "OadTR's default is 8")
    stated = arguments.get("decoder_num_heads") if decoder_blocks else 0
    second = Wanted("number of decoder heads", "--decoder-heads", hints.decoder_heads, stated, "OadTR's default is 4")
    ask_together([window, heads, second])
    if rows not in (agreed(window), agreed(window) + 1):
        raise UsageError(f"a window of {agreed(window)} does not fit {TABLE}: {advice}")
    return agreed(window), agreed(heads), agreed(second) if decoder_blocks else 0


def _class_token(
    weights: Mapping[str, Tensor], arguments: Mapping[str, Any], hints: Hints, window: int, blocks: int
) -> tuple[str | None, int | None, list[str]]:
    """The class token's key and block (None, None without), and what was assumed."""
    layer = arguments.get("cls_token_layer_idx")
    if "encoder.cls_token" in weights and hints.class_token is not False:
        if isinstance(layer, int) and layer % 2:
            raise CheckpointError(f"the class token enters before a feed-forward part (layer {layer}): not convertible")
        stated = layer // 2 + 1 if isinstance(layer, int) else None
        wanted_block = Wanted(
            "class token's block", "--class-token-block", hints.class_token_block, stated, f"1 to {blocks}"
        )
        return "encoder.cls_token", agreed(wanted_block), []
    if hints.class_token_block not in (None, 1):
        raise UsageError("--class-token-block: in an OadTR the class token enters at block 1")
    has_position = weights[TABLE].shape[0] > window
    wanted = hints.class_token if hints.class_token_block is None else True
    if wanted and ("cls_token" not in weights or not has_position):
        raise UsageError(f"--class-token: the file has no class token with a position ({TABLE} has {window} entries)")
    if wanted is None and (not has_position or "cls_token" not in weights or layer == -1):
        return None, None, ["no class token: the file has no position for one"]
    if wanted is None and _decoder_blocks(weights, weights["pre_head_ln.weight"].shape[0]):
        return "cls_token", 1, ["class token: as in the official model (--no-class-token if yours runs without)"]
    if wanted is None:
        raise UsageError(
            "the file cannot tell whether this OadTR runs with its class token (the keys are the same either way): "
            "add --class-token (the official forward pass) or --no-class-token"
        )
    return ("cls_token", 1, []) if wanted else (None, None, [])


def _decoder_blocks(weights: Mapping[str, Tensor], width: int) -> int:
    """Blocks of a decoder that is used: the head reads its mean beside the encoder's output."""
    if weights[HEAD].shape[1] != 2 * width:
        return 0
    blocks = sum(key.startswith("decoder.layers.") and key.endswith(".conv1.weight") for key in weights)
    if not blocks or DECODER_QUERIES not in weights or DECODER_HIDDEN not in weights:
        raise CheckpointError(f"{HEAD} reads a decoder ({2 * width} numbers), but the file has none")
    return blocks


def _table(config: ModelConfig, token_key: str | None) -> dict[str, str]:
    table = {**MODEL, **expand(BLOCK, config.blocks)}
    if config.in_projection_bias:
        table.update(expand(IN_BIAS, config.blocks))
    if config.out_projection_bias:
        table.update(expand(OUT_BIAS, config.blocks))
    if token_key is not None:
        table[token_key] = "encoder.class_token"
    if config.decoder_blocks:
        table.update({**DECODER, **expand(DECODER_BLOCK, config.decoder_blocks)})
    return table


def _dropped(weights: Mapping[str, Tensor], table: Mapping[str, str]) -> dict[str, str]:
    """Keys that may be there and are not used, with the reason."""
    dropped = dict(DROPPED)
    for key in ("cls_token", "encoder.cls_token"):
        if key not in table:
            dropped[key] = "the model runs without it"
    if DECODER_QUERIES not in table:
        decoder = [key for key in weights if key in DECODER or key.startswith("decoder.")]
        dropped.update(dict.fromkeys(decoder, "belongs to a decoder, which this model does not have or use"))
    return dropped


def _dropout(arguments: Mapping[str, Any]) -> float:
    rate = arguments.get("dropout_rate", 0.0)
    return float(rate) if isinstance(rate, (int, float)) and 0 <= rate < 1 else 0.0


def _class_names(arguments: Mapping[str, Any], classes: int) -> tuple[str, ...] | None:
    names = arguments.get("class_index")
    if not isinstance(names, (list, tuple)):
        return None
    class_names = tuple(map(str, names))
    return class_names if len(class_names) == classes == len(set(class_names)) else None


def _kind(config: ModelConfig) -> str:
    parts = [f"OadTR, {config.blocks} block{'s' * (config.blocks > 1)}"]
    if config.class_token_block is not None:
        parts.append("class token" + (f" at block {config.class_token_block}" * (config.class_token_block > 1)))
    if config.decoder_blocks:
        parts.append(f"decoder of {config.decoder_blocks} block{'s' * (config.decoder_blocks > 1)}")
    return ", ".join(parts)
