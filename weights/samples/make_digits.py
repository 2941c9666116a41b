"""Makes `digits/`: one take of every digit by every speaker, out of the free spoken digit dataset.

python weights/samples/make_digits.py RECORDINGS   (a folder of DIGIT_SPEAKER_TAKE.wav or .flac)
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import soundfile

TARGET = Path(__file__).parent / "digits"
TAKE = 7  # an arbitrary one, the same for everybody
NAME = re.compile(r"(\d)_([a-z]+)_(\d+)")


def main(recordings: Path) -> int:
    TARGET.mkdir(exist_ok=True)
    count = 0
    for path in sorted(recordings.iterdir()):
        match = NAME.fullmatch(path.stem)
        if match is None or int(match[3]) != TAKE:
            continue
        samples, rate = soundfile.read(path, dtype="int16")
        soundfile.write(TARGET / f"{path.stem}.flac", samples, rate, subtype="PCM_16")
        count += 1
    return count


if __name__ == "__main__":
    sys.stdout.write(f"{main(Path(sys.argv[1]))} recordings\n")
