"""The output of every step equals the regular model on the last min(t, n) tokens."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.model.small import POSITIONAL, SIZES, exists, relative_error, run_steps, run_windows, small_model, stream

TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-10}
LENGTH = 6 * SIZES["window"] + 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("positional", POSITIONAL)
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("blocks", [1, 2, 3, 4])
def test_step_equals_window(blocks: int, norm: str, positional: str, dtype: torch.dtype) -> None:
    class_token_blocks = [at for at in (None, *range(1, blocks + 1)) if exists(positional, blocks, at)]
    for class_token_block, batch in itertools.product(class_token_blocks, (1, 5)):
        model = small_model(
            dtype, blocks=blocks, norm=norm, class_token_block=class_token_block, **POSITIONAL[positional]
        )
        tokens = stream(batch, LENGTH, dtype)
        error = relative_error(run_steps(model, tokens), run_windows(model, tokens))
        assert error <= TOLERANCE[dtype], (class_token_block, batch)


@pytest.mark.parametrize(
    ("blocks", "positional"),
    [(blocks, positional) for blocks in (1, 2, 3) for positional in POSITIONAL if exists(positional, blocks)],
)
def test_lagging_output_has_seen_the_future(blocks: int, positional: str) -> None:
    model = small_model(torch.float64, blocks=blocks, lag=2, norm="pre", **POSITIONAL[positional])
    tokens = stream(2, LENGTH, torch.float64)
    assert relative_error(run_steps(model, tokens), run_windows(model, tokens)) <= 1e-10
    # It is the row of the token two steps ago: another model's row with the same weights and no lag, once n is full.
    rows = model.encoder(model.input_projection(tokens[:, :4]))
    assert torch.equal(model.encoder.newest(rows), rows[:, 1])


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("final_norm", [False, True])
def test_the_other_switches(activation: str, bias: bool, final_norm: bool) -> None:
    for blocks, positional in itertools.product((1, 2), ("static", "learned n", "rope", "alibi")):
        model = small_model(
            torch.float64,
            blocks=blocks,
            norm="pre",
            activation=activation,
            in_projection_bias=bias,
            out_projection_bias=bias,
            final_norm=final_norm,
            **POSITIONAL[positional],
        )
        tokens = stream(1, 15, torch.float64)
        assert relative_error(run_steps(model, tokens), run_windows(model, tokens)) <= 1e-10


@pytest.mark.parametrize("embedding", [None, 8, 10])
@pytest.mark.parametrize("shortcut", ["none", "concatenate", "add"])
def test_embedding_and_shortcut(embedding: int | None, shortcut: str) -> None:
    """A width of its own (10) and the encoder's (8), of one block, two, a deep stack and a class token."""
    kinds = ({"blocks": 1}, {"blocks": 2}, {"blocks": 2, "stacking": "deep"}, {"blocks": 1, "class_token_block": 1})
    for kind in kinds:
        model = small_model(torch.float64, norm="pre", embedding=embedding, shortcut=shortcut, **kind)
        tokens = stream(2, 7, torch.float64)
        stepped = run_steps(model, tokens)
        last = model(tokens) if "stacking" in kind else run_windows(model, tokens)[:, -1]
        torch.testing.assert_close(stepped[:, -1], last, rtol=1e-10, atol=1e-10)
        with torch.no_grad():
            chunk, _ = model.steps(tokens, model.initial_state(2))
        torch.testing.assert_close(chunk, stepped, rtol=1e-10, atol=1e-10)


def test_the_shortcut_is_written_out() -> None:
    model = small_model(torch.float64, embedding=10, shortcut="concatenate")
    tokens = stream(2, 4, torch.float64)
    embedding = model.embedding
    embedded = torch.relu(embedding.norm(tokens @ embedding.linear.weight.T + embedding.linear.bias))
    rows = model.final_norm(model.encoder(model.input_projection(embedded)))
    wanted = model.classifier(torch.cat([rows[:, -1], embedded[:, -1]], dim=-1))
    torch.testing.assert_close(model(tokens), wanted, rtol=1e-12, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    blocks=st.integers(1, 3),
    window=st.integers(1, 9),
    heads=st.sampled_from([1, 2, 4]),
    batch=st.integers(1, 3),
    positional=st.sampled_from(["none", "static", "recycling", "relative", "rope", "alibi"]),
    norm=st.sampled_from(["pre", "post"]),
    class_token=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_any_small_configuration(
    blocks: int, window: int, heads: int, batch: int, positional: str, norm: str, class_token: bool, seed: int
) -> None:
    class_token_block = 1 + seed % blocks if class_token else None
    assume(exists(positional, blocks, class_token_block))
    model = small_model(
        torch.float64,
        blocks=blocks,
        window=window,
        heads=heads,
        norm=norm,
        positional=positional,
        class_token_block=class_token_block,
    )
    tokens = stream(batch, 3 * window + 2, torch.float64, seed)
    assert relative_error(run_steps(model, tokens), run_windows(model, tokens)) <= 1e-9


def test_decoder_steps_equal_windows() -> None:
    sizes = {"decoder_blocks": 2, "decoder_queries": 3, "decoder_heads": 2, "decoder_feed_forward": 12}
    for blocks, class_token_block in ((1, None), (1, 1), (3, 1), (2, None)):
        model = small_model(
            torch.float64, blocks=blocks, norm="pre", class_token_block=class_token_block, positional="static", **sizes
        )
        tokens = stream(2, 15, torch.float64)
        state = model.initial_state(2)
        with torch.no_grad():
            for t in range(15):
                prediction, state = model.step_predict_(tokens[:, t], state)
                start = max(0, t - 3)
                wanted = model.predict(tokens[:, start : t + 1], start)
                torch.testing.assert_close(prediction.logits, wanted.logits, rtol=1e-10, atol=1e-10)
                torch.testing.assert_close(prediction.anticipation, wanted.anticipation, rtol=1e-10, atol=1e-10)
        logits, _ = model.steps(tokens, model.initial_state(2))
        torch.testing.assert_close(logits, run_windows(model, tokens), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("positional", ["static", "rope", "alibi"])
def test_decoder_reads_rows_that_know_their_places(positional: str) -> None:
    sizes = {"decoder_blocks": 1, "decoder_queries": 2, "decoder_heads": 2, "decoder_feed_forward": 8}
    for blocks in (1, 2):
        model = small_model(torch.float64, blocks=blocks, positional=positional, **sizes)
        tokens = stream(2, LENGTH, torch.float64)
        assert relative_error(run_steps(model, tokens), run_windows(model, tokens)) <= 1e-10


@pytest.mark.parametrize(
    ("positional", "blocks"), [("relative", 1), ("rope", 1), ("rope", 2), ("alibi", 1), ("alibi", 2)]
)
def test_a_long_stream_loses_no_digits(positional: str, blocks: int) -> None:
    """10,000 steps, the first of which has an index near the end of what an integer holds."""
    model = small_model(torch.float64, blocks=blocks, positional=positional)
    tokens = stream(1, 10_000, torch.float64)
    state = model.initial_state(1, 2**62)
    with torch.inference_mode():
        if blocks == 1:
            _, state = model.steps(tokens[:, :-8], state)
        else:
            for token in tokens[:, :-8].unbind(1):
                _, state = model.step_(token, state)
        for t in range(9_992, 10_000):
            logits, state = model.step_(tokens[:, t], state)
            wanted = model(tokens[:, t - 3 : t + 1], start=t - 3)
            torch.testing.assert_close(logits, wanted, rtol=1e-10, atol=1e-10)
