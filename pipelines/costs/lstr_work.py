"""The work of LSTR and TeSTra: one step in the steady state, and the regular model on its memories."""

from __future__ import annotations

from pipelines.costs.block_work import Modules, add
from pipelines.costs.work import Work, activation, attention, elementwise, linear, norm
from pipelines.model.lstr.config import LstrConfig

_PARTS = ("self-attention", "cross-attention", "feed-forward", "norms")


def step_work(config: LstrConfig) -> Modules:
    """Work by module of one frame, when both memories are full."""
    modules: Modules = {}
    _heads(modules, config, 1, 1)
    d, heads = config.width, config.heads
    queries, layers = config.encoder_queries[0], config.encoder_layers[0]
    # The first layer: scores and value of one sample, sums or attention, and what follows them.
    name = "encoder 1 layer 1"
    cross = linear(1, d, heads * queries, bias=False, counted_bias=False) + linear(1, d, d)
    cross += _long_attention(config) + linear(queries, d, d) + elementwise(queries * d)
    add(modules, f"{name} cross-attention", cross)
    _feed_forward(modules, config, name, queries, norms=2)
    for layer in range(2, layers + 1):
        name = f"encoder 1 layer {layer}"
        _self_attention(modules, config, name, queries)
        cross = linear(1, d, 2 * d) + linear(queries, d, d) * 2 + attention(queries, config.long_samples, d, heads)
        positions = 2 * config.long_samples * d if config.long_positions else 0
        add(modules, f"{name} cross-attention", cross + elementwise(queries * d + positions))
        _feed_forward(modules, config, name, queries, norms=3)
    _stage_norm(modules, config, 0, queries)
    memory = _further_stages(modules, config, queries, known=True)
    _decoder_step(modules, config, memory)
    add(modules, "classifier", linear(1, d, config.classes))
    return modules


def window_work(config: LstrConfig) -> Modules:
    """Work by module of the regular model for one frame."""
    modules: Modules = {}
    _heads(modules, config, config.long_samples, config.work_samples)
    positions = config.position_count * config.width
    if positions:
        add(modules, "positions", elementwise(positions))
    queries = config.encoder_queries[0]
    for layer in range(1, config.encoder_layers[0] + 1):
        _layer(modules, config, f"encoder 1 layer {layer}", queries, config.long_samples)
    _stage_norm(modules, config, 0, queries)
    memory = _further_stages(modules, config, queries, known=False)
    rows = config.work_samples
    for layer in range(1, config.decoder_layers + 1):
        _layer(modules, config, f"decoder layer {layer}", rows, memory + (rows if config.include_work else 0))
    if config.decoder_norm:
        add(modules, "decoder norm", norm(1, config.width))
    add(modules, "classifier", linear(1, config.width, config.classes))
    return modules


def module_order(config: LstrConfig) -> list[str]:
    names = ["long feature head", "work feature head", "positions"]
    for stage, layers in enumerate(config.encoder_layers, start=1):
        names.append(f"encoder {stage} queries")
        names += [f"encoder {stage} layer {layer} {part}" for layer in range(1, layers + 1) for part in _PARTS]
        names.append(f"encoder {stage} norm")
    names += [f"decoder layer {layer} {part}" for layer in range(1, config.decoder_layers + 1) for part in _PARTS]
    return [*names, "decoder norm", "classifier"]


def module_name(key: str) -> str:
    """ "work_decoder.layers.0.expand.weight" to "decoder layer 1 feed-forward"."""
    parts = key.split(".")
    if parts[0] in ("long_head", "work_head"):
        return f"{parts[0].removesuffix('_head')} feature head"
    if parts[0] not in ("long_encoder", "work_decoder"):
        return parts[0]
    name = "decoder" if parts[0] == "work_decoder" else f"encoder {int(parts[2]) + 1}"
    rest = parts[1:] if parts[0] == "work_decoder" else parts[3:]
    if rest[0] != "layers":
        return f"{name} {rest[0]}"
    part = rest[2].replace("_", "-")
    if part.endswith("norm"):
        part = "norms"
    return f"{name} layer {int(rest[1]) + 1} {'feed-forward' if part in ('expand', 'contract') else part}"


def _heads(modules: Modules, config: LstrConfig, long: int, work: int) -> None:
    """The feature heads for so many frames of each memory."""
    if config.feature_head:
        for name, rows in (("long feature head", long), ("work feature head", work)):
            head = linear(rows, config.input_width, config.width) + activation(rows, config.width, "relu")
            add(modules, name, head)


def _long_attention(config: LstrConfig) -> Work:
    """The first layer's attention to the long memory: from cached scores with positions, otherwise from sums."""
    d, heads, queries, samples = config.width, config.heads, config.encoder_queries[0], config.long_samples
    if config.long_positions:
        macs = queries * samples * d
        # Positions are added to scores and values; a softmax is 5 for each score.
        return Work(macs, macs, 7 * queries * samples * heads + samples * d)
    w = d // heads
    parts = 1 if config.decay == 1.0 else 2
    rows = parts * heads * queries
    macs = rows * 2 * (w + 2)
    # As in a retroactive row (`work.py`): references and weights 10, masses 6, sums, error bounds 16, test 6, division.
    return Work(macs, macs, rows * (38 + 2 * (w + 2) + w))


def _further_stages(modules: Modules, config: LstrConfig, memory: int, known: bool) -> int:
    """Encoder modules after the first, on `memory` rows. known: with the constants of their queries."""
    d, heads = config.width, config.heads
    for stage in range(1, len(config.encoder_queries)):
        queries = config.encoder_queries[stage]
        for layer in range(1, config.encoder_layers[stage] + 1):
            name = f"encoder {stage + 1} layer {layer}"
            if not queries:
                _self_attention(modules, config, name, memory)
                _feed_forward(modules, config, name, memory, norms=2)
            elif layer == 1 and known:
                cross = linear(memory, d, heads * queries, bias=False, counted_bias=False) + linear(memory, d, d)
                weighted = queries * memory * d
                cross += Work(weighted, weighted, 5 * queries * memory * heads)
                add(modules, f"{name} cross-attention", cross + linear(queries, d, d) + elementwise(queries * d))
                _feed_forward(modules, config, name, queries, norms=2)
            else:
                _layer(modules, config, name, queries, memory)
        memory = queries or memory
        _stage_norm(modules, config, stage, memory)
    return memory


def _decoder_step(modules: Modules, config: LstrConfig, memory: int) -> None:
    """The newest row of the work memory."""
    d, heads, rows = config.width, config.heads, config.work_samples
    seen = memory + (rows if config.include_work else 0)
    if config.work_positions:
        add(modules, "positions", elementwise(rows * d))
    for layer in range(1, config.decoder_layers):
        name = f"decoder layer {layer}"
        if layer == 1:
            # Only the newest frame is projected; the rows' positions and biases are added to what is kept.
            own = linear(1, d, 3 * d, bias=False, counted_bias=False) + elementwise(3 * rows * d)
            own += attention(rows, rows, d, heads) + linear(rows, d, d) + elementwise(rows * d)
            add(modules, f"{name} self-attention", own)
        else:
            _self_attention(modules, config, name, rows)
        cross = linear(memory, d, 2 * d) + linear(rows, d, d) * 2 + attention(rows, seen, d, heads)
        if config.include_work:
            cross += linear(1, d, 2 * d, bias=False, counted_bias=False) + elementwise(2 * rows * d)
        add(modules, f"{name} cross-attention", cross + elementwise(rows * d))
        _feed_forward(modules, config, name, rows, norms=3)
    name = f"decoder layer {config.decoder_layers}"
    add(modules, f"{name} self-attention", _one_query(config, rows))
    add(modules, f"{name} cross-attention", _one_query(config, seen))
    _feed_forward(modules, config, name, 1, norms=3)
    if config.decoder_norm:
        add(modules, "decoder norm", norm(1, d))


def _one_query(config: LstrConfig, rows: int) -> Work:
    """One row that looks at `rows` others, none of which is projected: query, scores, mixture, value and output."""
    d, heads = config.width, config.heads
    looked = heads * rows * d
    projected = linear(1, d, d) * 2 + linear(1, d, d, bias=False, counted_bias=False) + linear(1, d, d)
    return projected + Work(2 * looked, 2 * looked, d + 5 * rows * heads) + elementwise(d)


def _layer(modules: Modules, config: LstrConfig, name: str, rows: int, memory: int) -> None:
    """A whole layer: all rows look at one another and at all rows of a memory."""
    d = config.width
    _self_attention(modules, config, name, rows)
    cross = linear(rows, d, d) * 2 + linear(memory, d, 2 * d) + attention(rows, memory, d, config.heads)
    add(modules, f"{name} cross-attention", cross + elementwise(rows * d))
    _feed_forward(modules, config, name, rows, norms=3)


def _self_attention(modules: Modules, config: LstrConfig, name: str, rows: int) -> None:
    d = config.width
    work = linear(rows, d, d) * 4 + attention(rows, rows, d, config.heads) + elementwise(rows * d)
    add(modules, f"{name} self-attention", work)


def _feed_forward(modules: Modules, config: LstrConfig, name: str, rows: int, norms: int) -> None:
    """The feed-forward part, and all norms of the layer."""
    d, hidden = config.width, config.feed_forward
    work = linear(rows, d, hidden) + activation(rows, hidden, config.activation) + linear(rows, hidden, d)
    add(modules, f"{name} feed-forward", work + elementwise(rows * d))
    add(modules, f"{name} norms", norm(rows, d) * norms)


def _stage_norm(modules: Modules, config: LstrConfig, stage: int, rows: int) -> None:
    if config.encoder_norms[stage]:
        add(modules, f"encoder {stage + 1} norm", norm(rows, config.width))
