"""How libraries name the weights of an encoder, as tables: regular expressions to the names of `torch.nn`.

`layers.1.fn.0.self_attn.in_proj_weight` of the authors' continual library is `layers.1.self_attn.in_proj_weight` there.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from pipelines.errors import UsageError
from pipelines.model.config import Activation

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
        "torch.nn.TransformerEncoderLayer",
        _PREFIX + r"self_attn\.in_proj_weight",
        _alone(_TORCH_LAYER),
    ),
)


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
        raise UsageError(f"--prefix {prefix}: no encoder has keys that begin so; `cotrans info FILE` lists the keys")
    return None


def _collect(layout: Layout, prefix: str, keys: Collection[str]) -> FoundEncoder:
    found: dict[str, str] = {}
    layers = 0
    for key in keys:
        if not key.startswith(prefix):
            continue
        for pattern, name in layout.rules:
            match = re.fullmatch(pattern, key.removeprefix(prefix))
            if match is not None:
                found[name.format(**match.groupdict())] = key
                break
    for name in found:
        if name.startswith("layers."):
            layers = max(layers, int(name.split(".")[1]) + 1)
    return FoundEncoder(layout, prefix, found, layers)
