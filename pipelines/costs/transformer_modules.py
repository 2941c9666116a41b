"""The modules of a continual transformer as reports name them."""

from __future__ import annotations

from pipelines.model.transformer.config import ModelConfig


def module_order(config: ModelConfig) -> list[str]:
    """Names in the order in which a token meets the modules."""
    names = ["embedding", "input projection", "positions", "class token"]
    for index in range(1, config.blocks + 1):
        names += [f"block {index} {part}" for part in ("in-projection", "attention", "out-projection")]
        names += [f"block {index} feed-forward", f"block {index} norms"]
    return [*names, "final norm", "decoder queries"]


# How the parameters of a module are named in reports.
_BLOCK_PARTS = {
    "in_projection": "in-projection",
    "out_projection": "out-projection",
    "expand": "feed-forward",
    "contract": "feed-forward",
    "attention_norm": "norms",
    "feed_forward_norm": "norms",
}
_DECODER_PARTS = {
    "self_attention": "self-attention",
    "cross_attention": "cross-attention",
    "expand": "feed-forward",
    "contract": "feed-forward",
    "self_norm": "norms",
    "cross_norm": "norms",
    "feed_forward_norm": "norms",
}
_TOP = {
    "embedding": "embedding",
    "input_projection": "input projection",
    "encoder.positions": "positions",
    "encoder.class_token": "class token",
    "final_norm": "final norm",
    "decoder.queries": "decoder queries",
    "decoder.norm": "decoder norm",
    "decoder.classifier": "decoder classifier",
    "classifier": "classifier",
    "reading": "reading",
}


def module_name(key: str) -> str:
    """ "encoder.blocks.0.expand.weight" to "block 1 feed-forward"."""
    parts = key.split(".")
    if key.startswith("encoder.blocks."):
        if parts[3] == "age_bias":
            return "positions"
        return f"block {int(parts[2]) + 1} {_BLOCK_PARTS[parts[3]]}"
    if key.startswith("decoder.blocks."):
        return f"decoder block {int(parts[2]) + 1} {_DECODER_PARTS[parts[3]]}"
    return next(name for prefix, name in _TOP.items() if key == prefix or key.startswith(f"{prefix}."))
