"""A recording of two hours, in one go and in pieces, with every extractor: are the rows the same, what does it cost?

    python benchmarks/pieces.py                     all extractors that need no download, random weights where they do
    python benchmarks/pieces.py logmel speech yamnet --hop 0.25 --weights yamnet=yamnet.tflite
    python benchmarks/pieces.py musicnn,network=mtt logmel,level=relative       with options of the extractor
    python benchmarks/pieces.py --folder /tmp/pieces        goes on where it was ended: what is in its table is done

The hop is long by default, and longer for networks of pictures, so that they are done in minutes; what is compared does
not depend on it. Pieces are extracted one after the other: the time of the longest is what enough workers would take.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import av
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from pipelines.features.extraction.pieces import extract_piece, join_pieces, plan_pieces
from pipelines.features.extraction.recording import Target, extract_recording
from pipelines.features.extraction.sources import Recording
from pipelines.features.request import FeatureRequest, parse_options, parse_weights
from pipelines.features.stream_factory import EXTRACTORS, StreamFactory

HOURS = 2.0
RATE = 22_050  # Hz of the sound
FRAMES = 5  # per second of video
NEEDS_DOWNLOAD = ("vggish", "resnet50", "mobilenet_v2", "resnet50-flow")
# Cheapest first, so that most of the table is there early.
HOPS = {"logmel": 10.0, "motion": 10.0, "speech": 10.0, "musicnn": 10.0}
LONG_HOP = 60.0  # of the others
HEADER = (
    "| extractor | hop (s) | rows | pieces | the same | one go (s) | longest piece (s) |",
    "| --- | ---: | ---: | ---: | --- | ---: | ---: |",
)


def write_recording(path: Path, seconds: float) -> Path:
    """Pictures that move, and a tone that glides through noise: no two stretches alike."""
    generator = np.random.default_rng(0)
    background = generator.integers(0, 255, (48, 64, 3), np.uint8)
    with av.open(str(path), "w") as container:
        pictures = container.add_stream("mpeg4", rate=FRAMES)
        pictures.width, pictures.height, pictures.pix_fmt = 64, 48, "yuv420p"
        track = container.add_stream("aac", rate=RATE)
        container.start_encoding()
        for second in range(int(seconds)):
            for index in range(FRAMES * second, FRAMES * (second + 1)):
                image = np.roll(background, (index, 2 * index), (0, 1))
                container.mux(pictures.encode(av.VideoFrame.from_ndarray(image, "rgb24")))
            times = second + np.arange(RATE) / RATE
            glide = np.sin(2 * np.pi * (200 + 0.05 * times) * times)
            samples = (0.3 * glide + 0.05 * generator.standard_normal(RATE)).astype(np.float32)
            frame = av.AudioFrame.from_ndarray(samples[None], "fltp", "mono")
            frame.sample_rate, frame.pts = RATE, second * RATE
            container.mux(track.encode(frame))
        container.mux(pictures.encode(None))
        container.mux(track.encode(None))
    return path


def compare(path: Path, folder: Path, streams: StreamFactory, title: str) -> str:
    """A row of the table, under this title."""
    recording = Recording(path, path.stem)
    targets = [Target(folder / name, "npy", "float32", True) for name in ("whole", "pieces")]
    began = time.process_time()
    whole = extract_recording(recording, targets[0], streams)
    alone = time.process_time() - began
    pieces, results, times = plan_pieces(recording, streams), [], []
    for piece in pieces:
        began = time.process_time()
        results.append(extract_piece(recording, targets[1], streams, piece))
        times.append(time.process_time() - began)
    joined = join_pieces(recording, targets[1], streams, pieces, results)
    names = sorted(file.name for file in targets[0].folder.iterdir())
    same = joined is not None and all(
        (targets[0].folder / name).read_bytes() == (targets[1].folder / name).read_bytes() for name in names
    )
    verdict = "byte for byte" if same else "NOT THE SAME"
    hop = f"{streams.prototype().spec.hop:g}"
    seconds = (f"{alone:.1f}", f"{max(times, default=0):.1f}")
    return f"| {' | '.join(map(str, (title, hop, whole.rows, len(pieces), verdict, *seconds)))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    # Those of librosa are one request, in one pass: a file with the columns of all of them.
    librosa = "+".join(name for name in EXTRACTORS if name.startswith("librosa:"))
    rest = [name for name in reversed(EXTRACTORS) if name not in (*HOPS, "yamnet") and not name.startswith("librosa:")]
    parser.add_argument("names", nargs="*", default=[*HOPS, librosa, *rest])
    parser.add_argument("--hop", type=float, help="seconds between rows (default: 10, or 60 of large networks)")
    parser.add_argument("--hours", type=float, default=HOURS)
    parser.add_argument("--weights", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--folder", type=Path, help="keep the recording and the table there, and go on from them")
    arguments = parser.parse_args()
    given = parse_weights(arguments.weights)
    with tempfile.TemporaryDirectory() as name:
        folder = arguments.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        path, table = folder / f"recording-{arguments.hours:g}h.mp4", folder / "table.md"
        if not path.exists():
            write_recording(path.with_name("part.mp4"), 3600 * arguments.hours).rename(path)
        if not table.exists():
            table.write_text("\n".join(HEADER) + "\n")
        done = table.read_text()
        print(done, end="", flush=True)
        for title in arguments.names:
            if f"| {title} |" in done:
                continue
            extractor, *options = title.split(",")
            weights = {key: file for key, file in given.items() if key == extractor}
            request = FeatureRequest(
                extractor,
                hop=arguments.hop or HOPS.get(extractor, LONG_HOP),
                options=parse_options(options),
                weights=weights,
                random_weights=extractor in NEEDS_DOWNLOAD and not weights,
            )
            with tempfile.TemporaryDirectory() as place:
                row = compare(path, Path(place), StreamFactory(request, "cpu"), title)
            with table.open("a") as file:
                file.write(row + "\n")
            print(row, flush=True)


if __name__ == "__main__":
    main()
