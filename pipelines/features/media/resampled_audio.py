"""Sound at another rate, as it is decoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from pipelines.features.media.info import AudioBlock, DamagedMediaError, VideoFrame
from pipelines.features.media.resampler import Resampler


def at_rate(items: Iterable[AudioBlock | VideoFrame], rate: int) -> Iterator[AudioBlock | VideoFrame]:
    """The same media with its sound, which has one rate throughout and no gaps, at `rate` Hz.

    What a resampler holds back, up to 60 ms, comes with the next blocks: no matter where they are read ahead of time.
    """
    resampler: Resampler | None = None
    begin, given = 0.0, 0  # seconds, samples
    damage: DamagedMediaError | None = None

    def blocks(samples: NDArray[np.float32]) -> Iterator[AudioBlock]:
        nonlocal given
        if len(samples):
            yield AudioBlock(samples, rate, begin + given / rate)
            given += len(samples)

    try:
        for item in items:
            if not isinstance(item, AudioBlock) or item.rate == rate:
                yield item
                continue
            if resampler is None:
                resampler, begin = Resampler(item.rate, rate), item.time
            yield from blocks(resampler.push(item.samples))
    except DamagedMediaError as error:
        damage = error
    if resampler is not None:
        yield from blocks(resampler.flush())
    if damage is not None:
        raise damage
