"""Putting recordings together into one stream, with pauses, room noise and bursts of noise between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]  # (n,) mono
Events = list[tuple[float, float, int]]  # start and end in seconds, and label

PAUSE = (0.15, 1.0)  # seconds between two recordings
LEVEL = (0.03, 0.12)  # root mean square of a recording in the stream: about 12 dB between soft and loud
NOISE = (15.0, 35.0)  # decibels by which the room noise of a stream is below the mean level
BURST_CHANCE = 0.3  # of a pause with a burst of noise in it: loudness alone must not give a word away
BURST = (0.05, 0.25)  # seconds
BURST_LEVEL = (0.01, 0.08)  # root mean square
MEAN_LEVEL = 0.06
PEAK = 0.98  # the largest sample of a stream
REVERBERATION = (0.05, 0.4)  # seconds after which a room's echo is 60 dB below what was said
ECHO = (3.0, 15.0)  # decibels by which the whole echo is below what was said
LOWEST, HIGHEST = (60.0, 300.0), (2600.0, 4000.0)  # Hz: where a microphone begins and ends to hear
COLOUR = 3.0  # decibels: deviation of a microphone's response between them
COLOUR_KNOTS = 6
DISGUISE = 0.35  # logarithm of the largest factor: 0.7 to 1.4 times as fast
DISGUISE_COLOUR = 4.0  # decibels: deviation of the response
SOFTEST = 30.0  # decibels below its loudest moment: what is softer at the ends of a recording is not its sound any more
MOMENT = 0.02  # seconds
FADE = 0.005  # seconds at both ends of a recording and a burst: no clicks


@dataclass(frozen=True)
class Recording:
    """One sound with its label."""

    label: int | None  # None: something else, which has no label in the stream
    samples: Samples
    rate: int  # Hz; the same in all of a stream
    voice: str = ""  # whose

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate

    def at_pitch(self, factor: float) -> Recording:
        """Played `factor` times as fast: pitch and formants are as much higher, and it is as much shorter."""
        import soxr

        return replace(self, samples=np.asarray(soxr.resample(self.samples, self.rate * factor, self.rate)))

    def between(self, begin: float, end: float) -> Recording:
        """The part from `begin` to `end` seconds."""
        return replace(self, samples=self.samples[round(begin * self.rate) : round(end * self.rate)])


def levelled(samples: Samples) -> Samples:
    """(n,) with a root mean square of 1 and without an offset."""
    centred = samples - samples.mean()
    return np.asarray(centred / max(float(np.sqrt(np.mean(centred**2))), 1e-6), dtype=np.float32)


def sounding_part(samples: Samples, rate: int) -> tuple[int, int]:
    """First sample of the sound in (n,) and the one after its last: silence at both ends belongs to nothing."""
    length = min(max(round(MOMENT * rate), 1), len(samples))
    energy = np.concatenate([[0.0], np.cumsum(samples.astype(np.float64) ** 2)])
    last = len(samples) - length
    starts = np.append(np.arange(0, last, max(length // 2, 1)), last)
    power = energy[starts + length] - energy[starts]
    loud = starts[power >= power.max() * 10 ** (-SOFTEST / 10)]
    return int(loud[0]), int(loud[-1]) + length


def shuffled(recording: Recording, generator: np.random.Generator) -> Recording:
    """Something that sounds like the same voice and is none of its words: backwards, half, or in another order."""
    samples = recording.samples
    pieces = np.array_split(samples, int(generator.integers(2, 5)))
    kind = generator.random()
    if kind < 1 / 3:
        other = samples[::-1].copy()
    elif kind < 2 / 3:
        other = _halves(recording)[int(generator.random() < 0.5)]
    else:
        other = np.concatenate([_faded(part, recording.rate) for part in pieces[::-1]])
    return replace(recording, label=None, samples=other)


def crossed(first: Recording, second: Recording) -> Recording:
    """The first half of one word and the second of another: it begins and ends like words, and is none."""
    parts = _halves(first)[0], _halves(second)[1]
    return replace(first, label=None, samples=np.concatenate([_faded(part, first.rate) for part in parts]))


def _halves(recording: Recording) -> tuple[Samples, Samples]:
    """Before and after the middle of the sound."""
    middle = sum(sounding_part(recording.samples, recording.rate)) // 2
    return recording.samples[:middle], recording.samples[middle:]


def disguised(recording: Recording, generator: np.random.Generator) -> Recording:
    """The same from somebody else's mouth: slower or faster, lower or higher, through another microphone.

    More than a word could be changed and stay that word: what is none of the words may become any sound but them.
    """
    faster = recording.at_pitch(float(np.exp(generator.uniform(-DISGUISE, DISGUISE))))
    return replace(faster, samples=coloured(faster.samples, faster.rate, DISGUISE_COLOUR, generator))


def plan_streams(
    recordings: Sequence[Recording], seconds: float, passes: int, generator: np.random.Generator
) -> list[list[Recording]]:
    """Which recordings follow one another in which stream: each once per pass, in random order."""
    streams: list[list[Recording]] = []
    for _ in range(passes):
        filled = seconds  # a pass begins with a new stream
        for position in generator.permutation(len(recordings)):
            if filled >= seconds:
                streams.append([])
                filled = 0.0
            streams[-1].append(recordings[position])
            filled += recordings[position].seconds + sum(PAUSE) / 2
    return streams


def mix_stream(
    recordings: Sequence[Recording], generator: np.random.Generator, room: bool = False
) -> tuple[Samples, Events]:
    """One stream (n,) and what is in it: (start, end, label) in seconds. room: heard through a room and microphone.

    An event lasts as long as its sound, not as its file: how much silence somebody left at the ends says nothing.
    """
    rate = recordings[0].rate
    pauses = [_pause(rate, generator)]
    levels = []
    for _ in recordings:
        levels.append(float(generator.uniform(*LEVEL)))
        pauses.append(_pause(rate, generator))
    speech, events = _joined(recordings, levels, pauses)
    if room:
        speech = in_a_room(speech, rate, generator)
    decibels = generator.uniform(*NOISE)
    noise = coloured_noise(len(speech), rate, generator) * np.float32(MEAN_LEVEL * 10 ** (-decibels / 20))
    return _within_peak(speech + noise), events


def mix_file(recordings: Sequence[Recording], generator: np.random.Generator) -> tuple[Samples, Events]:
    """`mix_stream` as in a file: the first word begins at once, the last ends it, between them is digital silence."""
    rate = recordings[0].rate
    nothing = np.zeros(0, dtype=np.float32)
    pauses = [np.zeros(round(generator.uniform(*PAUSE) * rate), dtype=np.float32) for _ in recordings[1:]]
    levels = [float(generator.uniform(*LEVEL)) for _ in recordings]
    speech, events = _joined(recordings, levels, [nothing, *pauses, nothing])
    return _within_peak(speech), events


def _within_peak(samples: Samples) -> Samples:
    """(n,), softer as a whole where it would clip. Files may hold nothing but silence."""
    return np.asarray(samples * np.float32(PEAK / max(PEAK, float(np.abs(samples).max()))), dtype=np.float32)


def _joined(
    recordings: Sequence[Recording], levels: Sequence[float], pauses: Sequence[Samples]
) -> tuple[Samples, Events]:
    """Recordings with a pause before the first and after each, and where the sound of those with a label is."""
    rate = recordings[0].rate
    pieces, events = [pauses[0]], []
    position = len(pauses[0])
    for recording, level, pause in zip(recordings, levels, pauses[1:], strict=True):
        pieces += [_faded(recording.samples, rate) * np.float32(level), pause]
        if recording.label is not None:
            begin, behind = sounding_part(recording.samples, rate)
            events.append(((position + begin) / rate, (position + behind) / rate, recording.label))
        position += len(recording.samples) + len(pause)
    return np.concatenate(pieces), events


def in_a_room(samples: Samples, rate: int, generator: np.random.Generator) -> Samples:
    """(n,) as a microphone hears it in a random room, as loud as before."""
    decay = generator.uniform(*REVERBERATION)
    times = np.arange(round(decay * rate)) / rate
    echo = generator.standard_normal(len(times)) * 10 ** (-3 * times / decay)
    echo *= 10 ** (-generator.uniform(*ECHO) / 20) / np.sqrt(np.sum(echo**2))
    echo[0] += 1.0  # what comes straight
    size = 1 << (len(samples) + len(echo) - 1).bit_length()
    frequencies = np.maximum(np.fft.rfftfreq(size, 1 / rate), 1.0)
    decibels = _response(frequencies, COLOUR, HIGHEST[1], generator)
    lowest, highest = generator.uniform(*LOWEST), generator.uniform(*HIGHEST)
    # 12 dB for each octave below the lowest, 24 dB above the highest.
    decibels -= 12 * np.maximum(np.log2(lowest / frequencies), 0) + 24 * np.maximum(np.log2(frequencies / highest), 0)
    heard = np.fft.irfft(np.fft.rfft(samples, size) * np.fft.rfft(echo, size) * 10 ** (decibels / 20), size)
    heard = heard[: len(samples)]
    loudness = float(np.mean(samples**2)) / max(float(np.mean(heard**2)), 1e-12)
    return np.asarray(heard * np.sqrt(loudness), dtype=np.float32)


def coloured(samples: Samples, rate: int, deviation: float, generator: np.random.Generator) -> Samples:
    """(n,) through another microphone or loudspeaker. deviation: of its response, in decibels."""
    size = 1 << (len(samples) - 1).bit_length()
    decibels = _response(np.maximum(np.fft.rfftfreq(size, 1 / rate), 1.0), deviation, rate / 2, generator)
    heard = np.fft.irfft(np.fft.rfft(samples, size) * 10 ** (decibels / 20), size)
    return np.asarray(heard[: len(samples)], dtype=np.float32)


def _response(
    frequencies: NDArray[np.float64], deviation: float, highest: float, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Decibels (n,) at frequencies (n,): a smooth random curve over the octaves up to the highest."""
    octaves = np.log2(frequencies / LOWEST[0])
    knots = generator.normal(0.0, deviation, COLOUR_KNOTS)
    return np.interp(octaves, np.linspace(0, np.log2(highest / LOWEST[0]), COLOUR_KNOTS), knots)


def _pause(rate: int, generator: np.random.Generator) -> Samples:
    samples = np.zeros(round(generator.uniform(*PAUSE) * rate), dtype=np.float32)
    if generator.random() < BURST_CHANCE:
        length = min(round(generator.uniform(*BURST) * rate), len(samples))
        start = int(generator.integers(0, len(samples) - length + 1))
        burst = _faded(coloured_noise(length, rate, generator), rate) * np.float32(generator.uniform(*BURST_LEVEL))
        samples[start : start + length] = burst
    return samples


def coloured_noise(length: int, rate: int, generator: np.random.Generator) -> Samples:
    """Noise with a root mean square of 1, of a random colour between white (power as f⁰) and brown (as 1/f²)."""
    size = 1 << (length - 1).bit_length()  # transforms of other lengths, primes above all, are slow
    spectrum = np.fft.rfft(generator.standard_normal(size))
    frequencies = np.fft.rfftfreq(size, 1 / rate)
    spectrum *= np.maximum(frequencies, 50.0) ** (-generator.uniform(0.0, 2.0) / 2)
    noise = np.fft.irfft(spectrum, size)[:length]
    return np.asarray(noise / np.sqrt(np.mean(noise**2)), dtype=np.float32)


def _faded(samples: Samples, rate: int) -> Samples:
    length = min(round(FADE * rate), len(samples) // 2)
    ramp = np.linspace(0.0, 1.0, length, endpoint=False, dtype=np.float32)
    faded = samples.copy()
    faded[:length] *= ramp
    faded[len(faded) - length :] *= ramp[::-1]
    return faded
