"""How fast features are extracted: seconds of media per second of work, decoding to feature file.

    python benchmarks/extraction.py [--json] [--threads N] [--seconds S] [--repeats R] [--only NAME ...]

Every extractor runs on the same made-up recording (noise and a glide at 22,050 Hz; 320 × 240 pictures at 24 frames/s)
at 4 rows per second, with random weights where it needs weights that are not here: they cost the same time. Loading
networks is not counted. VGGish is also compared with the way that people use torchvggish for such features: the
front end and the network anew for each one-second window, every 0.2 s as for THUMOS14, on the same audio with the same
weights; the two take turns, and the rows are compared. EfficientNet-Lite0 is compared with its plain module in eager
mode, on pictures of 224 × 224 that are prepared already. The fastest of the repeats counts.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch

from pipelines.features.extraction.recording import Target, extract_recording
from pipelines.features.extraction.sources import Recording
from pipelines.features.files.feature_files import read_features
from pipelines.features.request import FeatureRequest
from pipelines.features.stream_factory import StreamFactory

AUDIO = ("logmel", "speech", "musicnn", "vggish")
VIDEO = ("efficientnet_lite0", "motion", "mobilenet_v2", "resnet50", "resnet50-flow")
JOINED = "resnet50+resnet50-flow+vggish"  # the paper's audio-visual input: 2048 + 2048 + 4096
WITHOUT_RANDOM = ("logmel", "musicnn", "speech", "efficientnet_lite0", "motion")  # needs no weights; have their weights
COMPARISONS = ("torchvggish", "eager")
PICTURES = 20  # of the comparison with eager mode
HOP = 0.2  # seconds, of the comparison
RATE = 16000  # Hz, of the comparison


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    parser.add_argument("--seconds", type=float, default=30.0, help="seconds of audio; videos have a fifth of it")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="extractors to run; 'torchvggish' and 'eager' are comparisons")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    wanted = arguments.only or [*AUDIO, *VIDEO, JOINED, *COMPARISONS]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        audio = _write_audio(folder / "audio.wav", arguments.seconds, 22050)
        video_seconds = max(1.0, arguments.seconds / 5)
        video = _write_video(folder / "video.mp4", video_seconds)
        extractors: dict[str, Any] = {}
        for features in (each for each in wanted if each not in COMPARISONS):
            with_video = features not in AUDIO
            path, seconds = (video, video_seconds) if with_video else (audio, arguments.seconds)
            extractors[features] = _real_time_factor(features, path, seconds, folder, arguments.repeats)
        comparison = (
            _against_torchvggish(folder, arguments.seconds, arguments.repeats) if "torchvggish" in wanted else None
        )
        eager = _against_eager(arguments.repeats) if "eager" in wanted else None
    result = {
        "machine": platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "threads": arguments.threads,
        "extractors": extractors,
        "vggish_against_torchvggish": comparison,
        "efficientnet_against_eager": eager,
    }
    if arguments.json:
        print(json.dumps(result, indent=2))
    else:
        _print(result)


def _real_time_factor(features: str, path: Path, seconds: float, folder: Path, repeats: int) -> dict[str, Any]:
    random = features not in WITHOUT_RANDOM
    options = {"output": "penultimate"} if features == JOINED else {}
    streams = StreamFactory(FeatureRequest(features, random_weights=random, options=options))
    spec = streams.prototype().spec  # loads the networks
    target = Target(folder / "out", "npy", "float32", force=True)

    def run() -> None:
        outcome = extract_recording(Recording(path, features), target, streams)
        assert outcome.status == "done", outcome.message

    taken = min(_timed(run) for _ in range(repeats))
    return {
        "real_time_factor": seconds / taken,
        "width": spec.width,
        "rows_per_second": 1 / spec.hop,
        "random_weights": random,
    }


def _against_torchvggish(folder: Path, seconds: float, repeats: int) -> dict[str, Any]:
    """Both from the same 16 kHz file to a feature file, with the same weights."""
    from torchvggish.torchvggish import _vgg

    torch.manual_seed(0)
    network = _vgg(postprocess=False).eval()
    torch.save(network.state_dict(), folder / "vggish.pth")
    path = _write_audio(folder / "speech.wav", seconds, RATE)
    options = FeatureRequest("vggish", hop=HOP, align="start", weights={"vggish": str(folder / "vggish.pth")})
    streams = StreamFactory(options)
    streams.prototype()
    target = Target(folder / "ours", "npy", "float32", force=True)

    def ours() -> None:
        outcome = extract_recording(Recording(path, "speech"), target, streams)
        assert outcome.status == "done", outcome.message

    def theirs() -> None:
        np.save(folder / "theirs.npy", _torchvggish_rows(network, path))

    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(repeats):  # in turns, so that a busy machine is busy for both
        times["ours"].append(_timed(ours))
        times["theirs"].append(_timed(theirs))
    rows, expected = read_features(folder / "ours/speech.npy").rows, np.load(folder / "theirs.npy")
    return {
        "hop": HOP,
        "rows": len(expected),
        "cotrans_seconds": min(times["ours"]),
        "torchvggish_seconds": min(times["theirs"]),
        "times_faster": min(times["theirs"]) / min(times["ours"]),
        "times_faster_per_turn": [b / a for a, b in zip(times["ours"], times["theirs"], strict=True)],
        "largest_difference": float(np.abs(rows - expected).max() / np.abs(expected).max()),
    }


@torch.inference_mode()
def _against_eager(repeats: int) -> dict[str, Any]:
    """Pictures per second of EfficientNet-Lite0 as it computes rows, and of the plain module, in turns."""
    from pipelines.features.video import build_video_extractor
    from pipelines.features.video.efficientnet import EfficientNetLite0
    from pipelines.features.video.efficientnet_runtime import fast_form
    from pipelines.features.video.key_tables import EFFICIENTNET_TABLES
    from pipelines.features.video.parameters import load_weights
    from pipelines.features.weights.registry import SHIPPED

    def plain() -> EfficientNetLite0:
        network = EfficientNetLite0()
        load_weights(network, "_fc", SHIPPED / "efficientnet_lite0.safetensors", EFFICIENTNET_TABLES)
        return network.eval().requires_grad_(False)

    module, fast = plain(), fast_form(plain(), "features", 224, "cpu")
    pictures = torch.randn(PICTURES, 1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    times: dict[str, list[float]] = {"eager": [], "fast": []}
    for _ in range(repeats + 1):  # the first turn warms up
        times["eager"].append(_timed(lambda: [module.embed(picture) for picture in pictures]))
        times["fast"].append(_timed(lambda: [fast(picture) for picture in pictures]))
    image = np.random.default_rng(0).integers(0, 255, (240, 320, 3), np.uint8)
    extractor = build_video_extractor("efficientnet_lite0")
    whole = min(_timed(lambda: [extractor.push(image[None]) for _ in range(PICTURES)]) for _ in range(repeats))
    return {
        "eager_per_second": PICTURES / min(times["eager"][1:]),
        "cotrans_per_second": PICTURES / min(times["fast"][1:]),
        "times_faster": min(times["eager"][1:]) / min(times["fast"][1:]),
        "with_scaling_per_second": PICTURES / whole,
        "largest_difference": max(float((fast(image) - module.embed(image)).abs().max()) for image in pictures[:3]),
    }


@torch.inference_mode()
def _torchvggish_rows(network: torch.nn.Module, path: Path) -> np.ndarray[Any, Any]:
    """Its own front end and network, one window at a time."""
    from torchvggish.vggish_input import waveform_to_examples

    samples, rate = soundfile.read(path)
    hop, count = round(HOP * rate), int(len(samples) / rate / HOP + 1e-9)
    padded = np.concatenate([samples, np.zeros(rate)])
    rows = []
    for index in range(count):
        examples = waveform_to_examples(padded[index * hop : index * hop + rate], rate)
        rows.append(network(examples)[0].numpy())
    return np.stack(rows)


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _write_audio(path: Path, seconds: float, rate: int) -> Path:
    times = np.arange(round(seconds * rate)) / rate
    noise = np.random.default_rng(0).standard_normal(len(times))
    soundfile.write(path, 0.3 * np.sin(2 * np.pi * (200 + 30 * times) * times) + 0.05 * noise, rate)
    return path


def _write_video(path: Path, seconds: float) -> Path:
    """Moving texture, with sound."""
    import av

    picture = np.random.default_rng(0).integers(0, 255, (240, 320, 3), np.uint8)
    picture = np.repeat(np.repeat(picture[::8, ::8], 8, 0), 8, 1)
    samples = (0.1 * np.random.default_rng(1).standard_normal(round(seconds * 44100))).astype(np.float32)
    with av.open(str(path), "w") as container:
        video, audio = container.add_stream("libx264", rate=24), container.add_stream("aac", rate=44100)
        video.width, video.height, video.pix_fmt = 320, 240, "yuv420p"
        for index in range(round(seconds * 24)):
            image = np.roll(picture, (index, 3 * index), (0, 1))
            container.mux(video.encode(av.VideoFrame.from_ndarray(image, "rgb24")))
        container.mux(video.encode(None))
        for begin in range(0, len(samples), 1024):
            block = av.AudioFrame.from_ndarray(samples[None, begin : begin + 1024], "fltp", "mono")
            block.sample_rate, block.pts = 44100, begin
            container.mux(audio.encode(block))
        container.mux(audio.encode(None))
    return path


def _print(result: dict[str, Any]) -> None:
    print(f"torch {result['torch']}, {result['threads']} thread(s)")
    print(f"\n{'extractor':32} {'width':>6} {'rows/s':>7} {'x real time':>12}  weights")
    for name, row in result["extractors"].items():
        weights = "random" if row["random_weights"] else "none needed" if name == "logmel" else "shipped"
        line = f"{name:32} {row['width']:6} {row['rows_per_second']:7.1f} {row['real_time_factor']:12.1f}"
        print(f"{line}  {weights}")
    if compared := result["efficientnet_against_eager"]:
        print("\nEfficientNet-Lite0, pictures of 224 x 224 per second")
        print(f"  plain module, eager                {compared['eager_per_second']:8.1f}")
        print(f"  cotrans                            {compared['cotrans_per_second']:8.1f}")
        print(f"  faster by                          {compared['times_faster']:8.2f} x")
        print(f"  cotrans, from pictures of 320 x 240 {compared['with_scaling_per_second']:7.1f}")
        print(f"  largest difference of the rows     {compared['largest_difference']:8.1e}")
    if compared := result["vggish_against_torchvggish"]:
        print(f"\nVGGish, {compared['rows']} windows of 1.0 s every {compared['hop']} s, random weights")
        print(f"  torchvggish, one window at a time  {compared['torchvggish_seconds']:8.2f} s")
        print(f"  cotrans                            {compared['cotrans_seconds']:8.2f} s")
        turns = ", ".join(f"{ratio:.2f}" for ratio in compared["times_faster_per_turn"])
        print(f"  faster by                          {compared['times_faster']:8.2f} x  (turn by turn: {turns})")
        print(f"  largest difference of the rows     {compared['largest_difference']:8.1e}  (of the largest number)")


if __name__ == "__main__":
    main()
