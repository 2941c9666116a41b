"""Presets: the paper's sizes, overrides that fit together, and names that are nearly right."""

from __future__ import annotations

import pytest
import torch

from pipelines.errors import ConfigurationError, UsageError
from pipelines.model.kinds import make_model
from pipelines.model.presets import PRESETS, preset
from tests.model.small import small_preset


def test_the_sizes_are_the_papers() -> None:
    detection = preset("cooadtr-b1")
    assert (detection.window, detection.width, detection.heads, detection.feed_forward) == (64, 1024, 8, 1024)
    assert (detection.input_width, detection.classes, detection.position_count) == (3072, 22, 127)
    audio = preset("cotrans-b2")
    assert (audio.window, audio.width, audio.heads, audio.feed_forward) == (120, 192, 16, 192)
    assert (audio.input_width, audio.classes, audio.position_count) == (128, 10, 192)
    assert preset("trans-b2") == audio
    full = preset("oadtr")
    assert (full.blocks, full.decoder_blocks, full.decoder_queries, full.class_token_block) == (3, 5, 8, 1)
    assert full.position_count == 65


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_steps_like_its_window_at_a_small_size(name: str) -> None:
    torch.manual_seed(0)
    config = small_preset(
        name, input_width=6, embedding=7, width=16, heads=4, feed_forward=8, window=5, classes=3, dropout=0.0
    )
    model = make_model(config).eval()
    tokens = torch.randn(1, 12 if config.windowed else 5, 6)
    state = model.initial_state()
    with torch.no_grad():
        for token in tokens.unbind(1):
            output, state = model.step_(token, state)
        window = model(tokens[:, -5:], start=tokens.shape[1] - 5)
    torch.testing.assert_close(output, window, rtol=1e-5, atol=1e-5)


def test_other_positions_take_their_own_encoding() -> None:
    assert preset("cooadtr-b1", positional="relative").encoding == "learned"
    assert preset("cooadtr-b2", positional="static").position_count == 64
    assert preset("cooadtr-b1", window=32).encoding == "cyclic"


def test_a_window_takes_its_positions_along() -> None:
    assert preset("cotrans-b1", window=300).position_count == 599
    assert preset("cotrans-b1", window=300, positions=300).position_count == 300
    assert preset("oadtr-b2", window=32).position_count == 32
    assert preset("oadtr-b2", window=32, class_token_block=1).position_count == 32
    assert preset("oadtr", window=32).position_count == 33
    assert preset("oadtr-b1", positional="recycling").position_count == 127
    assert preset("oadtr-b1", positional="none").position_count == 0


@pytest.mark.parametrize("block", [1, 2, 3])
def test_the_class_token_enters_at_any_block(block: int) -> None:
    assert preset("oadtr-b3", class_token_block=block).class_token_block == block


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("coadtr-b1", "cooadtr-b1"), ("cotrans_b2", "cotrans-b2"), ("OadTR", "oadtr"), ("dep", "deep")],
)
def test_an_unknown_name_gets_the_nearest(wrong: str, right: str) -> None:
    with pytest.raises(UsageError, match=f"no preset '{wrong}'; did you mean '{right}'"):
        preset(wrong)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'feed_forward'"):
        preset("oadtr", feed_foward=3)
    with pytest.raises(ConfigurationError, match="width 1024 is not divisible by heads 7"):
        preset("cooadtr-b1", heads=7)
    with pytest.raises(ConfigurationError, match="class_token_block must be 1 to 1"):
        preset("oadtr-b1", class_token_block=2)
