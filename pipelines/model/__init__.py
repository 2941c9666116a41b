"""What the continual transformer is made of: configuration, state, attention, blocks, encoder, classifier."""

from pipelines.model.attention_modules import RegularAttention, RetroactiveAttention, SingleOutputAttention
from pipelines.model.config import ModelConfig
from pipelines.model.encoder import ContinualEncoder
from pipelines.model.state import StreamState
from pipelines.model.torch_encoder import from_torch_encoder, load_torch_encoder
from pipelines.model.transformer import ContinualTransformer, Prediction

__all__ = [
    "ContinualEncoder",
    "ContinualTransformer",
    "ModelConfig",
    "Prediction",
    "RegularAttention",
    "RetroactiveAttention",
    "SingleOutputAttention",
    "StreamState",
    "from_torch_encoder",
    "load_torch_encoder",
]
