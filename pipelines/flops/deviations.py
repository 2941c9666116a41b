"""Why a published count differs from the paper's own rule: each reason with its size, summing up to the digit."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.flops.published import TOLERANCE, Published
from pipelines.model.presets import get_preset
from pipelines.model.transformer.config import ModelConfig


@dataclass(frozen=True)
class Deviation:
    """One thing that the authors' counter did otherwise."""

    reason: str
    macs: int  # published - rule, from this reason


def deviations(row: Published) -> tuple[Deviation, ...]:
    """What to add to the paper's rule to get `row.macs_exact`."""
    config = row.config()
    if get_preset(row.name).run == "continual":
        return () if config.blocks == 1 else _continual(config)
    return _audio(config) if row.name.startswith("trans") else _oadtr(config)


def reasons(row: Published, paper_rule: int) -> tuple[str, ...]:
    """One line for each reason, where the printed number is more than 0.5 % away from the rule."""
    if abs(row.macs - paper_rule) <= TOLERANCE * paper_rule:
        return ()
    lines = [f"{part.reason}: {part.macs / 1e6:+.3f} M" for part in deviations(row)]
    if row.macs_exact is not None and abs(row.macs - row.macs_exact) > TOLERANCE * row.macs_exact:
        lines.append(f"the paper rounds {row.macs_exact:,} to {row.millions} M")
    return tuple(lines)


def _continual(config: ModelConfig) -> tuple[Deviation, ...]:
    """Two blocks, retroactive and single-output."""
    d, hidden, n = config.width, config.feed_forward, config.window
    forward = 2 * d * hidden + hidden + d + 2 * hidden
    return (
        Deviation("block 2 projects n queries, though it needs the newest alone", (n - 1) * d * d),
        Deviation("block 2's feed-forward is forgotten", -forward),
        Deviation("block 2's two norms are counted (2d each, and 2 more), no other norm is", 4 * d + 2),
    )


def _rows(config: ModelConfig) -> list[int]:
    """Rows of each block: the window's, and the class token's from the block that it enters at."""
    entry = config.class_token_block
    return [config.window + (entry is not None and entry <= index) for index in range(1, config.blocks + 1)]


def _oadtr(config: ModelConfig) -> tuple[Deviation, ...]:
    """OadTR by a counter that hooks modules: products outside modules are not seen."""
    d, hidden = config.width, config.feed_forward
    rows = _rows(config)
    attention = sum(2 * m * m * d + 2 * m * d for m in rows)
    biases = (config.window - 1) * d + sum((m - 1) * (2 * d + hidden) for m in rows)
    activations = sum(m * hidden for m in rows)
    if not config.decoder_blocks:
        classifier = Deviation(
            "the classifier runs on every row, though one is used", (rows[-1] - 1) * d * config.classes
        )
        return (
            Deviation(
                "the n · n products of attention are left out, since the counter's hook did not load", -attention
            ),
            Deviation("biases are counted once, not for each row", -biases),
            Deviation("an activation counts w instead of 2w", -activations),
            classifier,
        )
    q, blocks, inner = config.decoder_queries, config.decoder_blocks, config.decoder_feed_forward
    m = rows[-1]
    attention += blocks * (2 * q * q * d + 2 * q * d + 2 * q * m * d + 2 * q * d)
    # Six projections of queries and two of rows; the feed-forward is a convolution, whose bias counts for each row.
    biases += blocks * (6 * (q - 1) * d + 2 * (m - 1) * d) + (q - 1) * config.classes
    return (
        Deviation("the products of attention are left out, since the counter's hook did not load", -attention),
        Deviation("biases of linear layers are counted once, not for each row", -biases),
        Deviation("an activation counts w instead of 2w", -activations),
        Deviation("the decoder's activations are left out", -blocks * 2 * q * inner),
    )


def _audio(config: ModelConfig) -> tuple[Deviation, ...]:
    """The regular audio models: the last block was counted as a single-output block of the continual library."""
    n, d, hidden = config.window, config.width, config.feed_forward
    return (
        Deviation(
            f"the input projection is counted as {config.input_width} · n · n instead of n · "
            f"({config.input_width} · d + d)",
            config.input_width * n * n - n * (config.input_width * d + d),
        ),
        Deviation("the last block's attention is counted for one row", -(n - 1) * (2 * n * d + 2 * d)),
        Deviation("the last block's out-projection is counted for one row", -(n - 1) * (d * d + d)),
        Deviation("the last block's feed-forward is forgotten", -n * (2 * d * hidden + hidden + d + 2 * hidden)),
        # What the integers leave: d · classes + classes = 1,930 not counted, and 891 or 1,083 of norms.
        Deviation(
            "the classifier is not counted, and norms are a little",
            -(d * config.classes + config.classes) + 891 + d * (config.blocks - 1),
        ),
    )
