"""Which classes of clips sound like speech: one line through what the speech network hears tells it from other sound.

Speech is everywhere, so a model of anything else should have no name for it; a model of words, or one that tells speech
from music, should. The clips decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from pipelines.checkpoints.checkpoint import load_checkpoint
from pipelines.datasets.item import Item
from pipelines.datasets.rows.feature_cache import OnItem
from pipelines.devices import one_thread
from pipelines.errors import InputError
from pipelines.features.extractor import Rows
from pipelines.features.media import AudioBlock, decode
from pipelines.features.request import FeatureRequest
from pipelines.features.stream_factory import StreamFactory
from pipelines.features.weights.registry import SHIPPED
from pipelines.model.continual_model import ContinualModel

FILE = SHIPPED / "speech_or_not.safetensors"  # weights/recipes/make_speech_or_not.py made it
HOP = 0.25  # seconds
RATE = 16_000  # Hz
SECONDS = 5.0  # of a clip that are listened to
MOST_CLIPS = 80  # of all classes together, or, where they are many, the fewest of each
FEWEST, MOST = 4, 8  # clips of a class
SHARE = 0.5  # of the clips of a class, above which it counts as speech
WARM_UP, LONG = 2, 6  # rows that have heard too little, and rows of clips that can do without them


def classes_like_speech(
    items: Sequence[Item], class_names: Sequence[str], on_item: OnItem | None = None
) -> tuple[str, ...]:
    """The classes of which most clips sound like speech; clips without sound do not."""
    model = load_checkpoint(FILE).model
    factory = StreamFactory(FeatureRequest("speech", hop=HOP), "cpu")
    chosen = [item for label in range(len(class_names)) for item in _chosen(items, label, len(class_names))]
    heard: dict[int, list[bool]] = {label: [] for label in range(len(class_names))}
    with one_thread():
        for count, item in enumerate(chosen):
            if on_item is not None:
                on_item(count, len(chosen), f"speech or not: {item.name}")
            if item.label is not None:
                heard[item.label].append(is_speech(model, clip_rows(Path(str(item.media)), factory)))
    if on_item is not None:
        on_item(len(chosen), len(chosen), "")
    return tuple(class_names[label] for label, clips in heard.items() if sum(clips) > SHARE * len(clips))


def is_speech(model: ContinualModel, rows: Rows) -> bool:
    """Whether most of a clip sounds like speech, by the speech network's rows (rows, 96)."""
    if not len(rows):
        return False
    heard = torch.from_numpy(np.asarray(judged(rows)))
    with torch.inference_mode():
        logits, _ = model.steps(heard[None], model.initial_state(1))
    return bool(logits[0].mean(0).argmax() == 0)


def judged(rows: Rows) -> Rows:
    """The rows of a clip that count."""
    return rows[WARM_UP:] if len(rows) >= LONG else rows


def clip_rows(path: Path, factory: StreamFactory) -> Rows:
    """What the speech network hears of a clip (rows, 96); nothing where there is no sound."""
    stream = factory.prototype()
    sound = []
    try:
        with decode(path, audio=True, video=False, audio_rate=RATE, duration=SECONDS) as reader:
            sound = [part.samples for part in reader if isinstance(part, AudioBlock)]
    except InputError:  # its own features have told of it
        pass
    if not sound:
        return np.zeros((0, stream.spec.width), np.float32)
    return np.concatenate([stream.push_audio(np.concatenate(sound), RATE), stream.flush()])


def _chosen(items: Sequence[Item], label: int, classes: int) -> list[Item]:
    """Some clips of a class, from all over the folder."""
    clips = [item for item in items if item.label == label and item.media is not None]
    most = max(FEWEST, min(MOST, MOST_CLIPS // classes))
    return clips if len(clips) <= most else [clips[place * len(clips) // most] for place in range(most)]
