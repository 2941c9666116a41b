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

from pipelines.features.audio.mel import slaney_filters

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
