"""The work of one step of a stream whose window is full: what `ContinualModel.step_` does."""

from __future__ import annotations

from pipelines.costs.block_work import (
    Modules,
    add,
    attention_norm,
    entry,
    finish,
    head,
    places,
    projection,
    regular_block,
)
from pipelines.costs.work import Work, attention, elementwise, folded, linear, retroactive
from pipelines.model.transformer.config import ModelConfig


def step_work(config: ModelConfig) -> Modules:
    """Work by module."""
    modules: Modules = {}
    entry(modules, config, 1)
    if config.positional == "recycling":
        add(modules, "positions", elementwise(config.width))
    if config.single_output:
        for index in range(1, config.blocks + 1):
            single_output_block(modules, config, index, config.window)
        head(modules, config, 1, all_rows=False)
        return modules
    rows = _first_block(modules, config)
    last = config.blocks if config.decoder_blocks else config.blocks - 1
    for index in range(2, last + 1):
        rows += config.class_token_block == index
        regular_block(modules, config, index, rows)
    if not config.decoder_blocks:
        rows += config.class_token_block == config.blocks
        _newest_of(modules, config, config.blocks, rows)
    head(modules, config, rows, all_rows=False)
    return modules


def single_output_block(modules: Modules, config: ModelConfig, index: int, tokens: int) -> None:
    """One row from a ring of `tokens` tokens (and a class token)."""
    keys = tokens + (config.class_token_block == index)
    if index == 1 and config.positional == "static":
        _take_in(modules, config, 2)
        add(modules, "positions", folded(tokens, config.width, 2, config.norm == "pre"))
        # The query is that of the output row with its position.
        attention_norm(modules, config, 1, 1)
        add(modules, "block 1 in-projection", projection(config, 1, 1))
    else:
        # With a class token the query is of another row than keys and values, and both are normed.
        attention_norm(modules, config, index, 1 + (config.class_token_block == index or _lags(config, index)))
        add(modules, f"block {index} in-projection", projection(config, 1, 3))
        places(modules, config, 2, 1, keys)
    add(modules, f"block {index} attention", attention(1, keys, config.width, config.heads))
    finish(modules, config, index, 1)


def _lags(config: ModelConfig, index: int) -> bool:
    return config.lag > 0 and index == config.blocks


def _take_in(modules: Modules, config: ModelConfig, thirds: int) -> None:
    """A token's query (with 3 thirds), key and value without position; in a pre-norm block it is centred first."""
    add(modules, "block 1 in-projection", linear(1, config.width, thirds * config.width, False, counted_bias=False))
    if config.norm == "pre":
        add(modules, "block 1 norms", Work(other=3 * config.width))


def _first_block(modules: Modules, config: ModelConfig) -> int:
    """All rows of block 1: folded or retroactive. Returns how many there are."""
    d, heads = config.width, config.heads
    rows = config.window + (config.class_token_block == 1)
    if config.positional == "static":
        _take_in(modules, config, 3)
        add(modules, "positions", folded(config.window, d, 3, config.norm == "pre"))
        add(modules, "block 1 attention", attention(rows, rows, d, heads))
    else:
        attention_norm(modules, config, 1, 1)
        add(modules, "block 1 in-projection", projection(config, 1, 3))
        # A retroactive row is lowered by its slope, and the newest has the bias of all keys.
        places(modules, config, 2, 2, rows)
        add(modules, "block 1 attention", retroactive(rows, d, heads))
    finish(modules, config, 1, rows)
    return rows


def _newest_of(modules: Modules, config: ModelConfig, index: int, rows: int) -> None:
    """The last block of an exact stack: keys and values of all rows, everything else of one."""
    attention_norm(modules, config, index, rows + 1)
    add(modules, f"block {index} in-projection", projection(config, rows, 2) + projection(config, 1, 1))
    places(modules, config, rows + 1, 1, rows)
    add(modules, f"block {index} attention", attention(1, rows, config.width, config.heads))
    finish(modules, config, index, 1)
