"""Every reader of files that nobody vouches for, with good files to start from."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pipelines.checkpoints.checkpoint import load_checkpoint
from pipelines.checkpoints.description import describe
from pipelines.checkpoints.labels import read_labels
from pipelines.evaluation.scores.predictions import read_predictions
from pipelines.features.audio.musicnn.tensorflow_checkpoint import TensorflowCheckpoint
from pipelines.features.extraction.sources import find_recordings
from pipelines.features.files.feature_files import Manifest, Source, read_features, read_manifest
from pipelines.features.media.playlist import check_playlist
from pipelines.features.spec import ExtractorSpec, FeatureSpec
from pipelines.features.weights.reading import read_weight_file
from pipelines.features.weights.registry import SHIPPED, read_registry
from pipelines.settings import load_settings
from pipelines.streaming.predicting.snapshots import load_snapshot
from pipelines.training.recipes.recipe_file import parse_recipe, recipe_text
from pipelines.untrusted.archives import unpack
from pipelines.untrusted.safe_pickle import load_pickle
from pipelines.untrusted.toml import load_toml
from pipelines.untrusted.torch_file import read_torch_file
from pipelines.untrusted.yaml_file import load_yaml
from tests.features.tensorflow_bundle import write_bundle
from tests.streaming.made_streams import played, small_model, write_model, write_rows
from tests.training.training_problems import tiny_recipe


@dataclass(frozen=True)
class Parser:
    """A reader and what it reads."""

    suffix: str
    read: Callable[[Path], Any]
    seeds: tuple[bytes, ...]


def all_parsers(folder: Path) -> dict[str, Parser]:
    """By name. folder: for files that have to be written to get their bytes."""
    model = small_model(folder)
    rows = folder / "seed.npy"
    write_rows(rows, 12)
    played([rows], model, snapshot=folder / "state")
    checkpoint = write_model(folder / "seed.safetensors", "logmel").read_bytes()
    tensors = {"a.weight": torch.ones(3, 4), "b": torch.zeros(2, dtype=torch.int64)}
    torch_seeds = (_torch(tensors, True), _torch({"model": tensors, "epoch": 3, "args": [1, "x"]}, True))
    legacy_seeds = (_torch(tensors, False), _torch({"model": tensors, "names": ("x", 2.5)}, False))
    arrays = {"a": np.ones((3, 4), np.float32), "n": {"fps": 4}}
    pickles = tuple(pickle.dumps({"video": arrays, "l": [1, 2.5, None]}, protocol) for protocol in range(6))
    index = write_bundle({"net/w": np.ones((3, 4), np.float32), "net/b": np.zeros(4, np.float32)})[0]
    spec = FeatureSpec((ExtractorSpec("logmel", "audio", 6, 0.1, {"n_mels": 3}),), 0.1)
    manifest = Manifest(spec, Source("a.wav", 10, "ab" * 16, 1.0), 12, "float32", "npy").to_json().encode()
    recipe = recipe_text(tiny_recipe()).encode()

    def unpacked(path: Path) -> None:
        unpack(path, path.with_suffix(".out"), lambda name: f"{abs(hash(name))}", 1 << 20)

    def bundle(path: Path) -> None:
        TensorflowCheckpoint(path.read_bytes(), lambda shard: b"\0" * 64).tensor("net/w")

    return {
        "npy": Parser(".npy", read_features, (rows.read_bytes(), _npy(np.zeros((0, 3), np.float16)))),
        "npz predictions": Parser(".npz", read_predictions, (_predictions(), _predictions(compressed=True))),
        "npz weights": Parser(".npz", read_weight_file, (_npz(a=np.ones(3)), _npz(True, a=np.ones((30, 30))))),
        "pth": Parser(".pth", read_torch_file, torch_seeds),
        "legacy pth": Parser(".pth", read_torch_file, legacy_seeds),
        "weights pth": Parser(".pth", lambda path: read_weight_file(path, arrays=True), (*torch_seeds, *legacy_seeds)),
        "pickle": Parser(".pickle", load_pickle, pickles),
        "checkpoint": Parser(".safetensors", load_checkpoint, (checkpoint,)),
        "info": Parser(".pth", describe, (checkpoint, *torch_seeds, *legacy_seeds, *pickles[:2])),
        "snapshot": Parser("", lambda path: load_snapshot(path, model.model), ((folder / "state").read_bytes(),)),
        "manifest": Parser(".json", read_manifest, (manifest,)),
        "recipe": Parser(".toml", lambda path: parse_recipe(path.read_text("utf-8", "replace"), path.name), (recipe,)),
        "toml": Parser(".toml", load_toml, (recipe, b'a = [1, 2.5, "x"]\n[b.c]\nd = 1979-05-27T07:32:00Z\n')),
        "settings": Parser(".toml", load_settings, (b'device = "cpu"\nthreads = 2\ncache = "~/x"\n',)),
        "registry": Parser(".toml", read_registry, ((SHIPPED / "registry.toml").read_bytes()[:3000],)),
        "yaml": Parser(".yaml", load_yaml, (b"MODEL:\n  LSTR:\n    A: [1, 2]\n    B: {c: 1.5}\nNAME: x\n",)),
        "labels json": Parser(".json", read_labels, (b'["a", "b", "c"]',)),
        "labels": Parser(".txt", read_labels, (b"cat\ndog\n# x\n\xc3\xa4\n",)),
        "list": Parser(".txt", lambda path: find_recordings([str(path)]), (b"a.wav\n# x\nb/c.wav\n",)),
        "tensorflow": Parser(".index", bundle, (index,)),
        "archive": Parser(".zip", unpacked, (_zip(), _tar())),
        "playlist": Parser(".mp4", check_playlist, (b"#EXTM3U\n#EXTINF:1,\na.ts\n", b"ffconcat version 1.0\nfile a\n")),
    }  # fmt: skip


def _torch(value: Any, archive: bool) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer, _use_new_zipfile_serialization=archive)
    return buffer.getvalue()


def _npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _npz(compressed: bool = False, **arrays: Any) -> bytes:
    buffer = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(buffer, **arrays)
    return buffer.getvalue()


def _predictions(compressed: bool = False) -> bytes:
    scores = np.random.default_rng(0).random((6, 3))
    video = np.array(["a", "a", "b", "b", "b", "b"])
    return _npz(compressed, scores=scores, label=np.eye(3)[[0, 1, 2, 0, 1, 2]], video=video)


def _zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/b.txt", "text" * 100)
        archive.writestr("c.json", json.dumps([1, 2]))
    return buffer.getvalue()


def _tar() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        entry = tarfile.TarInfo("a/b.txt")
        entry.size = 400
        archive.addfile(entry, io.BytesIO(b"text" * 100))
    return buffer.getvalue()
