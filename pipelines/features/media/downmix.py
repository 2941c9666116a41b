"""From any sample format and channel layout to mono float32."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Loudness of a channel in the mono mix, relative to front left (ITU-R BS.775: centre and surround at −3 dB in
# each of two front channels). The low-frequency channel is left out. Weights are scaled to sum to 1.
CENTRE = 2**0.5  # −3 dB into the left and into the right
SURROUND = 0.5**0.5
CHANNEL_WEIGHTS = {"FL": 1.0, "FR": 1.0, "FC": CENTRE, "LFE": 0.0, "LFE2": 0.0}
# What six and eight channels mean where the file does not say (Matroska): 5.1 and 7.1.
USUAL_ORDER = {
    6: ["FL", "FR", "FC", "LFE", "BL", "BR"],
    8: ["FL", "FR", "FC", "LFE", "BL", "BR", "SL", "SR"],
}
# With more planes than this, PyAV (18.1) reads past the end of the list of planes and crashes.
MOST_PLANES = 8
FULL_SCALE = {"uint8": 2.0**7, "int16": 2.0**15, "int32": 2.0**31, "int64": 2.0**63}


def mix_weights(channels: list[str]) -> NDArray[np.float32]:
    """(channels,) weights of the mono mix for ffmpeg's channel names; channels of unknown place count the same."""
    if not any(name in CHANNEL_WEIGHTS for name in channels):
        channels = USUAL_ORDER.get(len(channels), ["FL"] * len(channels))
    weights = [CHANNEL_WEIGHTS.get(name, SURROUND) for name in channels]
    if sum(weights) == 0:  # a lone low-frequency channel is still the recording
        weights = [1.0] * len(channels)
    return np.asarray(weights, np.float32) / np.float32(sum(weights))


def to_float(samples: NDArray[Any]) -> NDArray[np.float32]:
    """Integer samples to [-1, 1); floating-point samples as they are. Any shape."""
    scale = FULL_SCALE.get(samples.dtype.name)
    if scale is None:
        return samples.astype(np.float32)
    offset = 128.0 if samples.dtype.name == "uint8" else 0.0
    return ((samples.astype(np.float64) - offset) / scale).astype(np.float32)


def _interleaved(frame: Any) -> Any:
    """The same samples in one plane."""
    import av

    converter = av.AudioResampler(format="flt", layout=frame.layout, rate=frame.sample_rate)
    (converted,) = converter.resample(frame)
    return converted


def to_mono(frame: Any) -> NDArray[np.float32]:
    """(n,) from an `av.AudioFrame` of any format and layout."""
    channels = [channel.name for channel in frame.layout.channels]
    if frame.format.is_planar and len(channels) > MOST_PLANES:
        frame = _interleaved(frame)
    samples = frame.to_ndarray()
    if samples.shape[0] != len(channels):  # interleaved: (1, n · channels)
        samples = samples.reshape(-1, len(channels)).T
    values = to_float(samples)
    if len(channels) == 1:
        return np.ascontiguousarray(values[0])
    return np.asarray((mix_weights(channels)[:, None] * values).sum(axis=0), np.float32)
