"""Which features a graph can have inside, and sound to compare it with the extractor on."""

from __future__ import annotations

import numpy as np

from pipelines.errors import ConfigurationError
from pipelines.exporting.verification import Source, Values
from pipelines.features.audio import build_audio_extractor
from pipelines.features.extractor import AudioExtractor
from pipelines.features.spec import FeatureSpec

INSIDE = "logmel"
LOUDNESS = 0.1  # of random sound


def sound_features(spec: FeatureSpec | None) -> FeatureSpec:
    """The features of a model, where a graph can compute them."""
    if spec is None:
        raise ConfigurationError("--with-features: the model does not say which features it takes: export without them")
    if [part.name for part in spec.parts] != [INSIDE]:
        raise ConfigurationError(
            f"--with-features: {spec.name} has no graph, only {INSIDE} has: export without them, and rows go in"
        )
    return spec


def random_sound(spec: FeatureSpec, samples: int) -> Source:
    """Noise that comes and goes, hop by hop, and the extractor's rows for it."""
    generator = np.random.default_rng(0)
    (part,) = spec.parts
    prototype = build_audio_extractor(part.name, spec.hop, part.options, align=spec.align)
    extractors: list[AudioExtractor] = []

    def sound(count: int, begins: bool) -> tuple[Values, Values]:
        nonlocal extractors
        if begins:
            extractors = [prototype.fresh() for _ in range(count)]
        loudness = LOUDNESS * generator.uniform(size=(count, 1)) ** 4
        hops = (loudness * generator.normal(size=(count, samples))).astype(np.float32)
        return hops, np.concatenate([extractor.push(hop) for extractor, hop in zip(extractors, hops, strict=True)])

    return sound
