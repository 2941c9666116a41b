"""Models with a name: those of the paper, and a deep stack. Every size can be overridden."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from pipelines.errors import ConfigurationError, UsageError
from pipelines.model.config import ModelConfig
from pipelines.wording import did_you_mean

Run = Literal["regular", "continual"]


@dataclass(frozen=True)
class Preset:
    """A named configuration and the way in which the paper runs it."""

    summary: str
    run: Run  # regular: the whole window for each prediction; continual: one step
    values: Mapping[str, Any]  # fields of ModelConfig


# Online action detection: RGB 2048 + flow 1024 in, 20 actions, background and ambiguous out.
_DETECTION: dict[str, Any] = {
    "input_width": 3072,
    "width": 1024,
    "heads": 8,
    "feed_forward": 1024,
    "window": 64,
    "classes": 22,
    "activation": "gelu",
    "dropout": 0.1,
}
_OADTR = {
    **_DETECTION,
    "norm": "pre",
    "out_projection_bias": True,
    "positional": "static",
    "positions": 64,  # in the paper's variants a class token has no position
}
_COOADTR = {**_DETECTION, "positional": "recycling", "encoding": "cyclic"}
# Audio classification: VGGish embeddings of one-second windows, 30 s at 4 Hz, ten genres.
_AUDIO: dict[str, Any] = {
    "input_width": 128,
    "width": 192,
    "heads": 16,
    "feed_forward": 192,  # the paper's text says 384; its parameter counts are those of 192
    "window": 120,
    "classes": 10,
    "dropout": 0.1,
    "positional": "recycling",
    "encoding": "learned",
    "positions": 192,
}
_DECODER = {"decoder_blocks": 5, "decoder_queries": 8, "decoder_heads": 4, "decoder_feed_forward": 1024}

PRESETS: dict[str, Preset] = {
    "trans-b1": Preset("audio, one block, regular", "regular", {**_AUDIO, "blocks": 1}),
    "trans-b2": Preset("audio, two blocks, regular", "regular", {**_AUDIO, "blocks": 2}),
    "cotrans-b1": Preset("audio, one single-output block", "continual", {**_AUDIO, "blocks": 1}),
    "cotrans-b2": Preset("audio, retroactive and single-output", "continual", {**_AUDIO, "blocks": 2}),
    "oadtr": Preset(
        "OadTR: three blocks, class token, decoder of five blocks",
        "regular",
        # Unlike in the variants without decoder, the class token has a position of its own: entry n of the table.
        {**_OADTR, "positions": None, "blocks": 3, "class_token_block": 1, **_DECODER},
    ),
    "oadtr-b1": Preset("OadTR, one block, no decoder", "regular", {**_OADTR, "blocks": 1}),
    "oadtr-b2": Preset("OadTR, two blocks, no decoder", "regular", {**_OADTR, "blocks": 2}),
    "oadtr-b3": Preset("OadTR, three blocks, no decoder", "regular", {**_OADTR, "blocks": 3}),
    "cooadtr-b1": Preset("detection, one single-output block", "continual", {**_COOADTR, "blocks": 1}),
    "cooadtr-b2": Preset("detection, retroactive and single-output", "continual", {**_COOADTR, "blocks": 2}),
    "deep": Preset("detection, four single-output blocks", "continual", {**_COOADTR, "blocks": 4, "stacking": "deep"}),
}


def preset(name: str, **overrides: Any) -> ModelConfig:
    """The configuration of a preset. overrides: fields of `ModelConfig`.

    A window of another length takes its own number of positions along, unless that is overridden too.
    """
    values = {**get_preset(name).values}
    known = [field.name for field in fields(ModelConfig)]
    for key in overrides:
        if key not in known:
            raise ConfigurationError(f"a model has no setting '{key}'{did_you_mean(key, known, cutoff=0.4)}")
    changed = {"window", "positional"} & overrides.keys()
    if changed and "positions" not in overrides and values.get("positions") is not None:
        kind = overrides.get("positional", values["positional"])
        values["positions"] = overrides.get("window", values["window"]) if kind == "static" else None
    return ModelConfig(**{**values, **overrides})


def get_preset(name: str) -> Preset:
    """The preset of that name, or an error that names the nearest."""
    if name not in PRESETS:
        raise UsageError(
            f"there is no preset '{name}'{did_you_mean(name, PRESETS, cutoff=0.4)} (presets: {', '.join(PRESETS)})"
        )
    return PRESETS[name]
