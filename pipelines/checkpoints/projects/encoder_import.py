"""Encoders of `torch.nn` and of the authors' continual library, alone or inside a larger model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from pipelines.checkpoints.checkpoint import empty_model, shape_text
from pipelines.checkpoints.foreign_files.imported import (
    Hints,
    Imported,
    Wanted,
    agreed,
    ask_together,
    position_entries,
)
from pipelines.checkpoints.foreign_files.key_table import Mapped, rename
from pipelines.checkpoints.foreign_files.source_file import SourceFile
from pipelines.checkpoints.foreign_files.surroundings import (
    Surroundings,
    find_surroundings,
    is_positional,
    static_table,
)
from pipelines.checkpoints.projects.encoder_layouts import FoundEncoder, find_encoder, joined_projections
from pipelines.checkpoints.projects.encoder_reference import EncoderReference, Layer, torch_encoder
from pipelines.errors import CheckpointError, UsageError
from pipelines.model.positions.encodings import cyclic_table
from pipelines.model.transformer.config import Encoding, ModelConfig
from pipelines.model.transformer.torch_encoder import LAYER_KEYS
from pipelines.wording import listed

LARGEST_TABLE = 2**26  # numbers: a table that is computed, so no tensor in the file bounds it
_SIZES = ("layers.0.self_attn.in_proj_weight", "layers.0.linear1.weight")


def recognise(keys: Collection[str], prefix: str | None = None) -> bool:
    """Whether there is an encoder among these keys."""
    return find_encoder(keys, prefix) is not None


def read(source: SourceFile, hints: Hints) -> Imported:
    """An encoder, and what stands around it, as one of our models."""
    source = replace(source, weights=joined_projections(source.weights))
    weights = source.weights
    if hints.prefix and not hints.prefix.endswith("."):
        hints = replace(hints, prefix=f"{hints.prefix}.")
    encoder = find_encoder(weights, hints.prefix)
    if encoder is None:
        raise CheckpointError(f"{source.path} has no encoder")
    used = ["window", "heads", "activation", "prefix", "input_layer", "classifier", "positions_key"]
    if encoder.layout.library.startswith("torch"):
        used.append("norm")
    elif encoder.layout.library == "CoOadTR" and "num_embeddings" not in source.arguments:
        used += ["positions", "encoding"]
    hints.refuse_others(used, f"a {encoder.layout.library}")
    width, feed_forward = _sizes(weights, encoder, source)
    around = find_surroundings(
        _inside(weights, hints), encoder.keys.values(), width, hints, ordered=source.kind == "torch"
    )
    if "norm.weight" in encoder.keys and around.norm is not None:
        raise CheckpointError(f"{source.path}: the encoder ends in a norm and {around.norm} is another: not known")
    places = weights[around.positions].numel() // width if around.static and around.positions else None
    window, heads = _numbers(source.arguments, hints, width, places)
    table, encoding = _positions(weights, around, encoder, window, width, source.arguments, hints)
    notes = _notes(encoder, around, hints)
    head = None if around.classifier is None else weights[f"{around.classifier}.weight"]
    entry = None if around.input_layer is None else weights[f"{around.input_layer}.weight"]
    config = ModelConfig(
        input_width=width if entry is None else entry.shape[1],
        width=width,
        heads=heads,
        feed_forward=feed_forward,
        blocks=encoder.layers,
        window=window,
        classes=width if head is None else head.shape[0],
        activation=hints.activation or encoder.layout.activation,
        norm=hints.norm or encoder.layout.norm,
        in_projection_bias=_any(encoder, "self_attn.in_proj_bias"),
        out_projection_bias=_any(encoder, "self_attn.out_proj.bias"),
        final_norm=around.norm is not None or "norm.weight" in encoder.keys,
        positional="none" if table is None else "static" if around.static else "recycling",
        encoding=encoding,
        positions=None if table is None else table.shape[0],
    )
    renamed = _rename(source, encoder, around, config, hints)
    if table is not None and encoding == "learned":
        renamed.weights["encoder.positions.table"] = table
    return Imported.of(
        renamed,
        kind=f"{encoder.layout.library}, {encoder.layers} layer{'s' * (encoder.layers > 1)}, {config.norm}-norm",
        config=config,
        notes=tuple(notes),
        reference=EncoderReference(
            torch_encoder({name: weights[key] for name, key in encoder.keys.items()}, config),
            _layer(weights, around.input_layer),
            table,
            _layer(weights, around.norm),
            _layer(weights, around.classifier),
            around.static,
        ),
        left_out=tuple(
            key
            for key in renamed.dropped
            if _changes_numbers(key, weights[key], config) or _belongs_to(key, around, str(hints.prefix))
        ),
    )


def _changes_numbers(key: str, value: Tensor, config: ModelConfig) -> bool:
    """Whether what lies outside is a table of positions or a norm of the encoder's width: a part of its numbers.

    A table that could be one of positions counts, whatever its name is.
    """
    norm = value.dim() == 1 and value.shape[0] == config.width and "norm" in key.lower() and key.endswith("weight")
    table = static_table(value, config.width)
    unnamed = table is not None and table.shape[0] >= config.window and not key.endswith((".weight", ".bias"))
    return norm or unnamed or (is_positional(key) and table is not None)


def _belongs_to(key: str, around: Surroundings, prefix: str) -> bool:
    """Whether what lies outside stands beside a module that is taken, as the other layers of a head do."""
    for module in (around.input_layer, around.classifier):
        container = (module or "").rpartition(".")[0] + "."
        if container != "." and key.startswith(container) and not prefix.startswith(container):
            return True
    return False


def _numbers(arguments: Mapping[str, Any], hints: Hints, width: int, places: int | None) -> tuple[int, int]:
    """Window and heads. places: of the table of static positions, which no window is longer than."""
    trained = "the tokens that it was trained on" + (f": {places} at most, its positions" if places else "")
    window = Wanted("window", "--window", hints.window, arguments.get("enc_layers"), trained)
    heads = Wanted("number of heads", "--heads", hints.heads, arguments.get("num_heads"), f"it divides {width}")
    ask_together([window, heads])
    return agreed(window), agreed(heads)


def _sizes(weights: Mapping[str, Tensor], encoder: FoundEncoder, source: SourceFile) -> tuple[int, int]:
    """Width and feed-forward width, from two tensors of the first layer."""
    for name in _SIZES:
        if name not in encoder.keys:
            raise CheckpointError(f"{source.path} has a {encoder.layout.library} that lacks {name}")
        if weights[encoder.keys[name]].dim() != 2:
            raise CheckpointError(f"{source.path}: {encoder.keys[name]} is not a matrix")
    attention, linear = (weights[encoder.keys[name]] for name in _SIZES)
    return attention.shape[1], linear.shape[0]


def _inside(weights: Mapping[str, Tensor], hints: Hints) -> dict[str, Tensor]:
    """The keys that are looked at: all, or those under --prefix and what the user names."""
    if hints.prefix is None:
        return dict(weights)
    starts = (hints.prefix, *(f"{name}." for name in (hints.input_layer, hints.classifier) if name is not None))
    return {key: value for key, value in weights.items() if key.startswith(starts) or key == hints.positions_key}


def _positions(
    weights: Mapping[str, Tensor],
    around: Surroundings,
    encoder: FoundEncoder,
    window: int,
    width: int,
    arguments: Mapping[str, Any],
    hints: Hints,
) -> tuple[Tensor | None, Encoding]:
    """The table of positions (T, d) and whether it is learned or the cyclic one."""
    if around.positions is not None and around.static:
        table = static_table(weights[around.positions], width)
        if table is None:
            raise CheckpointError(
                f"{around.positions} is {shape_text(weights[around.positions].shape)}, not rows of {width}"
            )
        if table.shape[0] < window:
            raise UsageError(
                f"--window {window}: {around.positions} has {table.shape[0]} positions only; say a shorter window"
            )
        return table[:window].clone(), "learned"
    if around.positions is not None:
        table = weights[around.positions]
        fixed = around.positions.endswith("pattern")
        same = fixed and torch.allclose(table, cyclic_table(table.shape[0], width).to(table), atol=1e-5)
        return table, "cyclic" if same else "learned"
    if encoder.layout.library != "CoOadTR":
        return None, "learned"
    # The library's first form does not save its fixed encoding.
    if hints.encoding != "cyclic" and "num_embeddings" not in arguments:
        raise UsageError("the file has no positions; CoOadTR does not save its fixed ones: add --encoding cyclic")
    stated = arguments.get("num_embeddings", position_entries(hints.positions, window))
    if not isinstance(stated, int) or not window <= stated <= LARGEST_TABLE // width:
        raise CheckpointError(f"the file says num_embeddings {stated!r}: a window of {window} needs as many positions")
    return cyclic_table(stated, width), "cyclic"


def _notes(encoder: FoundEncoder, around: Surroundings, hints: Hints) -> list[str]:
    notes = []
    if hints.activation is None:
        notes.append(f"activation {encoder.layout.activation}: the library's default (--activation if it is another)")
    if hints.norm is None and encoder.layout.library.startswith("torch"):
        notes.append("post-norm: PyTorch's default (--norm pre if it was made with norm_first=True)")
    if encoder.layout.library.startswith("torch-style"):
        notes.append(
            "norms with ε = 1e-5, PyTorch's default; Hugging Face's own models have 1e-12, which is in no file"
        )
    if around.static:
        notes.append(f"{around.positions}: places in the window, added to the projected tokens in front of block 1")
        if around.input_layer is not None and str(around.positions).endswith("pe"):  # the tutorial's name for them
            module = around.input_layer
            notes.append(
                f"tokens are not scaled: if your model multiplies them by √d in front of the positions, as PyTorch's "
                f"tutorial does, multiply {module}.weight and {module}.bias by it before you save them"
            )
    if around.input_layer is None:
        notes.append("no input projection: tokens go in as they are")
    if around.classifier is not None and encoder.layout.library.startswith("torch"):
        notes.append("the classifier reads the newest row: a model that averages its rows gives other numbers")
    if around.classifier is None:
        notes.append("no classifier: the outputs are the encoder's own numbers, not scores of classes")
    return notes


def _advice(left: Sequence[str], weights: Mapping[str, Tensor], config: ModelConfig) -> str:
    """What could be done about keys that are left."""
    for key in left:
        table = static_table(weights[key], config.width)
        if table is None:
            continue
        if table.shape[0] == 1:
            return "a class token is read in OadTR's files only; "
        if config.positional == "none" and table.shape[0] >= config.window and not key.endswith(".weight"):
            return f"--positions-key {key} if these are positions; "
    return ""


def _rename(
    source: SourceFile, encoder: FoundEncoder, around: Surroundings, config: ModelConfig, hints: Hints
) -> Mapped:
    weights = source.weights
    table = {encoder.keys.get(name, name): ours for name, ours in _layer_table(encoder, config).items()}
    modules = (
        (around.input_layer, "input_projection"),
        (around.norm, "final_norm"),
        (around.classifier, "classifier"),
    )
    for module, ours in modules:
        for kind in ("weight", "bias"):
            if module is not None and f"{module}.{kind}" in weights:
                table[f"{module}.{kind}"] = f"{ours}.{kind}"
    dropped = {}
    positions = {} if around.positions is None else {around.positions: "encoder.positions.table"}
    if hints.prefix is not None:
        known = {*table, *positions}
        outside = [key for key in weights if key not in known and not key.startswith(hints.prefix)]
        dropped = dict.fromkeys(outside, "outside --prefix")
    shapes = {name: tuple(value.shape) for name, value in empty_model(config).state_dict().items()}
    left = [key for key in weights if key not in table and key not in dropped and key not in positions]
    if left and all(name in weights for name in table):
        raise CheckpointError(
            f"{source.path} has keys that nothing explains: {listed(left)} ({_advice(left, weights, config)}--prefix "
            f"{encoder.prefix or 'NAME.'} takes the encoder alone)"
        )
    renamed = rename(
        {key: weights[key] for key in weights if key not in positions}, table, dropped, shapes, source.path
    )
    renamed.mapped.update(positions)
    for name, shape in shapes.items():
        if name not in renamed.weights and name != "encoder.positions.table":
            renamed.weights[name] = _filled(name, shape, renamed.weights["encoder.blocks.0.expand.weight"])
    return renamed


def _layer_table(encoder: FoundEncoder, config: ModelConfig) -> dict[str, str]:
    """Torch's names to ours, for the keys that such an encoder must have."""
    biased = _any(encoder, "linear1.bias", "linear2.bias", "norm1.bias", "norm2.bias")
    optional = {
        "self_attn.in_proj_bias": config.in_projection_bias,
        "self_attn.out_proj.bias": config.out_projection_bias,
        **dict.fromkeys(("linear1.bias", "linear2.bias", "norm1.bias", "norm2.bias"), biased),
    }
    table = {
        f"layers.{layer}.{theirs}": f"encoder.blocks.{layer}.{ours}"
        for layer in range(encoder.layers)
        for theirs, ours in LAYER_KEYS.items()
        if optional.get(theirs, True)
    }
    if "norm.weight" in encoder.keys:
        table["norm.weight"] = "final_norm.weight"
    if "norm.bias" in encoder.keys:
        table["norm.bias"] = "final_norm.bias"
    return table


def _any(encoder: FoundEncoder, *names: str) -> bool:
    """Whether any layer has one of these: libraries leave biases out in all layers or in none."""
    return any(f"layers.{layer}.{name}" in encoder.keys for layer in range(encoder.layers) for name in names)


def _filled(name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
    """What a part that is not in the file does: biases add nothing, projections let everything through."""
    if name in ("input_projection.weight", "classifier.weight"):
        return torch.eye(shape[0], dtype=like.dtype)
    if not name.endswith("bias"):
        raise CheckpointError(f"the file has nothing for {name}")
    return like.new_zeros(shape)


def _layer(weights: Mapping[str, Tensor], module: str | None) -> Layer | None:
    return None if module is None else (weights[f"{module}.weight"], weights.get(f"{module}.bias"))
