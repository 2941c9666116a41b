"""Streaming audio extractors: `vggish`, `musicnn`, `speech`, `soundnet` and `logmel`."""

from pipelines.features.audio.factory import (
    AUDIO_EXTRACTORS,
    audio_options,
    build_audio_extractor,
    needs_weights,
)

__all__ = ["AUDIO_EXTRACTORS", "audio_options", "build_audio_extractor", "needs_weights"]
