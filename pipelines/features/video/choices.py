"""Which video extractors there are and what can be chosen of each. Nothing here needs PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from pipelines.errors import UsageError
from pipelines.features.row_clock import FrameChoice
from pipelines.features.spec import Option

Preprocessing = Literal["torchvision", "mmaction2", "efficientnet"]
PREPROCESSINGS: tuple[Preprocessing, ...] = get_args(Preprocessing)
FlowMethod = Literal["dis", "farneback"]
FLOW_METHODS: tuple[FlowMethod, ...] = get_args(FlowMethod)

# The preprocessing "auto" is that of the project whose naming the weight file has.
RGB_OPTIONS: Mapping[str, Option] = {"preprocessing": "auto", "frame": "centre"}
# Of each extractor: its options with their defaults.
OPTIONS: Mapping[str, Mapping[str, Option]] = {
    "efficientnet_lite0": {"output": "features", "frame": "centre"},
    "resnet50": RGB_OPTIONS,
    "mobilenet_v2": RGB_OPTIONS,
    "resnet50-flow": {"flow": "dis"},
    "motion": {"frame": "centre"},
}
VIDEO_EXTRACTORS = tuple(OPTIONS)
DEFAULT_VIDEO_EXTRACTOR = "efficientnet_lite0"  # its weights ship with cotrans
CHOICES: Mapping[str, tuple[str, ...]] = {
    "preprocessing": ("auto", *(name for name in PREPROCESSINGS if name != "efficientnet")),
    "output": ("features", "classes"),
    "frame": get_args(FrameChoice),
    "flow": FLOW_METHODS,
}


def video_options(name: str) -> dict[str, Option]:
    """The options of an extractor and their defaults."""
    if name not in OPTIONS:
        raise UsageError(f"there is no video extractor '{name}': choose from {', '.join(VIDEO_EXTRACTORS)}")
    return dict(OPTIONS[name])


def checked_options(name: str, options: Mapping[str, Option]) -> dict[str, Option]:
    """The options of an extractor with those that were given, which it must have."""
    known = video_options(name)
    for key, value in options.items():
        if key not in known:
            raise UsageError(f"{name} has no option '{key}': choose from {', '.join(known)}")
        if value not in CHOICES[key]:
            raise UsageError(f"option {key} of {name}: '{value}' is not one of {', '.join(CHOICES[key])}")
    return {**known, **options}
