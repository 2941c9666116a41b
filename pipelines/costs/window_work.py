"""The work of the regular model on a whole window: what `ContinualModel.forward` does with n tokens."""

from __future__ import annotations

from pipelines.costs import block_work as blocks
from pipelines.costs.block_work import Modules
from pipelines.costs.step_work import single_output_block
from pipelines.costs.work import Work, attention, elementwise, linear
from pipelines.model.attention.banded import group_sizes
from pipelines.model.transformer.config import ModelConfig


def window_work(config: ModelConfig) -> Modules:
    """Work by module."""
    n, d = config.window, config.width
    modules: Modules = {}
    blocks.entry(modules, config, n)
    if config.stacking == "deep" or config.recall:
        if config.positional == "static":
            _folded_steps(modules, config)
        else:
            _banded_blocks(modules, config)
        blocks.head(modules, config, n, all_rows=True)
        if config.recall:  # every row has an answer, and they are weighed once
            blocks.add(modules, "classifier", linear(n - 1, config.classifier_width, config.classes))
        return modules
    if config.position_count:
        blocks.add(modules, "positions", elementwise(n * d))
    rows = n
    for index in range(1, config.blocks + 1):
        rows += config.class_token_block == index
        blocks.regular_block(modules, config, index, rows)
    blocks.head(modules, config, rows, all_rows=True)
    return modules


def _banded_blocks(modules: Modules, config: ModelConfig) -> None:
    """Single-output blocks in one banded pass: groups of queries, each on all keys that one of them can see.

    See `attend_band`: the keys before the window are there, masked, and their products run.
    """
    n, d, heads = config.window, config.width, config.heads
    if config.positional == "recycling":
        blocks.add(modules, "positions", elementwise(n * d))
    groups, size = group_sizes(n)
    for index in range(1, config.blocks + 1):
        class_token = config.class_token_block == index
        other_query = class_token or (config.lag > 0 and index == config.blocks)
        blocks.attention_norm(modules, config, index, n * (1 + other_query))
        blocks.add(modules, f"block {index} in-projection", blocks.projection(config, n, 3))
        if class_token:  # its key and value, for the state
            blocks.attention_norm(modules, config, index, 1)
            blocks.add(modules, f"block {index} in-projection", blocks.projection(config, 1, 2))
        blocks.places(modules, config, 2 * n, groups * size, class_token + n - 1 + size)
        banded = attention(size, class_token + n - 1 + size, d, heads) * groups
        # By the paper's rule each of the n tokens does a single-output step.
        steps = attention(1, class_token + n, d, heads) * n
        blocks.add(modules, f"block {index} attention", Work(banded.macs, steps.paper_rule, banded.other))
        blocks.finish(modules, config, index, n)


def _folded_steps(modules: Modules, config: ModelConfig) -> None:
    """A deep stack with static positions: n steps of a stream that fills its window, and the tables before them."""
    n, d = config.window, config.width
    tables = linear(2 * n, d, 3 * d, bias=False, counted_bias=False)
    if config.norm == "pre":
        tables += linear(1, d, 3 * d, bias=False, counted_bias=False)
    blocks.add(modules, "positions", tables)
    for index in range(1, config.blocks + 1):
        if config.class_token_block == index:
            thirds = 3 if index == 1 else 2
            blocks.attention_norm(modules, config, index, 1)
            blocks.add(modules, f"block {index} in-projection", blocks.projection(config, 1, thirds))
    for tokens in range(1, n + 1):
        for index in range(1, config.blocks + 1):
            single_output_block(modules, config, index, tokens)
