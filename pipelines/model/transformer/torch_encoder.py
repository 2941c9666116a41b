"""Weights of `torch.nn.TransformerEncoder` in our names, and a `ContinualEncoder` made from one."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from pipelines.errors import CheckpointError
from pipelines.model.transformer.config import ModelConfig
from pipelines.model.transformer.encoder import ContinualEncoder

# Name within a layer there: name within a block here.
LAYER_KEYS = {
    "self_attn.in_proj_weight": "in_projection.weight",
    "self_attn.in_proj_bias": "in_projection.bias",
    "self_attn.out_proj.weight": "out_projection.weight",
    "self_attn.out_proj.bias": "out_projection.bias",
    "linear1.weight": "expand.weight",
    "linear1.bias": "expand.bias",
    "linear2.weight": "contract.weight",
    "linear2.bias": "contract.bias",
    "norm1.weight": "attention_norm.weight",
    "norm1.bias": "attention_norm.bias",
    "norm2.weight": "feed_forward_norm.weight",
    "norm2.bias": "feed_forward_norm.bias",
}


def renamed(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state dict of a `torch.nn.TransformerEncoder` (`layers.0.…`) under our names (`blocks.0.…`)."""
    result: dict[str, Tensor] = {}
    unknown = []
    for key, tensor in state_dict.items():
        start, _, rest = key.partition(".")
        index, _, name = rest.partition(".")
        if start == "layers" and index.isdigit() and name in LAYER_KEYS:
            result[f"blocks.{index}.{LAYER_KEYS[name]}"] = tensor
        else:
            unknown.append(key)
    if unknown:
        raise CheckpointError(f"not keys of torch.nn.TransformerEncoder layers: {', '.join(sorted(unknown))}")
    return result


def load_torch_encoder(encoder: ContinualEncoder, state_dict: Mapping[str, Tensor]) -> None:
    """Load the weights of a `torch.nn.TransformerEncoder` into `encoder`, strictly."""
    mine = encoder.state_dict()
    theirs = renamed(state_dict)
    ours_alone = {name for name in mine if not name.startswith("blocks.")}  # positions, class token
    missing = sorted(set(mine) - set(theirs) - ours_alone)
    extra = sorted(set(theirs) - set(mine))
    if missing or extra:
        raise CheckpointError(f"the weights do not fit: missing {missing or 'none'}, not expected {extra or 'none'}")
    wrong = [name for name in theirs if theirs[name].shape != mine[name].shape]
    if wrong:
        raise CheckpointError(f"weights of another shape: {', '.join(sorted(wrong))}")
    encoder.load_state_dict({**mine, **theirs})


def from_torch_encoder(module: nn.TransformerEncoder, window: int) -> ContinualEncoder:
    """A continual encoder with the weights and the numbers of `module`, for windows of up to `window` tokens."""
    layer = module.layers[0]
    assert isinstance(layer, nn.TransformerEncoderLayer)
    if module.norm is not None:
        raise CheckpointError("the encoder ends in a norm of its own: make a ContinualTransformer with final_norm")
    name = getattr(layer.activation, "__name__", "")
    if name not in ("relu", "gelu"):
        raise CheckpointError(f"activation {name or layer.activation} is neither relu nor gelu")
    width = layer.self_attn.embed_dim
    config = ModelConfig(
        input_width=width,
        width=width,
        heads=layer.self_attn.num_heads,
        feed_forward=layer.linear1.out_features,
        blocks=len(module.layers),
        window=window,
        classes=1,
        activation="relu" if name == "relu" else "gelu",
        norm="pre" if layer.norm_first else "post",
        in_projection_bias=layer.self_attn.in_proj_bias is not None,
        out_projection_bias=layer.self_attn.out_proj.bias is not None,
        final_norm=False,
        positional="none",
    )
    encoder = ContinualEncoder(config).to(layer.linear1.weight)
    load_torch_encoder(encoder, module.state_dict())
    return encoder.train(module.training)
