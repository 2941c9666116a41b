"""Models for streams: the continual transformer and its parts, other kinds, and what all of them can do."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.model.attention.modules import RegularAttention as RegularAttention
    from pipelines.model.attention.modules import RetroactiveAttention as RetroactiveAttention
    from pipelines.model.attention.modules import SingleOutputAttention as SingleOutputAttention
    from pipelines.model.continual_model import ContinualModel as ContinualModel
    from pipelines.model.continual_model import Prediction as Prediction
    from pipelines.model.kinds import config_from_json as config_from_json
    from pipelines.model.kinds import make_model as make_model
    from pipelines.model.per_frame import PerFrameModel as PerFrameModel
    from pipelines.model.per_frame_config import PerFrameConfig as PerFrameConfig
    from pipelines.model.recurrent import RecurrentModel as RecurrentModel
    from pipelines.model.recurrent_config import RecurrentConfig as RecurrentConfig
    from pipelines.model.state import StreamState as StreamState
    from pipelines.model.transformer.config import ModelConfig as ModelConfig
    from pipelines.model.transformer.encoder import ContinualEncoder as ContinualEncoder
    from pipelines.model.transformer.model import ContinualTransformer as ContinualTransformer
    from pipelines.model.transformer.torch_encoder import from_torch_encoder as from_torch_encoder
    from pipelines.model.transformer.torch_encoder import load_torch_encoder as load_torch_encoder

# Public name -> the module that has it.
_PUBLIC = {
    "ContinualEncoder": "pipelines.model.transformer.encoder",
    "ContinualModel": "pipelines.model.continual_model",
    "ContinualTransformer": "pipelines.model.transformer.model",
    "ModelConfig": "pipelines.model.transformer.config",
    "PerFrameConfig": "pipelines.model.per_frame_config",
    "PerFrameModel": "pipelines.model.per_frame",
    "Prediction": "pipelines.model.continual_model",
    "RecurrentConfig": "pipelines.model.recurrent_config",
    "RecurrentModel": "pipelines.model.recurrent",
    "RegularAttention": "pipelines.model.attention.modules",
    "RetroactiveAttention": "pipelines.model.attention.modules",
    "SingleOutputAttention": "pipelines.model.attention.modules",
    "StreamState": "pipelines.model.state",
    "config_from_json": "pipelines.model.kinds",
    "from_torch_encoder": "pipelines.model.transformer.torch_encoder",
    "load_torch_encoder": "pipelines.model.transformer.torch_encoder",
    "make_model": "pipelines.model.kinds",
}
__all__ = [*_PUBLIC]


def __getattr__(name: str) -> Any:
    """Import what needs PyTorch when it is asked for: configurations and names do without."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)
