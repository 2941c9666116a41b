"""Configurations are strict and survive JSON."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.errors import ConfigurationError
from pipelines.model import ModelConfig
from tests.model.small import SIZES

DECODER = {"decoder_blocks": 1, "decoder_queries": 1, "decoder_heads": 2, "decoder_feed_forward": 4}


def config(**changes: Any) -> ModelConfig:
    return ModelConfig(**{**SIZES, "blocks": 2, **changes})


def test_round_trip() -> None:
    original = config(norm="pre", class_token_block=2, positional="static", dropout=0.1, attention_rows=3)
    assert ModelConfig.from_json(original.to_json()) == original


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"blocks": 0}, "blocks must be at least 1"),
        ({"window": -3}, "window must be at least 1"),
        ({"heads": 3}, "width 8 is not divisible by heads 3"),
        ({"blocks": 1.5}, "blocks must be int"),
        ({"final_norm": "yes"}, "final_norm must be bool"),
        ({"heads": True}, "heads must be int"),
        ({"norm": "sideways"}, "norm must be one of post, pre"),
        ({"dropout": 1.0}, "dropout must be in"),
        ({"positions": 3}, "at least 4 positions"),
        ({"positional": "static", "positions": 9}, "4 or 5 positions"),
        ({"positional": "none", "positions": 9}, "positional is none"),
        ({"positional": "static", "encoding": "cyclic"}, "recycling"),
        ({"positional": "relative"}, "relative positions need single-output blocks"),
        ({"positional": "relative", "blocks": 1, **DECODER}, "relative positions need single-output blocks"),
        ({"positional": "relative", "stacking": "deep", "positions": 4}, "positional is relative"),
        ({"positional": "rope", "width": 6}, "heads of width 3 are odd"),
        ({"positional": "rope", "class_token_block": 2}, "no place in the stream"),
        ({"positional": "rope", "encoding": "cyclic"}, "recycling"),
        ({"positional": "alibi", "class_token_block": 1}, "enter at block 2"),
        ({"class_token_block": 3}, "1 to 2"),
        ({"class_token_block": 1, "stacking": "deep"}, "enters at the last block"),
        ({"lag": 4}, "less than the window"),
        ({"lag": 1, "class_token_block": 1}, "class token"),
        ({"attention_rows": 0}, "attention_rows"),
        ({"embedding": 0}, "embedding must be at least 1"),
        ({"embedding_dropout": 0.5}, "there is no embedding"),
        ({"embedding": 4, "embedding_dropout": 1.0}, "embedding_dropout must be in"),
        ({"input_dropout": -0.1}, "input_dropout must be in"),
        ({"shortcut": "add", "lag": 1}, "the newest token"),
        ({"shortcut": "add", **DECODER}, "with a decoder has no shortcut"),
        ({"shortcut": "around"}, "shortcut must be one of none, concatenate, add"),
        ({"decoder_queries": 4}, "decoder_blocks is 0"),
        ({"decoder_blocks": 1}, "at least 1 each"),
    ],
)
def test_what_cannot_work_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        config(**changes)


def test_unknown_missing_and_broken_json() -> None:
    with pytest.raises(ConfigurationError, match="unknown model configuration keys: depth, hats"):
        ModelConfig.from_dict({**config().to_dict(), "hats": 1, "depth": 2})
    with pytest.raises(ConfigurationError, match="incomplete"):
        ModelConfig.from_dict({"blocks": 1})
    with pytest.raises(ConfigurationError, match="not JSON"):
        ModelConfig.from_json("{")
    with pytest.raises(ConfigurationError, match="not a JSON object"):
        ModelConfig.from_json("[]")
