"""The flags of `convert` and `stream` that name features for a model which does not say what it was trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipelines.features.request import FeatureRequest


def feature_request(
    features: str | None,
    hop: float | None,
    option: list[str] | None,
    weights: list[str] | None,
    random_weights: bool,
) -> FeatureRequest | None:
    """What the flags ask for; None: no features are named."""
    from pipelines.errors import UsageError
    from pipelines.features.request import FeatureRequest, parse_options, parse_weights

    if features is None:
        if option or random_weights:
            raise UsageError("--option and --random-weights are about --features: name them too")
        return None
    return FeatureRequest(
        features,
        hop,
        options=parse_options(option or []),
        weights=parse_weights(weights or []),
        random_weights=random_weights,
    )
