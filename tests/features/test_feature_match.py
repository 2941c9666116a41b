"""One rule for features that a model was not trained on: what is an error, what is a remark, and what to type."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipelines.errors import ConfigurationError
from pipelines.features.feature_match import check_features, flags_for
from pipelines.features.request import FeatureRequest
from pipelines.features.spec import FeatureSpec
from pipelines.features.stream_factory import StreamFactory


def spec(features: str = "musicnn", hop: float = 0.25, **options: Any) -> FeatureSpec:
    chosen = {key.replace("__", "."): value for key, value in options.items()}
    return StreamFactory(FeatureRequest(features, hop=hop, options=chosen)).prototype().spec


def test_another_network_of_the_same_width_is_an_error() -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_features(spec(network="mtt"), spec(), "m.safetensors", "do this")
    assert str(caught.value) == (
        "m.safetensors was trained on other features: these come from other options of musicnn (network=mtt, not "
        "network=msd); do this"
    )
    assert flags_for(spec(network="mtt"), spec()) == "--feature-option network=msd"


def test_the_same_network_with_other_weights_is_a_remark() -> None:
    own = spec()
    tuned = replace(own, parts=(replace(own.parts[0], weights="ab" * 32),))
    assert check_features(tuned, own, "m", "") == (
        "m was trained on features that were made differently: these come from other weights of musicnn"
    )
    assert check_features(own, own, "m", "") is None and check_features(None, own, "m", "") is None


def test_what_to_type() -> None:
    logmel = spec("logmel", 0.1, n_mels=16, frames=2)
    assert flags_for(spec("logmel", 0.2, n_mels=16, frames=2), logmel) == "--hop 0.1"  # the window follows
    assert flags_for(logmel, spec("logmel", 0.1)) == "--feature-option n_mels=64 --feature-option frames=0"
    joined = spec("musicnn+logmel", logmel__window=1.0)
    assert flags_for(spec(), joined) == "--features musicnn+logmel --feature-option logmel.window=1.0"
