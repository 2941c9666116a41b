"""`onnx:FILE`: any network that maps an audio window or a picture to a vector, through onnxruntime.

The shape of the network's input says which it is: (1, 3, height, width) and (1, height, width, 3) take a picture,
(samples,), (1, samples) and (1, 1, samples) a window of mono audio. What the shape leaves open are options.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import CheckpointError, InputError, MissingDependencyError, UsageError
from pipelines.features.audio.row_samples import SampleClock
from pipelines.features.extractor import AudioExtractor, Rows, VideoExtractor
from pipelines.features.row_clock import FrameChoice
from pipelines.features.spec import Align, ExtractorSpec, Kind, Option
from pipelines.features.video.preprocessing import IMAGENET_DEVIATION, IMAGENET_MEAN, resize_and_crop
from pipelines.files import file_sha256

PREFIX = "onnx:"
USUAL_SIDE = 224  # pixels, where the network takes pictures of any size
AUDIO_OPTIONS: Mapping[str, Option] = {"rate": 16_000, "window": 1.0, "output": ""}  # Hz; seconds; "" is the first
VIDEO_OPTIONS: Mapping[str, Option] = {"scale": "imagenet", "frame": "centre", "output": ""}
CHOICES = {"scale": ("imagenet", "unit", "signed", "raw"), "frame": get_args(FrameChoice)}
ELEMENT_TYPES: Mapping[str, type[np.floating[Any]]] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
}


@dataclass(frozen=True)
class NetworkInput:
    """The one input of a network; a dimension is None where any length will do."""

    name: str
    kind: Kind
    shape: tuple[int | None, ...]
    dtype: type[np.floating[Any]]

    @property
    def channels_last(self) -> bool:
        return self.kind == "video" and self.shape[1] != 3

    @property
    def picture_size(self) -> tuple[int, int]:
        """Height and width."""
        height, width = self.shape[1:3] if self.channels_last else self.shape[2:4]
        return height or USUAL_SIDE, width or USUAL_SIDE


class OnnxNetwork:
    """An onnxruntime session from one array to one vector."""

    def __init__(self, path: Path, output: str = "") -> None:
        self.path = path
        self._session = _open_session(path)
        self.input = _describe_input(path, self._session)
        names = [value.name for value in self._session.get_outputs()]
        if output and output not in names:
            raise UsageError(f"{path}: has no output '{output}': choose from {', '.join(names)}")
        self.output = output or names[0]

    def __call__(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """An array of the input's shape -> (width,)."""
        try:
            (result,) = self._session.run([self.output], {self.input.name: values.astype(self.input.dtype)})
        except Exception as error:  # onnxruntime has no common base for its errors
            line = str(error).strip().splitlines()[0]
            raise CheckpointError(
                f"{self.path}: the network does not run on its input {values.shape}: {line}"
            ) from error
        vector = np.asarray(result)
        if not np.issubdtype(vector.dtype, np.number):
            raise CheckpointError(f"{self.path}: output '{self.output}' is not numbers; choose another with `output`")
        return vector.astype(np.float32).reshape(-1)


class OnnxVideoExtractor:
    """One picture per row."""

    frames_per_row = 1

    def __init__(self, network: OnnxNetwork, spec: ExtractorSpec) -> None:
        self.spec = spec
        self._network = network

    def push(self, frames: NDArray[np.uint8]) -> Rows:
        """(rows, height, width, 3) RGB -> (rows, width)."""
        scale = str(self.spec.options["scale"])
        rows = [self._network(picture_input(frame, self._network.input, scale)) for frame in frames]
        return np.stack(rows) if rows else np.zeros((0, self.spec.width), np.float32)


class OnnxAudioExtractor:
    """One window of samples per row; silence stands before the start and after the end."""

    def __init__(self, network: OnnxNetwork, spec: ExtractorSpec, clock: SampleClock) -> None:
        self.spec = spec
        self.sample_rate = clock.sample_rate
        self._network = network
        self._clock = clock
        self._first = clock.begin(0)  # index of the first sample that is held
        self._held: NDArray[np.float32] = np.zeros(max(0, -self._first), np.float32)
        self._skip = max(0, self._first)
        self._arrived = 0  # samples
        self._next = 0  # the first row that has not been given
        self._ended = False

    def fresh(self) -> OnnxAudioExtractor:
        """The same extractor at the start of another stream; the session is shared."""
        return OnnxAudioExtractor(self._network, self.spec, self._clock)

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
            rows.append(self._network(window.reshape((1,) * (len(self._network.input.shape) - 1) + (-1,))))
            self._next += 1
        drop = min(self._clock.begin(self._next) - self._first, len(self._held))
        if drop > 0:
            self._held = self._held[drop:].copy()
            self._first += drop
        return np.stack(rows) if rows else np.zeros((0, self.spec.width), np.float32)


def is_onnx(name: str) -> bool:
    return name.startswith(PREFIX)


def onnx_options(name: str) -> dict[str, Option]:
    """The options of `onnx:FILE` and their defaults, which depend on what the network takes."""
    return dict(AUDIO_OPTIONS if OnnxNetwork(_path(name)).input.kind == "audio" else VIDEO_OPTIONS)


def build_onnx_extractor(
    name: str, hop: float, options: Mapping[str, Option] | None = None, align: Align = "causal"
) -> AudioExtractor | VideoExtractor:
    """The extractor for `onnx:FILE`; its width is found by running the network once."""
    path = _path(name)
    network = OnnxNetwork(path, str((options or {}).get("output", "")))
    chosen = _checked(name, AUDIO_OPTIONS if network.input.kind == "audio" else VIDEO_OPTIONS, options or {})
    chosen["output"] = network.output
    if network.input.kind == "video":
        height, width = network.input.picture_size
        dry = picture_input(np.zeros((height, width, 3), np.uint8), network.input, str(chosen["scale"]))
        spec = ExtractorSpec(name, "video", len(network(dry)), 0.0, chosen, file_sha256(path))
        return OnnxVideoExtractor(network, spec)
    rate = int(chosen["rate"])
    samples = network.input.shape[-1] or round(float(chosen["window"]) * rate)
    chosen["window"] = samples / rate
    dry = np.zeros((1,) * (len(network.input.shape) - 1) + (samples,), np.float32)
    spec = ExtractorSpec(name, "audio", len(network(dry)), samples / rate, chosen, file_sha256(path))
    return OnnxAudioExtractor(network, spec, SampleClock(hop, rate, samples, align))


def picture_input(image: NDArray[np.uint8], wanted: NetworkInput, scale: str) -> NDArray[np.float32]:
    """(h, w, 3) RGB -> the network's input: resized to cover its size, centre-cropped, scaled."""
    scaled = resize_and_crop(image, wanted.picture_size).astype(np.float64)
    if scale == "imagenet":
        scaled = (scaled / 255 - np.array(IMAGENET_MEAN)) / np.array(IMAGENET_DEVIATION)
    elif scale == "unit":
        scaled = scaled / 255
    elif scale == "signed":
        scaled = scaled / 127.5 - 1
    pixels = scaled.astype(np.float32)
    return pixels[None] if wanted.channels_last else np.ascontiguousarray(pixels.transpose(2, 0, 1))[None]


def _path(name: str) -> Path:
    path = Path(name.removeprefix(PREFIX))
    if not is_onnx(name) or not str(path):
        raise UsageError(f"'{name}' is not onnx:FILE")
    if not path.is_file():
        raise InputError(f"{path}: no such ONNX file")
    return path


def _open_session(path: Path) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingDependencyError("ONNX extractors need onnxruntime: pip install 'cotrans[onnx]'") from error
    import torch

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = torch.get_num_threads()
    settings.log_severity_level = 4  # what is wrong is raised; nothing is printed
    try:
        return onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has no common base for its errors
        line = str(error).strip().splitlines()[0]
        raise CheckpointError(f"{path}: not an ONNX network that onnxruntime can load: {line}") from error


def _describe_input(path: Path, session: Any) -> NetworkInput:
    inputs = session.get_inputs()
    if len(inputs) != 1:
        names = ", ".join(value.name for value in inputs)
        raise CheckpointError(f"{path}: a feature network has one input, this one has {len(inputs)} ({names})")
    value = inputs[0]
    shape = tuple(size if isinstance(size, int) and size > 0 else None for size in value.shape)
    dtype = ELEMENT_TYPES.get(value.type)
    picture = len(shape) == 4 and 3 in (shape[1], shape[3])
    window = len(shape) in (1, 2, 3) and all(size in (1, None) for size in shape[:-1])
    if dtype is None or not (picture or window) or (picture and shape[0] not in (1, None)):
        raise CheckpointError(
            f"{path}: its input {value.name} {list(value.shape)} {value.type} is neither a picture (1, 3, h, w) nor an "
            "audio window (1, samples) of floating-point numbers"
        )
    return NetworkInput(value.name, "video" if picture else "audio", shape, dtype)


def _checked(name: str, known: Mapping[str, Option], options: Mapping[str, Option]) -> dict[str, Option]:
    chosen = dict(known)
    for key, value in options.items():
        if key not in known:
            raise UsageError(f"{name} has no option '{key}': choose from {', '.join(known)}")
        if key in CHOICES and value not in CHOICES[key]:
            raise UsageError(f"option {key} of {name}: '{value}' is not one of {', '.join(CHOICES[key])}")
        if key in ("rate", "window"):
            try:
                value = type(known[key])(value)
            except (ValueError, OverflowError) as error:
                raise UsageError(f"option {key} of {name} must be a number, not '{value}'") from error
            if not 0 < float(value) < math.inf:
                raise UsageError(f"option {key} of {name} must be positive, not {value}")
        chosen[key] = value
    return chosen
