"""A network in a file as an extractor: one picture, or one window of samples, for each row."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import UsageError
from pipelines.features.audio.row_samples import SampleClock
from pipelines.features.extractor import AudioExtractor, Rows, VideoExtractor
from pipelines.features.networks.network import Network, checked_options, picture_input, window_input
from pipelines.features.spec import Align, ExtractorSpec, Option
from pipelines.files import file_sha256


class NetworkVideoExtractor:
    """One picture per row."""

    frames_per_row = 1

    def __init__(self, network: Network, spec: ExtractorSpec) -> None:
        self.spec = spec
        self._network = network

    def push(self, frames: NDArray[np.uint8]) -> Rows:
        """(rows, height, width, 3) RGB -> (rows, width)."""
        scale = str(self.spec.options["scale"])
        rows = [self._network(picture_input(frame, self._network.input, scale)) for frame in frames]
        return np.stack(rows) if rows else np.zeros((0, self.spec.width), np.float32)


class NetworkAudioExtractor:
    """One window of samples per row; silence stands before the start and after the end."""

    reach = 0

    def __init__(self, network: Network, spec: ExtractorSpec, clock: SampleClock, row: int = 0) -> None:
        """`row`: the first that is wanted."""
        self.spec = spec
        self.sample_rate = clock.sample_rate
        self._network = network
        self._clock = clock
        self._first = clock.begin(row)  # index of the first sample that is held
        self._held: NDArray[np.float32] = np.zeros(max(0, -self._first), np.float32)
        self._skip = max(0, self._first)
        self._arrived = 0  # samples
        self._next = row  # the first row that has not been given
        self._ended = False

    def fresh(self, row: int = 0) -> NetworkAudioExtractor:
        """The same extractor at the start of another stream, whose rows are wanted from `row` on."""
        return NetworkAudioExtractor(self._network, self.spec, self._clock, row)

    def due(self, row: int) -> int:
        """How many samples must have been pushed before a row is ready."""
        return self._clock.due(row)

    def push(self, samples: NDArray[np.float32]) -> Rows:
        """(n,) -> (rows, width) that are complete."""
        if self._ended:
            raise UsageError("samples were pushed after the end of the stream: build a new extractor")
        self._arrived += len(samples)
        self._hold(samples)
        return self._rows(None)

    def flush(self) -> Rows:
        """End the stream -> the rows that wait for samples that will not come."""
        if self._ended:
            return np.zeros((0, self.spec.width), np.float32)
        self._ended = True
        total = self._clock.rows(self._arrived)
        if total > self._next:
            due = self._clock.begin(total - 1) + self._clock.window
            self._hold(np.zeros(max(0, due - self._arrived), np.float32))
        return self._rows(total)

    def _hold(self, samples: NDArray[np.float32]) -> None:
        skipped = min(self._skip, len(samples))
        self._skip -= skipped
        self._held = np.concatenate([self._held, samples[skipped:]])

    def _rows(self, total: int | None) -> Rows:
        rows = []
        while self._next < total if total is not None else self._clock.due(self._next) <= self._arrived:
            begin = self._clock.begin(self._next) - self._first
            window = self._held[begin : begin + self._clock.window]
            rows.append(self._network(window_input(window, self._network.input)))
            self._next += 1
        drop = min(self._clock.begin(self._next) - self._first, len(self._held))
        if drop > 0:
            self._held = self._held[drop:].copy()
            self._first += drop
        return np.stack(rows) if rows else np.zeros((0, self.spec.width), np.float32)


def network_extractor(
    name: str, network: Network, hop: float, options: Mapping[str, Option], align: Align
) -> AudioExtractor | VideoExtractor:
    """The extractor `name` of a network; its width is found by running the network once."""
    chosen = checked_options(name, network.input, options)
    chosen["output"] = network.output
    checksum = file_sha256(network.path)
    if network.input.kind == "video":
        height, width = network.input.picture_size
        dry = picture_input(np.zeros((height, width, 3), np.uint8), network.input, str(chosen["scale"]))
        return NetworkVideoExtractor(network, ExtractorSpec(name, "video", len(network(dry)), 0.0, chosen, checksum))
    rate = int(chosen["rate"])
    samples = network.input.shape[-1] or round(float(chosen["window"]) * rate)
    chosen["window"] = samples / rate
    dry = window_input(np.zeros(samples, np.float32), network.input)
    spec = ExtractorSpec(name, "audio", len(network(dry)), samples / rate, chosen, checksum)
    return NetworkAudioExtractor(network, spec, SampleClock(hop, rate, samples, align))
