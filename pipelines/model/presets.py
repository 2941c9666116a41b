"""Models with a name: those of the paper, a deep stack, and other kinds. Every size can be overridden."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pipelines.errors import ConfigurationError, UsageError
from pipelines.model.base_config import DEFAULT_KIND, BaseConfig
from pipelines.model.kinds import config_from_dict, settings_of
from pipelines.wording import did_you_mean

Run = Literal["regular", "continual"]


@dataclass(frozen=True)
class Preset:
    """A named configuration and the way in which the paper runs it."""

    summary: str
    run: Run  # regular: the whole window for each prediction; continual: one step
    values: Mapping[str, Any]  # fields of its kind's configuration
    kind: str = DEFAULT_KIND


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
    "miniroad": Preset(
        "MiniROAD: detection, embedding and GRU",
        "continual",
        {"input_width": 3072, "embedding": 2048, "width": 1024, "layers": 1, "classes": 22, "dropout": 0.2},
        "recurrent",
    ),
    "per-frame": Preset(
        "detection without memory, one hidden layer",
        "continual",
        {"input_width": 3072, "embedding": 1024, "classes": 22, "dropout": 0.3},
        "per-frame",
    ),
}


def preset(name: str, **overrides: Any) -> BaseConfig:
    """The configuration of a preset. overrides: fields of its kind's configuration.

    A window of another length takes its own number of positions along, and other positions their own encoding, unless
    these are overridden too.
    """
    chosen = get_preset(name)
    values = {**chosen.values}
    known = settings_of(chosen.kind)
    for key in overrides:
        if key not in known:
            what = "" if chosen.kind == DEFAULT_KIND else f"{chosen.kind} "
            raise ConfigurationError(f"a {what}model has no setting '{key}'{did_you_mean(key, known, cutoff=0.4)}")
    if overrides.get("positional", "recycling") != "recycling":
        values.pop("encoding", None)
    changed = {"window", "positional"} & overrides.keys()
    if changed and "positions" not in overrides and values.get("positions") is not None:
        kind = overrides.get("positional", values["positional"])
        values["positions"] = overrides.get("window", values["window"]) if kind == "static" else None
    return config_from_dict({"kind": chosen.kind, **values, **overrides})


def get_preset(name: str) -> Preset:
    """The preset of that name, or an error that names the nearest."""
    if name not in PRESETS:
        raise UsageError(
            f"there is no preset '{name}'{did_you_mean(name, PRESETS, cutoff=0.4)} (presets: {', '.join(PRESETS)})"
        )
    return PRESETS[name]
