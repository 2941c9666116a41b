"""Raw sound from a pipe."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.errors import InputError, UsageError
from pipelines.streaming.options import SAMPLE_FORMATS, PcmOptions
from pipelines.streaming.sources.pcm import PcmReader, mono
from tests.streaming.made_streams import chirp, played, scores_of, small_model, write_sound


def encoded(samples: np.ndarray[Any, Any], sample_format: str) -> bytes:
    """float samples in [-1, 1] as raw bytes."""
    if sample_format == "u8":
        return np.round(samples * 128 + 128).clip(0, 255).astype("u1").tobytes()
    if sample_format == "s24le":
        wide = np.round(samples.astype(np.float64) * 2**23).clip(-(2**23), 2**23 - 1).astype("<i4")
        return wide.reshape(-1, 1).view("u1")[:, :3].tobytes()
    kind = {"s": "i", "f": "f"}[sample_format[0]]
    bits = int(sample_format[1:3])
    order = "<" if sample_format.endswith("le") else ">"
    values = samples.astype(np.float64)
    if kind == "i":
        top = 2.0 ** (bits - 1)
        values = np.round(values * top).clip(-top, top - 1)
    return values.astype(f"{order}{kind}{bits // 8}").tobytes()


@pytest.mark.parametrize("sample_format", SAMPLE_FORMATS)
def test_every_sample_format_gives_the_same_sound(sample_format: str) -> None:
    samples = chirp(0.1, 8000)
    left_right = np.stack([samples, -0.5 * samples], axis=1).ravel()
    precision = 2.0**-7 if sample_format == "u8" else 2.0**-14
    single = mono(encoded(samples, sample_format), PcmOptions(8000, 1, sample_format))
    np.testing.assert_allclose(single, samples, atol=precision)
    joined = mono(encoded(left_right, sample_format), PcmOptions(8000, 2, sample_format))
    np.testing.assert_allclose(joined, 0.25 * samples, atol=precision)


def test_a_pipe_in_small_pieces_that_closes_within_a_sample() -> None:
    read, write = os.pipe()
    samples = chirp(0.5, 8000)
    data = encoded(samples, "s16le") + b"\x01"

    def feed() -> None:
        with os.fdopen(write, "wb", buffering=0) as pipe:
            for begin in range(0, len(data), 777):
                pipe.write(data[begin : begin + 777])

    thread = threading.Thread(target=feed)
    thread.start()
    with os.fdopen(read, "rb") as pipe:
        blocks = list(PcmReader(pipe, PcmOptions(8000), threading.Event()))
    thread.join()
    np.testing.assert_allclose(np.concatenate([block.samples for block in blocks]), samples, atol=2.0**-14)
    ends = [block.end for block in blocks]
    assert [block.time for block in blocks[1:]] == pytest.approx(ends[:-1])


def test_an_empty_pipe_and_wrong_options() -> None:
    with pytest.raises(InputError, match="no sound came"):
        list(PcmReader(io.BytesIO(b""), PcmOptions(8000), threading.Event()))
    with pytest.raises(UsageError, match="unknown --sample-format 's17le': choose from u8, s16le"):
        PcmOptions(8000, 1, "s17le")


def test_a_pipe_gives_what_the_file_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = write_sound(tmp_path / "a.wav", 2.0)
    model = small_model(tmp_path, "logmel", hop=0.1)
    raw = np.rint(chirp(2.0, 16_000) * 32767).astype("<i2").tobytes()  # as the file was written
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))
    piped = played(["-"], model, fast=False, pcm=PcmOptions(16_000))
    np.testing.assert_allclose(scores_of(piped), scores_of(played([sound], model)), atol=1e-5)
    assert {prediction.source for prediction in piped} == {"-"}
    # A whole file through the pipe needs no options: it says itself what it is.
    with sound.open("rb") as file:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(file))
        whole = played(["-"], model)
    np.testing.assert_allclose(scores_of(whole), scores_of(piped), atol=1e-5)
