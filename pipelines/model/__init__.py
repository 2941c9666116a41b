"""Models for streams: the continual transformer and its parts, other kinds, and what all of them can do."""

from pipelines.model.attention.modules import RegularAttention, RetroactiveAttention, SingleOutputAttention
from pipelines.model.continual_model import ContinualModel, Prediction
from pipelines.model.kinds import config_from_json, make_model
from pipelines.model.per_frame import PerFrameModel
from pipelines.model.per_frame_config import PerFrameConfig
from pipelines.model.recurrent import RecurrentModel
from pipelines.model.recurrent_config import RecurrentConfig
from pipelines.model.state import StreamState
from pipelines.model.transformer.config import ModelConfig
from pipelines.model.transformer.encoder import ContinualEncoder
from pipelines.model.transformer.model import ContinualTransformer
from pipelines.model.transformer.torch_encoder import from_torch_encoder, load_torch_encoder

__all__ = [
    "ContinualEncoder",
    "ContinualModel",
    "ContinualTransformer",
    "ModelConfig",
    "PerFrameConfig",
    "PerFrameModel",
    "Prediction",
    "RecurrentConfig",
    "RecurrentModel",
    "RegularAttention",
    "RetroactiveAttention",
    "SingleOutputAttention",
    "StreamState",
    "config_from_json",
    "from_torch_encoder",
    "load_torch_encoder",
    "make_model",
]
