"""Writes speech_embedding.npz: what the original ONNX files of the speech embedding give for windows of sound.

python tests/golden/make_speech.py openwakeword-0.5.1-py3-none-any.whl speech.wav

The recording is 16 kHz, mono, 16 bits; ours was made by
`espeak-ng -v en-gb -w a.wav "seven eight nine"; sox a.wav -r 16000 -b 16 speech.wav trim 0 1.6`.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import numpy as np
import onnxruntime
import soundfile

MODELS = "openwakeword/resources/models/"
WINDOW, HOP = 512 + 75 * 160, 1280  # samples: 76 frames; 80 ms


def main(wheel: str, recording: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        mel, embedding = (
            onnxruntime.InferenceSession(archive.read(f"{model}.onnx"), providers=["CPUExecutionProvider"])
            for model in (f"{MODELS}melspectrogram", f"{MODELS}embedding_model")
        )

    def frames(samples: np.ndarray) -> np.ndarray:
        """16-bit numbers as floats (samples,) to (frames, 32), scaled as openwakeword does."""
        return mel.run(None, {"input": samples[None]})[0][0, 0] / 10 + 2

    def rows(windows: list[np.ndarray]) -> np.ndarray:
        return embedding.run(None, {"input_1": np.stack(windows)[..., None]})[0][:, 0, 0]

    speech, _ = soundfile.read(recording, dtype="int16")
    generator = np.random.default_rng(0)
    noise = (generator.standard_normal(len(speech)) * 1000).astype(np.int16)
    hiss = (generator.standard_normal(len(speech)) * 10).astype(np.int16)
    sounds = {
        "speech": speech,  # with digital silence around it
        "noise": noise,
        "silence": np.zeros_like(speech),
        "noisy": speech // 2 + hiss,
    }
    golden = {}
    for name, samples in sounds.items():
        values = samples.astype(np.float32)
        begins = range(0, len(values) - WINDOW + 1, HOP)
        golden[f"{name}_samples"] = samples
        golden[f"{name}_rows"] = rows([frames(values[begin : begin + WINDOW]) for begin in begins])
        whole = frames(values)
        golden[f"{name}_whole"] = rows([whole[begin // 160 :][:76] for begin in begins])
    np.savez_compressed(Path(__file__).parent / "speech_embedding.npz", **golden)


if __name__ == "__main__":
    main(*sys.argv[1:])
