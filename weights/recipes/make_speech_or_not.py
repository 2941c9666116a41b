"""Makes weights/speech_or_not.safetensors: which sound is speech, one line through the rows of the speech network.

python weights/recipes/make_speech_or_not.py ESC10/ weights/speech_or_not.safetensors

Speech is the digits that ship, one after the other (48 made sounds); what is not are the clips of a folder without
speech (ESC-10) and the other made sounds. A clip counts by the mean of its rows. Prints for each class of the folder
how many of its clips are taken for speech by a line that was fitted without it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from pipelines.checkpoints.checkpoint import save_checkpoint
from pipelines.datasets.mixing.foreign_sound import foreign_sounds
from pipelines.datasets.mixing.spoken_sounds import spoken_sounds
from pipelines.features.extraction.sources import find_recordings
from pipelines.features.request import FeatureRequest
from pipelines.features.stream_factory import StreamFactory
from pipelines.model.per_frame import PerFrameModel
from pipelines.model.per_frame_config import PerFrameConfig
from pipelines.training.none_of_these.foreign import Foreign
from pipelines.training.none_of_these.voices import HOP, SECONDS, clip_rows, judged

C = 0.003  # the smaller, the simpler the line; chosen on voices and words of no part of it (docs/results.md)
SPOKEN = 48
PROVENANCE = {
    "source": "Free Spoken Digit Dataset (CC BY-SA 4.0), ESC-10 (CC BY)",
    "licence": "CC BY-SA 4.0",
    "command": "make_speech_or_not.py",
}

Means = NDArray[np.float32]  # (clips, 96)


def make_speech_or_not(folder: Path, target: Path) -> None:
    factory = StreamFactory(FeatureRequest("speech", hop=HOP), "cpu")
    speech, made = (
        np.stack([_mean(Foreign(sound).rows(factory.prototype())) for sound in sounds])
        for sounds in (spoken_sounds(SECONDS, SPOKEN), foreign_sounds(SECONDS))
    )
    found = find_recordings([str(folder)]).recordings
    clips = np.stack([_mean(clip_rows(recording.path, factory)) for recording in found])
    labels = np.array([recording.path.parent.name for recording in found])
    for label in sorted(set(labels)):
        weight, bias = _fitted(speech, np.concatenate([clips[labels != label], made]))
        share = (clips[labels == label] @ weight + bias > 0).mean()
        sys.stdout.write(f"{label}: {share:.1%} of {(labels == label).sum()}\n")
    weight, bias = _fitted(speech, np.concatenate([clips, made]))
    model = PerFrameModel(PerFrameConfig(input_width=len(weight), classes=2))
    with torch.no_grad():
        model.classifier.weight.copy_(torch.from_numpy(np.stack([weight, np.zeros_like(weight)])))
        model.classifier.bias.copy_(torch.tensor([bias, 0.0]))
    features = factory.prototype().spec
    save_checkpoint(target, model.eval(), ("speech", "other sound"), features, PROVENANCE)


def _mean(rows: Means) -> Means:
    return np.asarray(judged(rows).mean(0))


def _fitted(speech: Means, other: Means) -> tuple[NDArray[np.float64], float]:
    """The line w · x + b, above 0 for speech. Both kinds weigh the same."""
    means = np.concatenate([speech, other]).astype(np.float64)
    weights = np.concatenate([np.full(len(part), len(means) / 2 / len(part)) for part in (speech, other)])
    centre, scale = means.mean(0), means.std(0)
    wanted = np.arange(len(means)) < len(speech)
    line = LogisticRegression(C=C, max_iter=3000).fit((means - centre) / scale, wanted, sample_weight=weights)
    weight = line.coef_[0] / scale
    return weight, float(line.intercept_[0] - weight @ centre)


if __name__ == "__main__":
    torch.set_num_threads(1)
    make_speech_or_not(Path(sys.argv[1]), Path(sys.argv[2]))
