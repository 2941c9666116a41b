"""Where the mel bands stand in a feature row, as the specification of the features says it.

Warping along frequency and a random frequency response make sense for mel bands alone: of `logmel`, whose rows hold
the same bands several times, once for each statistic or piece of time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pipelines.errors import ConfigurationError
from pipelines.features.spec import ExtractorSpec, FeatureSpec
from pipelines.training.recipes.recipe import AugmentationOptions

# The mel scale of `logmel` (Slaney's): straight up to 1 kHz, logarithmic above.
KNEE_HERTZ, KNEE_MEL, MELS_PER_NEPER = 1000.0, 15.0, 27 / math.log(6.4)
# Statistics that a louder band raises; a deviation or a slope of logarithms does not know how loud it is.
LEVELS = ("mean", "max", "min")


@dataclass(frozen=True)
class BandLayout:
    """Rows (width,) are frames (width / bands, bands)."""

    bands: int
    knee: float = 0.0  # share of the bands that lie below 1 kHz; 0: nobody knows their frequencies
    below: int = 0  # bands of the same spacing that would fit below the lowest
    levels: tuple[bool, ...] | None = None  # of each frame of a row: whether it is about loudness; None: all are


def is_along_bands(options: AugmentationOptions) -> bool:
    """Whether anything depends on where the bands are."""
    return bool(options.bands or options.warp or options.equalizer)


def band_layout(options: AugmentationOptions, spec: FeatureSpec | None, width: int) -> BandLayout:
    """The bands of rows of `width` numbers; augmentation that they do not allow is an error."""
    along_frequency = [name for name in ("warp", "equalizer") if getattr(options, name)]
    part = _logmel(spec)
    if part is not None:
        bands = int(part.options["n_mels"])
        if options.bands not in (0, bands):
            raise ConfigurationError(
                f"augmentation.bands is {options.bands}, but these features are logmel with {bands} bands: leave it "
                f"out, or make it {bands}"
            )
        # Masks follow the bands where the recipe names them: without, a row is one frame.
        return _mel_layout(part, bands) if along_frequency or options.bands else BandLayout(width)
    if along_frequency and spec is not None:
        raise ConfigurationError(
            f"augmentation.{along_frequency[0]} is for rows of mel bands, and these are features of {spec.name}: set "
            "it to 0, or use --features logmel"
        )
    if options.warp:
        raise ConfigurationError(
            "augmentation.warp needs to know the frequencies of the bands, and these feature files do not say how they "
            "were made: set it to 0, or use --features logmel"
        )
    if options.equalizer and not options.bands:
        raise ConfigurationError(
            "augmentation.equalizer is for rows of mel bands, and these feature files do not say how they were made: "
            "set augmentation.bands to the bands of a frame, or leave the equalizer out"
        )
    bands = options.bands or width
    if width % bands:
        divisors = ", ".join(str(number) for number in range(2, width + 1) if width % number == 0)
        raise ConfigurationError(
            f"augmentation.bands is {bands}, but rows of {width} features are not made of frames of {bands} bands: "
            f"choose one of {divisors}"
        )
    return BandLayout(bands)


def _logmel(spec: FeatureSpec | None) -> ExtractorSpec | None:
    """The part that a stream consists of, if that is logmel."""
    alone = spec is not None and len(spec.parts) == 1 and spec.parts[0].name == "logmel"
    return spec.parts[0] if spec is not None and alone else None


def _mel_layout(part: ExtractorSpec, bands: int) -> BandLayout:
    lowest, highest = (_mel(float(part.options[key])) for key in ("lowest", "highest"))
    statistics = str(part.options["statistics"]).split("+") if "statistics" in part.options else None
    return BandLayout(
        bands,
        # Two digits: the knee is only as sharp as a band is narrow.
        knee=round((KNEE_MEL - lowest) / (highest - lowest), 2),
        below=round(lowest * bands / (highest - lowest)),
        levels=None if statistics is None else tuple(name in LEVELS for name in statistics),
    )


def _mel(hertz: float) -> float:
    if hertz <= KNEE_HERTZ:
        return hertz * KNEE_MEL / KNEE_HERTZ
    return KNEE_MEL + MELS_PER_NEPER * math.log(hertz / KNEE_HERTZ)
