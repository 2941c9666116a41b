"""The work of a recurrent model: every token costs the same."""

from __future__ import annotations

from pipelines.costs.block_work import Modules, add, embed
from pipelines.costs.work import Work, activation, linear
from pipelines.model.recurrent_config import RecurrentConfig


def step_work(config: RecurrentConfig) -> Modules:
    """Work by module of one token."""
    return _work(config, 1)


def window_work(config: RecurrentConfig) -> Modules:
    """Work by module of a window's tokens, of which the newest is classified."""
    return _work(config, config.window)


def _work(config: RecurrentConfig, tokens: int) -> Modules:
    modules: Modules = {}
    embed(modules, config.input_width, config.embedding, tokens)
    for layer in range(1, config.layers + 1):
        inputs = config.embedding if layer == 1 else config.width
        add(modules, f"GRU layer {layer}", _layer(inputs, config.width) * tokens)
    add(modules, "classifier", activation(1, config.width, "relu") + linear(1, config.width, config.classes))
    return modules


def _layer(inputs: int, width: int) -> Work:
    """One token: three gates from the input and from the state.

    Of other operations, for each number of the state: two sigmoids of sums (1 + 3 each), a product, a sum and a
    hyperbolic tangent (4), and the mixture of the old state and the new (3).
    """
    products = linear(1, inputs, 3 * width) + linear(1, width, 3 * width)
    return products + Work(paper_rule=3 * 2 * width, other=(2 * 4 + 2 + 4 + 3) * width)


def module_order(config: RecurrentConfig) -> list[str]:
    return ["embedding", *(f"GRU layer {layer}" for layer in range(1, config.layers + 1)), "classifier"]


def module_name(key: str) -> str:
    """ "gru.weight_ih_l0" to "GRU layer 1"."""
    part, _, name = key.partition(".")
    return f"GRU layer {int(name.rpartition('_l')[2]) + 1}" if part == "gru" else part
