"""How libraries name the weights of an encoder, as tables: regular expressions to the names of `torch.nn`.

`layers.1.fn.0.self_attn.in_proj_weight` of the authors' continual library is `layers.1.self_attn.in_proj_weight` there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from pipelines.errors import CheckpointError, UsageError
from pipelines.model.transformer.config import Activation, Norm

_ATTENTION = r"(?P<name>in_proj_weight|in_proj_bias|out_proj\.weight|out_proj\.bias)"
_KIND = r"(?P<kind>weight|bias)"
_PREFIX = r"(?P<prefix>(?:.*\.)?)"


@dataclass(frozen=True)
class Layout:
    """One way of naming. Rules map what follows the prefix to torch's name; {layer} defaults to 0."""

    library: str
    anchor: str  # matches one key of every such encoder, and its prefix
    rules: tuple[tuple[str, str], ...]
    activation: Activation = "relu"  # what the library takes unless told otherwise
    norm: Norm = "post"


@dataclass(frozen=True)
class FoundEncoder:
    """An encoder among the keys of a file."""

    layout: Layout
    prefix: str
    keys: dict[str, str]  # torch's name to the key in the file
    layers: int


_TORCH_LAYER = (
    (r"self_attn\." + _ATTENTION, "self_attn.{name}"),
    (r"(?P<name>linear1|linear2|norm1|norm2)\." + _KIND, "{name}.{kind}"),
)
_CONTINUAL_LAYER = (
    (r"0\.self_attn\." + _ATTENTION, "self_attn.{name}"),
    (r"1\.(?:fn\.)?(?P<name>norm1|norm2)\.(?:fn\.)?" + _KIND, "{name}.{kind}"),
    (r"1\.(?:fn\.)?_ff_block\.(?:1|fn)\.(?P<name>linear1|linear2)\." + _KIND, "{name}.{kind}"),
)


def _in_layers(rules: tuple[tuple[str, str], ...], wrapper: str = "") -> tuple[tuple[str, str], ...]:
    return tuple((r"layers\.(?P<layer>\d+)\." + wrapper + pattern, "layers.{layer}." + name) for pattern, name in rules)


def _alone(rules: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return tuple((pattern, "layers.0." + name) for pattern, name in rules)


# Hugging Face's names of the layers of BERT and ViT; queries, keys and values are joined first (`joined_projections`).
_BERT_LAYER = (
    (r"attention\.self\.in_proj_" + _KIND, "self_attn.in_proj_{kind}"),
    (r"attention\.output\.dense\." + _KIND, "self_attn.out_proj.{kind}"),
    (r"attention\.output\.LayerNorm\." + _KIND, "norm1.{kind}"),
    (r"intermediate\.dense\." + _KIND, "linear1.{kind}"),
    (r"output\.dense\." + _KIND, "linear2.{kind}"),
    (r"output\.LayerNorm\." + _KIND, "norm2.{kind}"),
)
_VIT_LAYER = (
    (r"attention\.attention\.in_proj_" + _KIND, "self_attn.in_proj_{kind}"),
    (r"attention\.output\.dense\." + _KIND, "self_attn.out_proj.{kind}"),
    (r"layernorm_before\." + _KIND, "norm1.{kind}"),
    (r"layernorm_after\." + _KIND, "norm2.{kind}"),
    (r"intermediate\.dense\." + _KIND, "linear1.{kind}"),
    (r"output\.dense\." + _KIND, "linear2.{kind}"),
)
_SEPARATE = re.compile(r"(?P<module>.*\.(?:self|attention))\.(?P<part>query|key|value)\.(?P<kind>weight|bias)")


def _in_layer_list(rules: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return tuple((r"layer\.(?P<layer>\d+)\." + pattern, "layers.{layer}." + name) for pattern, name in rules)


# The order of looking: a more special layout comes before those that its keys would fit too.
LAYOUTS = (
    Layout(
        "torch.nn.TransformerEncoder",
        _PREFIX + r"layers\.\d+\.self_attn\.in_proj_weight",
        (*_in_layers(_TORCH_LAYER), (r"norm\." + _KIND, "norm.{kind}")),
    ),
    Layout(
        "continual.TransformerEncoder",
        _PREFIX + r"layers\.\d+\.(?:fn\.)?0\.self_attn\.in_proj_weight",
        (*_in_layers(_CONTINUAL_LAYER, r"(?:fn\.)?"), (r"norm\.(?:fn\.)?" + _KIND, "norm.{kind}")),
    ),
    Layout(
        "continual.SingleOutputTransformerEncoderLayer",
        _PREFIX + r"1\.norm1\.fn\.weight",
        _alone(_CONTINUAL_LAYER),
    ),
    Layout(  # continual_transformers, the library's first form: modules have numbers only
        "CoOadTR",
        _PREFIX + r"1\.fn\.0\.1\.in_proj_weight",
        (
            (r"0\.0\.1\." + _ATTENTION, "layers.0.self_attn.{name}"),
            (r"0\.1\.fn\.0\." + _KIND, "layers.0.norm1.{kind}"),
            (r"0\.1\.fn\.1\.fn\.0\." + _KIND, "layers.0.linear1.{kind}"),
            (r"0\.1\.fn\.1\.fn\.3\." + _KIND, "layers.0.linear2.{kind}"),
            (r"0\.1\.fn\.2\." + _KIND, "layers.0.norm2.{kind}"),
            (r"1\.fn\.0\.1\." + _ATTENTION, "layers.1.self_attn.{name}"),
            (r"1\.fn\.1\.fn\." + _KIND, "layers.1.norm1.{kind}"),
            (r"1\.fn\.2\.1\.0\." + _KIND, "layers.1.linear1.{kind}"),
            (r"1\.fn\.2\.1\.3\." + _KIND, "layers.1.linear2.{kind}"),
            (r"1\.fn\.3\.fn\." + _KIND, "layers.1.norm2.{kind}"),
        ),
        activation="gelu",
    ),
    Layout(
        "CoOadTR",
        _PREFIX + r"0\.1\.in_proj_weight",
        (
            (r"0\.1\." + _ATTENTION, "layers.0.self_attn.{name}"),
            (r"1\.fn\." + _KIND, "layers.0.norm1.{kind}"),
            (r"2\.1\.0\." + _KIND, "layers.0.linear1.{kind}"),
            (r"2\.1\.3\." + _KIND, "layers.0.linear2.{kind}"),
            (r"3\.fn\." + _KIND, "layers.0.norm2.{kind}"),
        ),
        activation="gelu",
    ),
    Layout(
        "torch-style BERT encoder",
        _PREFIX + r"layer\.\d+\.attention\.self\.in_proj_weight",
        _in_layer_list(_BERT_LAYER),
        activation="gelu",
    ),
    Layout(
        "torch-style ViT encoder",
        _PREFIX + r"layer\.\d+\.attention\.attention\.in_proj_weight",
        _in_layer_list(_VIT_LAYER),
        activation="gelu",
        norm="pre",
    ),
    Layout(
        "torch.nn.TransformerEncoderLayer",
        _PREFIX + r"self_attn\.in_proj_weight",
        _alone(_TORCH_LAYER),
    ),
)


def joined_projections(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights with queries, keys and values of BERT-style layers as one projection, in the place of the query."""
    joined: dict[str, Tensor] = {}
    for key, value in weights.items():
        match = _SEPARATE.fullmatch(key)
        names = [f"{match['module']}.{part}.{match['kind']}" for part in ("query", "key", "value")] if match else []
        if match is None or any(name not in weights for name in names):
            joined[key] = value
        elif match["part"] == "query":
            parts = [weights[name] for name in names]
            if len({part.shape for part in parts}) > 1:
                raise CheckpointError(f"{key}: query, key and value have different shapes, which is not supported")
            joined[f"{match['module']}.in_proj_{match['kind']}"] = torch.cat(parts)
    return joined


def find_encoder(keys: Collection[str], prefix: str | None) -> FoundEncoder | None:
    """The encoder among the keys of a file, or None. prefix: of its keys, where there are several."""
    wanted = None if prefix is None else prefix if prefix.endswith(".") or not prefix else f"{prefix}."
    for layout in LAYOUTS:
        anchors = (re.fullmatch(layout.anchor, key) for key in keys)
        prefixes = {match["prefix"] for match in anchors if match is not None}
        if wanted is not None:
            prefixes &= {wanted}
        if len(prefixes) > 1:
            raise UsageError(f"the file has several encoders: choose one with --prefix ({', '.join(sorted(prefixes))})")
        if prefixes:
            return _collect(layout, prefixes.pop(), keys)
    if wanted is not None:
        raise UsageError(f"--prefix {prefix}: no encoder has keys that begin so; `cotrans info FILE --json` has them")
    return None


def _collect(layout: Layout, prefix: str, keys: Collection[str]) -> FoundEncoder:
    theirs_by_ours: dict[str, str] = {}
    layers = 0
    for key in keys:
        if not key.startswith(prefix):
            continue
        for pattern, name in layout.rules:
            match = re.fullmatch(pattern, key.removeprefix(prefix))
            if match is not None:
                theirs_by_ours[name.format(**match.groupdict())] = key
                break
    for name in theirs_by_ours:
        if name.startswith("layers."):
            layers = max(layers, int(name.split(".")[1]) + 1)
    return FoundEncoder(layout, prefix, theirs_by_ours, layers)
