"""Visual feature extractors: EfficientNet-Lite0, ResNet-50, MobileNetV2, ResNet-50 on optical flow, and motion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipelines.features.video.choices import DEFAULT_VIDEO_EXTRACTOR, VIDEO_EXTRACTORS, video_options

if TYPE_CHECKING:
    from pipelines.features.video.factory import build_video_extractor

__all__ = ["DEFAULT_VIDEO_EXTRACTOR", "VIDEO_EXTRACTORS", "build_video_extractor", "video_options"]


def __getattr__(name: str) -> Any:
    """Import what needs PyTorch when it is asked for: names and options are known without it."""
    if name != "build_video_extractor":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pipelines.features.video.factory import build_video_extractor

    return build_video_extractor
