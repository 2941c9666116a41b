"""From a recipe to recordings: the dataset, its features (from files or from the cache), its splits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.item import Item
from pipelines.datasets.mixing.changed_copies import changed_copies
from pipelines.datasets.rows.feature_cache import OnItem, cache_folder, cached_features
from pipelines.datasets.source import open_source
from pipelines.errors import ConfigurationError, InputError, UsageError
from pipelines.features.spec import FeatureSpec
from pipelines.features.stream_factory import StreamFactory
from pipelines.training.fitting.distributed import Processes
from pipelines.training.none_of_these.foreign import (
    MADE,
    ForeignSound,
    as_background,
    made_foreign,
    open_foreign,
)
from pipelines.training.none_of_these.voices import classes_like_speech
from pipelines.training.recipes.data_facts import check_classes
from pipelines.training.recipes.recipe import Recipe
from pipelines.training.samples.clips_in_a_row import clips_in_a_row
from pipelines.training.samples.played_clips import played_clips
from pipelines.training.samples.recordings import Recording, check_widths, feature_width, open_recordings
from pipelines.wording import listed


@dataclass(frozen=True, eq=False)
class TrainingData:
    """What a run trains and validates on."""

    dataset: Dataset  # with features
    train: tuple[Recording, ...]
    validation: tuple[Recording, ...]  # may be empty
    spec: FeatureSpec | None  # of the features, where it is known
    foreign: ForeignSound = field(default_factory=ForeignSound)  # recordings without a class, whose answer is "none"
    in_a_row: tuple[Recording, ...] = ()  # the clips that are trained on once more, as a stream plays them
    played: tuple[Recording, ...] = ()  # some of them in a row, by which the rule for "none" knows how streams sound

    @property
    def clips(self) -> bool:
        return self.dataset.kind == "clips"

    @property
    def width(self) -> int:
        return feature_width(self.train)

    @property
    def groups(self) -> tuple[str, ...]:
        """Of each recording to train on, what belongs together: a speaker's clips, or a clip and its copies."""
        items = {item.name: item for item in self.dataset.items if item.split == "train"}
        apart = len({item.group for item in items.values()}) > 1
        groups = {name: (item.group if apart else None) or item.copy_of for name, item in items.items()}
        return tuple(groups.get(recording.name) or recording.name for recording in self.train)


def open_data(
    recipe: Recipe,
    processes: Processes | None = None,
    on_item: OnItem | None = None,
    remark: Callable[[str], None] | None = None,
) -> TrainingData:
    """Open a recipe's dataset and, where only media is given, extract its features into the cache."""
    processes = processes or Processes()
    dataset = open_source(recipe.source)
    trained = recipe.data.train_on.split("+")
    for split in trained:
        dataset.split(split)  # an error where there is nothing to train on
    items = tuple(
        replace(item, split="train") if item.split in trained else item
        for item in dataset.items
        if item.split in (*trained, recipe.data.validate_on)
    )
    if recipe.data.copies:
        items += _copies(recipe, dataset, items, processes, on_item)
    check_classes(dataset)
    spec = dataset.spec
    problems = list(dataset.problems)
    if recipe.features.request is not None:
        items, spec, extracted = _extracted(recipe, items, processes, on_item)
        problems += extracted
        dataset = replace(dataset, hop=spec.hop)
    elif any(not item.features for item in items):
        without = next(item for item in items if not item.features)
        raise UsageError(
            f"there are no features of {without.name}: name extractors with --features (musicnn, logmel, vggish, "
            "resnet50, …), or give a folder of feature files with --feature-dir"
        )
    if remark is not None:
        for problem in problems:
            remark(problem)
    dataset = replace(dataset, items=items, problems=tuple(problems), spec=spec)
    train = open_recordings(dataset, dataset.split("train"))
    validation: tuple[Recording, ...] = ()
    if recipe.data.validate_on in dataset.splits:
        validation = open_recordings(dataset, dataset.split(recipe.data.validate_on))
    elif remark is not None:
        remark(f"nothing to validate on, so best = last: {_how_to_validate(open_source(recipe.source), recipe)}")
    shown = on_item if processes.main else None
    foreign = _foreign(recipe, dataset, spec, shown, remark)
    in_a_row = _in_a_row(recipe, dataset, spec, shown)
    played = _played(recipe, dataset, spec, foreign, shown)
    check_widths((*train, *validation, *foreign.train, *foreign.fit, *in_a_row, *played))
    return TrainingData(dataset, train, validation, spec, foreign, in_a_row, played)


def _copies(
    recipe: Recipe, dataset: Dataset, items: tuple[Item, ...], processes: Processes, on_item: OnItem | None
) -> tuple[Item, ...]:
    """Changed copies of what is trained on."""
    request = recipe.features.request
    if dataset.kind != "clips" or request is None:
        raise ConfigurationError("data.copies is for clips whose features are extracted (--features)")
    trained = {item.name for item in items if item.split == "train"}
    tracks = frozenset(part.kind for part in StreamFactory(request).prototype().spec.parts)
    if not processes.main:  # the first makes them for all; where the cache is not shared, each then makes its own
        processes.wait()
    copies = changed_copies(
        dataset.items,
        recipe.data.copies,
        dataset.root,
        trained,
        tracks=tracks,
        on_item=on_item if processes.main else None,
    )
    if processes.main:
        processes.wait()
    return tuple(replace(copy, split="train") for copy in copies)


def _in_a_row(
    recipe: Recipe, dataset: Dataset, spec: FeatureSpec | None, on_item: OnItem | None
) -> tuple[Recording, ...]:
    """The training clips as a stream plays them, where the recipe wants it; not their copies."""
    if not recipe.data.in_a_row:
        return ()
    request = recipe.features.request
    if dataset.kind != "clips" or request is None or spec is None or any(part.kind != "audio" for part in spec.parts):
        raise ConfigurationError("data.in_a_row is for clips of sound whose features are extracted (--features)")
    clips = [item for item in dataset.split("train") if item.copy_of is None]
    folder = cache_folder(recipe.features, spec)
    return clips_in_a_row(clips, StreamFactory(request, "cpu"), len(dataset.class_names), folder, on_item)


def _played(
    recipe: Recipe, dataset: Dataset, spec: FeatureSpec | None, foreign: ForeignSound, on_item: OnItem | None
) -> tuple[Recording, ...]:
    """Some of the training clips in a row, where the model learns of foreign recordings after its training alone."""
    taught = recipe.data.foreign is not None and recipe.training.none == "class"
    there = bool(foreign.train or foreign.fit) and dataset.kind == "clips"
    if spec is None or recipe.features.request is None or taught or not there or recipe.training.loss == "binary":
        return ()
    return played_clips(dataset.split("train"), recipe.features, spec, len(dataset.class_names), on_item)


def _foreign(
    recipe: Recipe,
    dataset: Dataset,
    spec: FeatureSpec | None,
    on_item: OnItem | None,
    remark: Callable[[str], None] | None,
) -> ForeignSound:
    """Recordings of no class: those of the recipe, and made ones to fit the rule for "none" on."""
    wanted, classes = recipe.data.foreign, len(dataset.class_names)
    if wanted is not None and recipe.features.request is None:
        raise ConfigurationError("data.foreign is for recordings whose features are extracted (--features)")
    if wanted is not None and dataset.kind == "frames" and dataset.background is None:
        raise ConfigurationError(f"data.foreign: dataset {dataset.name} has no class for what is none of its events")
    if recipe.features.request is None or spec is None or (dataset.kind == "frames" and wanted is None):
        return ForeignSound()
    # Whoever gives a folder of foreign recordings has said what is foreign.
    speech = wanted in (None, MADE) and _is_speech_foreign(dataset, spec, on_item, remark)
    made = made_foreign(recipe.features, spec, classes, on_item, speech)
    if wanted is None:
        return replace(made, train=())
    opened = ForeignSound()
    if wanted != MADE:
        opened = open_foreign(Path(wanted), recipe.features, classes, on_item)
    if dataset.kind == "frames" and dataset.background is not None:
        # What sounds like weather is no event either, and no rule has to be fitted.
        return as_background((*opened.train, *opened.fit, *made.train, *made.weather), dataset.background)
    return ForeignSound(opened.train + made.train, opened.fit + made.fit, made.always)


def _is_speech_foreign(
    dataset: Dataset, spec: FeatureSpec, on_item: OnItem | None, remark: Callable[[str], None] | None
) -> bool:
    """Whether these are clips of sound, and none of their classes sounds like speech."""
    if dataset.kind != "clips" or all(part.kind != "audio" for part in spec.parts):
        return False
    alike = classes_like_speech(dataset.split("train"), dataset.class_names, on_item)
    if remark is not None and alike:
        remark(
            f"{listed(alike)} {'sounds' if len(alike) == 1 else 'sound'} like speech, so other speech may get a name"
        )
    return not alike


def _how_to_validate(dataset: Dataset, recipe: Recipe) -> str:
    there = ", ".join(f"{split} ({len(dataset.split(split))})" for split in dataset.splits)
    splits = f"there are {there}, no {recipe.data.validate_on}"
    others = [split for split in dataset.splits if split != "train"]
    if others:
        return f"{splits}; --validate-on {others[0]} takes that"
    if dataset.name == "folder" and dataset.kind == "clips" and recipe.data.options.get("validation") != 0:
        labels, groups = [item.label for item in dataset.items], {item.group for item in dataset.items}
        if len(set(labels)) < len(labels) and len(groups) == 1 and None not in groups:
            return f"{splits}; all clips are of one group ({next(iter(groups))}), which is not divided: add another one"
        return f"{splits}; a label gives a clip for it when it has at least two, so add clips"
    return f"{splits}; --validation 0.2 takes a part of it"


def _extracted(
    recipe: Recipe, items: tuple[Item, ...], processes: Processes, on_item: OnItem | None
) -> tuple[tuple[Item, ...], FeatureSpec, tuple[str, ...]]:
    if not any(item.media for item in items):
        raise InputError(
            f"dataset {recipe.data.dataset}: there is no media in {recipe.data.root} to extract --features from"
        )
    several = processes.size > 1
    extracted = cached_features(
        items,
        recipe.features,
        on_item if processes.main else None,
        processes.share(len(items)) if several else None,
        processes.wait if several else None,
        processes.device.type,
    )
    return extracted.items, extracted.spec, tuple(extracted.problems.values())
