"""Visual feature extractors: ResNet-50, MobileNetV2 and ResNet-50 on optical flow."""

from pipelines.features.video.factory import VIDEO_EXTRACTORS, build_video_extractor, video_options

__all__ = ["VIDEO_EXTRACTORS", "build_video_extractor", "video_options"]
