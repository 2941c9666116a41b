"""Small blocks of sound in larger ones: for throughput, at the cost of delay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from pipelines.features.media.info import AudioBlock, DamagedMediaError, VideoFrame

# Codecs hand out audio in pieces of some 20 ms. Rows do not depend on the pieces, but the time does.
BLOCK_SECONDS = 20.0


def in_larger_blocks(items: Iterable[AudioBlock | VideoFrame]) -> Iterator[AudioBlock | VideoFrame]:
    """The same media with consecutive audio blocks joined; frames pass by blocks that are being joined.

    The first blocks are short and each is as long as all before it, so that what is made of them begins to come soon.
    """
    held: list[AudioBlock] = []
    passed = 0.0  # seconds of sound that have been handed on
    damage = None
    try:
        for item in items:
            if not isinstance(item, AudioBlock):
                yield item
                continue
            held.append(item)
            seconds = held[-1].end - held[0].time
            if seconds >= min(passed, BLOCK_SECONDS):
                passed += seconds
                yield _joined(held)
                held = []
    except DamagedMediaError as error:
        damage = error
    if held:
        yield _joined(held)
    if damage is not None:
        raise damage


def _joined(blocks: list[AudioBlock]) -> AudioBlock:
    if len(blocks) == 1:
        return blocks[0]
    return AudioBlock(np.concatenate([block.samples for block in blocks]), blocks[0].rate, blocks[0].time)
