"""Our mel filters are librosa's, for any rate, number of bands and range; and nobody pays for librosa's import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.features.audio.mel import general_front_end, slaney_filters, speech_front_end

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("librosa", "scipy", "matplotlib", "numba", "pandas", "sklearn", "resampy")


@settings(max_examples=40, deadline=None)
@given(
    rate=st.sampled_from([8000, 16000, 22050, 44100]),
    power=st.integers(8, 12),
    bands=st.integers(1, 128),
    lowest=st.floats(0.0, 1500.0),
    share=st.floats(0.5, 1.0),
)
def test_filters_are_librosas(rate: int, power: int, bands: int, lowest: float, share: float) -> None:
    import warnings

    import librosa

    highest = share * rate / 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about empty bands
        theirs = librosa.filters.mel(sr=rate, n_fft=2**power, n_mels=bands, fmin=lowest, fmax=highest, dtype=np.float64)
    np.testing.assert_allclose(slaney_filters(rate, 2**power, bands, lowest, highest), theirs.T, rtol=1e-9, atol=1e-15)


def test_a_stream_of_sound_imports_nothing_that_it_does_not_use() -> None:
    """Must show 3 of the floor plan: `cotrans stream weights/demo/demo.ogg --fast -q`."""
    script = (
        "import json, sys; from cotrans_cli.main import run\n"
        "code = run(['stream', 'weights/demo/demo.ogg', '--fast', '-q'])\n"
        "print(json.dumps([code, sorted({name.partition('.')[0] for name in sys.modules})]), file=sys.stderr)"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    code, modules = json.loads(done.stderr.splitlines()[-1])
    assert code == 0 and done.stdout
    assert not set(HEAVY) & set(modules)


def test_frames_of_several_streams_are_those_of_each_alone() -> None:
    """Of no frame, of one, of as many as another stream and of more than a block."""
    generator = np.random.default_rng(0)
    lengths = (0, 400, 512, 512, 1792, 1800, 1951, 512 + 160 * 200)
    for front_end in (speech_front_end(), general_front_end(16_000, 64, 40.0, 8000.0, 400, 160)):
        sounds = [generator.normal(0, 0.1, length).astype(np.float32) for length in lengths]
        together = front_end.frames_together(sounds)
        assert len(together) == len(sounds)
        for sound, frames in zip(sounds, together, strict=True):
            alone = front_end.frames(sound)
            assert frames.shape == alone.shape and frames.dtype == np.float32
            np.testing.assert_allclose(frames, alone, rtol=1e-6, atol=1e-6)
