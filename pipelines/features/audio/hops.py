"""The samples of each hop themselves as rows: what a model takes that has its features inside."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.features.audio.mel import Frames, Samples
from pipelines.features.audio.row_samples import SampleClock
from pipelines.features.audio.windowed import WindowedExtractor, of_windows
from pipelines.features.spec import ExtractorSpec


@dataclass(frozen=True)
class Hops:
    """A `FrontEnd` whose frames are hops of sound."""

    sample_rate: int
    bands: int  # samples of a hop

    @property
    def frame_hop(self) -> int:
        return self.bands

    def frames(self, samples: Samples) -> Frames:
        count = len(samples) // self.bands
        return samples[: count * self.bands].reshape(count, self.bands)


def hop_extractor(hop: float, sample_rate: int, samples: int) -> WindowedExtractor:
    """An extractor of rows (samples,). hop: seconds, which are so many samples."""
    spec = ExtractorSpec("samples", "audio", samples, hop, {"sample_rate": sample_rate})
    rows_of = of_windows(1, lambda windows: windows[:, 0])
    return WindowedExtractor(spec, SampleClock(hop, sample_rate, samples), Hops(sample_rate, samples), 1, rows_of)
