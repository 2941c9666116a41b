"""The kinds of models there are: what a configuration's kind says about the class that it configures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, cast

from pipelines.errors import ConfigurationError
from pipelines.model.base_config import DEFAULT_KIND, BaseConfig, parse_config
from pipelines.model.continual_model import ContinualModel
from pipelines.model.lstr.config import LstrConfig
from pipelines.model.lstr.model import LstrModel
from pipelines.model.per_frame import PerFrameModel
from pipelines.model.per_frame_config import PerFrameConfig
from pipelines.model.recurrent import RecurrentModel
from pipelines.model.recurrent_config import RecurrentConfig
from pipelines.model.transformer.config import ModelConfig
from pipelines.model.transformer.model import ContinualTransformer


@dataclass(frozen=True)
class Kind:
    """A configuration and the model that it is of."""

    config: type[BaseConfig]
    model: type[ContinualModel]


KINDS: dict[str, Kind] = {
    kind.config.kind: kind
    for kind in (
        Kind(ModelConfig, ContinualTransformer),
        Kind(RecurrentConfig, RecurrentModel),
        Kind(PerFrameConfig, PerFrameModel),
        Kind(LstrConfig, LstrModel),
    )
}


def make_model(config: BaseConfig) -> ContinualModel:
    """A model with random weights."""
    return cast(Any, KINDS[config.kind].model)(config)  # type: ignore[no-any-return]


def config_from_dict(value: Mapping[str, Any]) -> BaseConfig:
    """The configuration that `to_dict` of whichever kind gave."""
    kind = value.get("kind", DEFAULT_KIND)
    if kind not in KINDS:
        raise ConfigurationError(f"there is no model of kind {kind!r} (kinds: {', '.join(KINDS)})")
    return KINDS[kind].config.from_dict(value)


def config_from_json(text: str) -> BaseConfig:
    """The configuration that `to_json` of whichever kind wrote."""
    return config_from_dict(parse_config(text))


def settings_of(kind: str) -> tuple[str, ...]:
    """The names of what can be set in a model of this kind."""
    return tuple(field.name for field in fields(cast(Any, KINDS[kind].config)))
