"""Visual feature extractors: EfficientNet-Lite0, ResNet-50, MobileNetV2 and ResNet-50 on optical flow."""

from pipelines.features.video.factory import (
    DEFAULT_VIDEO_EXTRACTOR,
    VIDEO_EXTRACTORS,
    build_video_extractor,
    video_options,
)

__all__ = ["DEFAULT_VIDEO_EXTRACTOR", "VIDEO_EXTRACTORS", "build_video_extractor", "video_options"]
