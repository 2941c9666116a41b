"""The work of encoder blocks and of the decoder, for any number of rows."""

from __future__ import annotations

from pipelines.costs.work import Work, activation, aged, attention, elementwise, linear, norm, recalled, turned
from pipelines.model.transformer.config import RELATIVE, ModelConfig

READ = 19  # for each class: the mean, two log-softmaxes of 5, log Σ exp 4, and the mean of both answers 4
Modules = dict[str, Work]  # by module name, in the order in which they run


def add(modules: Modules, name: str, work: Work) -> None:
    """Add work to a module that may have some already."""
    modules[name] = modules.get(name, Work()) + work


def projection(config: ModelConfig, rows: int, thirds: int) -> Work:
    """`thirds` of the in-projection: 1 for queries, 2 for keys and values, 3 for all."""
    bias = config.in_projection_bias
    return linear(rows, config.width, thirds * config.width, bias, counted_bias=bias)


def embed(modules: Modules, inputs: int, width: int, rows: int) -> None:
    """Linear, layer norm and ReLU of `rows` tokens."""
    work = linear(rows, inputs, width) + norm(rows, width) + activation(rows, width, "relu")
    add(modules, "embedding", work)


def entry(modules: Modules, config: ModelConfig, rows: int) -> None:
    """Features of `rows` tokens to what enters the encoder."""
    inputs = config.input_width
    if config.embedding is not None:
        embed(modules, inputs, config.embedding, rows)
        inputs = config.embedding
    if config.embedding is None or inputs != config.width:
        add(modules, "input projection", linear(rows, inputs, config.width))


def finish(modules: Modules, config: ModelConfig, index: int, rows: int) -> None:
    """Everything after attention in block `index`, for `rows` rows."""
    d, hidden = config.width, config.feed_forward
    add(modules, f"block {index} out-projection", linear(rows, d, d, config.out_projection_bias))
    add(modules, f"block {index} out-projection", elementwise(rows * d))  # residual
    add(modules, f"block {index} feed-forward", linear(rows, d, hidden) + linear(rows, hidden, d))
    add(modules, f"block {index} feed-forward", activation(rows, hidden, config.activation))
    add(modules, f"block {index} feed-forward", elementwise(rows * d))  # residual
    # A post-norm block norms its rows twice; of a pre-norm block, this is the second norm.
    add(modules, f"block {index} norms", norm(rows, d) * (1 if config.norm == "pre" else 2))


def places(modules: Modules, config: ModelConfig, turned_rows: int, queries: int, keys: int) -> None:
    """What positions cost that scores depend on: `turned_rows` queries and keys, and the scores of all pairs."""
    if config.positional == "rope":
        add(modules, "positions", turned(turned_rows, config.width))
    elif config.positional in RELATIVE:
        add(modules, "positions", aged(queries, keys, config.heads))


def regular_block(modules: Modules, config: ModelConfig, index: int, rows: int) -> None:
    """All rows from all rows."""
    attention_norm(modules, config, index, rows)
    add(modules, f"block {index} in-projection", projection(config, rows, 3))
    places(modules, config, 2 * rows, rows, rows)
    add(modules, f"block {index} attention", attention(rows, rows, config.width, config.heads))
    finish(modules, config, index, rows)


def attention_norm(modules: Modules, config: ModelConfig, index: int, rows: int) -> None:
    """The norm before attention, where there is one."""
    if config.norm == "pre":
        add(modules, f"block {index} norms", norm(rows, config.width))


def head(modules: Modules, config: ModelConfig, rows: int, all_rows: bool) -> None:
    """Final norm, decoder and classifier. rows: rows of the encoder; all_rows: whether all of them are normed."""
    d = config.width
    if config.final_norm:
        add(modules, "final norm", norm(rows if all_rows else 1, d))
    if not config.decoder_blocks:
        add(modules, "classifier", linear(1, config.classifier_width, config.classes))
        if config.shortcut == "add":
            add(modules, "classifier", elementwise(d))
        if config.recall:
            add(modules, "recall", recalled(config.recall, config.classes))
        if config.reading:  # of one row, or of those of a window, which are summed up
            read = linear(config.window if all_rows else 1, config.input_width, config.read_width)
            summed = config.window * config.read_width + int(config.reading_evidence)
            add(modules, "reading", read + elementwise(summed + READ * config.classes))
        return
    if config.final_norm and all_rows is False:
        add(modules, "final norm", norm(rows, d))
    queries = config.decoder_queries
    for index in range(1, config.decoder_blocks + 1):
        _decoder_block(modules, config, f"decoder block {index}", queries, rows)
    add(modules, "decoder norm", norm(queries, d))
    add(modules, "decoder classifier", linear(queries, d, config.classes))
    add(modules, "classifier", elementwise(queries * d))  # mean of the decoder's rows
    add(modules, "classifier", linear(1, config.classifier_width, config.classes))


def _decoder_block(modules: Modules, config: ModelConfig, name: str, queries: int, rows: int) -> None:
    d, heads, hidden = config.width, config.decoder_heads, config.decoder_feed_forward
    own = linear(queries, d, d) * 4 + attention(queries, queries, d, heads) + elementwise(queries * d)
    add(modules, f"{name} self-attention", own)
    cross = linear(queries, d, d) * 2 + linear(rows, d, d) * 2
    cross += attention(queries, rows, d, heads) + elementwise(queries * d)
    add(modules, f"{name} cross-attention", cross)
    forward = linear(queries, d, hidden) + activation(queries, hidden, "gelu") + linear(queries, hidden, d)
    add(modules, f"{name} feed-forward", forward + elementwise(queries * d))
    add(modules, f"{name} norms", norm(queries, d) * 3)
