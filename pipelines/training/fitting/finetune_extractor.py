"""The paper's audio stage 1: the feature network with a classifier on single windows, before any transformer.

Every clip becomes log-mel frames once, kept on disk; training takes windows of them. The result is a weight file
that the extractor takes like any other, so the features of stage 2 come from `cached_features` as usual.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.item import Item
from pipelines.errors import ConfigurationError, CotransError, InputError, UsageError
from pipelines.features.audio.mel import MelFrontEnd
from pipelines.features.media import AudioBlock, DamagedMediaError, Resampler, decode
from pipelines.features.request import ONLY
from pipelines.features.weights.store import WeightStore
from pipelines.files import atomic_write
from pipelines.metrics.voting import majority_vote
from pipelines.settings import cache_dir
from pipelines.tensor_file import write_tensors
from pipelines.training.artifacts import RunFolder
from pipelines.training.events import Observer, Remark, StepDone, nobody
from pipelines.training.fitting.distributed import Processes
from pipelines.training.fitting.schedules import LearningRate
from pipelines.training.recipes.recipe import FinetuneOptions, Recipe, ScheduleOptions
from pipelines.training.samples.sampling import EPOCH_STREAM

Frames = NDArray[np.float32]  # (frames, bands)


@dataclass(frozen=True, eq=False)
class Trainable:
    """A feature network that can be trained."""

    network: nn.Module
    features: Callable[[Tensor], Tensor]  # (rows, frames, bands) to (rows, width)
    width: int
    front_end: MelFrontEnd
    frames: int  # in one window


@dataclass(frozen=True)
class FinetuneResult:
    """What stage 1 gave. Accuracies are of the validation split, None where there is none."""

    weights: Path
    epochs: int
    best_epoch: int
    window_accuracy: float | None  # of single windows
    vote_accuracy: float | None  # of clips, by the class that most of their windows name


def finetune_extractor(
    dataset: Dataset, recipe: Recipe, out: Path, processes: Processes | None = None, observer: Observer = nobody
) -> FinetuneResult:
    """Fine-tune the one audio extractor of a recipe on the clips of a dataset; writes `out`/extractor.safetensors."""
    processes = processes or Processes()
    trainable = load_trainable(recipe)
    if dataset.kind != "clips":
        raise ConfigurationError(
            "--finetune-extractor needs one label for each clip; this dataset labels frames: leave it out"
        )
    train = _open_clips(dataset.split("train"), trainable, recipe, observer)
    held_out: list[_Clip] = []
    if recipe.data.validate_on in dataset.splits:
        held_out = _open_clips(dataset.split(recipe.data.validate_on), trainable, recipe, observer)
    weights = out / "extractor.safetensors"
    seed = recipe.training.seed
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        stage = _Stage(trainable, len(dataset.class_names), recipe.finetune, seed, processes.device)
        result = stage.run(train, held_out, observer)
    with RunFolder(out).writing():
        write_tensors(weights, stage.best)
    return replace(result, weights=weights)


def load_trainable(recipe: Recipe) -> Trainable:
    """The network of a recipe's extractor, with the weights that the recipe names or the default ones."""
    request = recipe.features.request
    name = "" if request is None else request.names
    given = None if request is None else request.weights.get(name) or request.weights.get(ONLY)
    options = {} if request is None else {key.removeprefix(f"{name}."): value for key, value in request.options.items()}
    store = WeightStore()
    if name == "musicnn":
        from pipelines.features.audio.mel import musicnn_front_end
        from pipelines.features.audio.musicnn.extractor import AUTO, chosen_network, load_musicnn
        from pipelines.features.audio.musicnn.shipped import shipped_weights
        from pipelines.features.audio.musicnn.vgg import CHANNELS, FRAMES, POOLED_STEPS

        file = store.resolve(name, given) if given else None
        which = chosen_network(str(options.get("network", AUTO)), file)
        if which not in ("msd", "mtt") or str(options.get("output", "pooled")) != "pooled":
            raise ConfigurationError("--finetune-extractor takes one musicnn network (msd or mtt) and output pooled")
        musicnn = load_musicnn(file or shipped_weights(which))
        return Trainable(musicnn, musicnn.pooled, POOLED_STEPS * CHANNELS, musicnn_front_end(), FRAMES)
    if name == "vggish":
        from pipelines.features.audio.mel import vggish_front_end
        from pipelines.features.audio.vggish import WIDTHS, load_vggish
        from pipelines.features.audio.vggish_network import FRAMES as VGGISH_FRAMES

        path = store.resolve(name, given)
        assert path is not None
        output = str(options.get("output", "embedding"))
        if output not in WIDTHS:
            raise ConfigurationError(f"vggish has no output '{output}': choose from {', '.join(WIDTHS)}")
        vggish = load_vggish(path)

        def rows(examples: Tensor) -> Tensor:
            penultimate = vggish.penultimate(vggish.flat(examples))
            return penultimate if output == "penultimate" else vggish.embedding(penultimate)

        return Trainable(vggish, rows, WIDTHS[output], vggish_front_end(), VGGISH_FRAMES)
    raise UsageError(
        f"--finetune-extractor trains vggish or musicnn, and --features is {name or 'not given'}: name one of them"
    )


@dataclass(frozen=True, eq=False)
class _Clip:
    frames: Frames  # (frames, bands), mapped from disk, at least one window
    label: int


class _Stage:
    """The training of stage 1."""

    def __init__(
        self, trainable: Trainable, classes: int, options: FinetuneOptions, seed: int, device: torch.device
    ) -> None:
        self.trainable, self.options, self.seed, self.device = trainable, options, seed, device
        self.classifier = nn.Linear(trainable.width, classes)
        self.network = nn.ModuleList([trainable.network, self.classifier]).to(device)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=options.learning_rate)
        schedule = ScheduleOptions(name="plateau", factor=options.factor, patience=options.patience)
        self.rate = LearningRate(schedule, options.learning_rate, options.epochs)
        self.best = copy.deepcopy(trainable.network.state_dict())

    def run(self, train: Sequence[_Clip], held_out: Sequence[_Clip], observer: Observer) -> FinetuneResult:
        best, best_epoch, epoch = -1.0, 0, 0
        scores: tuple[float | None, float | None] = (None, None)
        for epoch in range(1, self.options.epochs + 1):
            loss = self._epoch(train, epoch, observer)
            held_out_scores = self._score(held_out)
            value = -loss if held_out_scores[0] is None else held_out_scores[0]
            self.rate.epoch_done(value)
            shown = (
                ""
                if held_out_scores[0] is None
                else f", windows {100 * held_out_scores[0]:.2f} %, clips {100 * (held_out_scores[1] or 0):.2f} %"
            )
            observer(Remark(f"stage 1, epoch {epoch}: loss {loss:.4f}{shown}"))
            if best_epoch == 0 or value > best:
                best, best_epoch, scores = value, epoch, held_out_scores
                self.best = copy.deepcopy(self.trainable.network.state_dict())
            elif epoch - best_epoch >= self.options.early_stop:
                break
        return FinetuneResult(Path(), epoch, best_epoch, *scores)

    def _epoch(self, train: Sequence[_Clip], epoch: int, observer: Observer) -> float:
        generator = np.random.default_rng([self.seed, EPOCH_STREAM, epoch])
        windows = [
            (index, begin)
            for index, clip in enumerate(train)
            for begin in self._begins(clip, int(generator.integers(self._hop)))
        ]
        order = generator.permutation(len(windows))
        size, total = self.options.batch_size, 0.0
        steps = range(0, len(order), size)
        rate = self.rate.at(epoch - 1, 0, 1)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.network.train()
        for number, first in enumerate(steps, start=1):
            chosen = [windows[i] for i in order[first : first + size]]
            logits = self._logits(train, chosen)
            labels = torch.tensor([train[index].label for index, _ in chosen], device=self.device)
            loss = nn.functional.cross_entropy(logits, labels)
            if not bool(torch.isfinite(loss)):
                raise ConfigurationError(
                    f"stage 1: the loss is {float(loss.detach())} in epoch {epoch}, step {number}: lower "
                    "finetune.learning_rate"
                )
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            total += float(loss.detach()) * len(chosen)
            observer(StepDone(epoch, self.options.epochs, number, len(steps), float(loss.detach()), rate))
        return total / max(len(windows), 1)

    @torch.no_grad()
    def _score(self, clips: Sequence[_Clip]) -> tuple[float | None, float | None]:
        """Accuracy of windows, and of clips by vote."""
        if not clips:
            return None, None
        self.network.eval()
        windows = [(index, begin) for index, clip in enumerate(clips) for begin in self._begins(clip, 0)]
        parts = [
            self._logits(clips, windows[i : i + self.options.batch_size]).cpu()
            for i in range(0, len(windows), self.options.batch_size)
        ]
        probability = torch.softmax(torch.cat(parts).double(), dim=1).numpy()
        owner = np.array([index for index, _ in windows])
        labels = np.array([clip.label for clip in clips])
        mean = np.stack([probability[owner == index].mean(axis=0) for index in range(len(clips))])
        votes = majority_vote(probability, owner, mean)
        hits = probability.argmax(axis=1) == labels[owner]
        return float(hits.mean()), float((votes == labels).mean())

    @property
    def _hop(self) -> int:
        """Frames from one window to the next."""
        front_end = self.trainable.front_end
        return max(1, round(self.options.hop * front_end.sample_rate / front_end.frame_hop))

    def _begins(self, clip: _Clip, phase: int) -> list[int]:
        last = len(clip.frames) - self.trainable.frames
        return list(range(min(phase, last), last + 1, self._hop))

    def _logits(self, clips: Sequence[_Clip], windows: Sequence[tuple[int, int]]) -> Tensor:
        length = self.trainable.frames
        examples = np.stack([clips[index].frames[begin : begin + length] for index, begin in windows])
        logits: Tensor = self.classifier(self.trainable.features(torch.from_numpy(examples).to(self.device)))
        return logits


def _open_clips(items: Sequence[Item], trainable: Trainable, recipe: Recipe, observer: Observer) -> list[_Clip]:
    """Log-mel frames of every clip, computed once; clips that cannot be used are left out and reported."""
    base = Path(recipe.features.cache) if recipe.features.cache else cache_dir() / "features"
    front_end = trainable.front_end
    identity = (front_end.sample_rate, front_end.frame_length, front_end.frame_hop, front_end.bands, front_end.base)
    clips = []
    for item in items:
        if item.media is None or item.label is None:
            raise InputError(f"{item.name}: --finetune-extractor needs media and a label for each clip")
        stat = item.media.stat()
        key = f"{identity} {item.media.resolve()} {stat.st_size} {stat.st_mtime_ns}"
        path = base / "frames" / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.npy"
        try:
            if not path.is_file():
                with atomic_write(path) as temporary, temporary.open("wb") as file:
                    np.save(file, _frames(item.media, trainable))
            clips.append(_Clip(np.load(path, mmap_mode="r", allow_pickle=False), item.label))
        except CotransError as error:
            observer(Remark(f"{error}; left out"))
    if not clips:
        raise InputError("stage 1: no clip can be used")
    return clips


def _frames(media: Path, trainable: Trainable) -> Frames:
    """All frames of a clip, with silence at the end where it is shorter than a window."""
    front_end = trainable.front_end
    parts: list[NDArray[np.float32]] = []
    resampler: Resampler | None = None
    try:
        with decode(media, audio=True, video=False) as reader:
            for block in reader:
                assert isinstance(block, AudioBlock)
                resampler = resampler or Resampler(block.rate, front_end.sample_rate)
                parts.append(resampler.push(block.samples))
    except DamagedMediaError:
        if not parts:
            raise
    if resampler is not None:
        parts.append(resampler.flush())
    samples = np.concatenate(parts)
    needed = front_end.span(trainable.frames)
    return front_end.frames(np.pad(samples, (0, max(0, needed - len(samples)))))
