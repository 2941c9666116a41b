"""The flags of `convert` and `stream` that name features for a model which does not say what it was trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cotrans_cli.arguments.options import option

if TYPE_CHECKING:
    from pipelines.features.request import FeatureRequest

FEATURES = "Features"

Features = Annotated[
    str | None,
    option(
        "--features",
        panel=FEATURES,
        metavar="NAME[+NAME]",
        help="What a model was trained on that does not say it (resnet50+resnet50-flow): then it plays media.",
    ),
]
FeatureOption = Annotated[
    list[str] | None, option("--option", panel=FEATURES, metavar="[NAME.]KEY=VALUE", help="An extractor's own option.")
]
RandomWeights = Annotated[
    bool, option("--random-weights", panel=FEATURES, help="Untrained feature networks, for trying things out.")
]
FeatureWeights = Annotated[
    list[str] | None,
    option(
        "--weights",
        panel=FEATURES,
        metavar="[NAME=]FILE",
        help="Weights of a feature network that are not known here.",
    ),
]


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
