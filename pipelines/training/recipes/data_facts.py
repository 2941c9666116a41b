"""What the rules for a user's own data look at: how long, how many, of which kind."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.item import Item
from pipelines.datasets.rows.feature_rows import open_rows
from pipelines.errors import InputError, MissingDependencyError, UsageError
from pipelines.features.request import FeatureRequest
from pipelines.features.stream_factory import StreamFactory
from pipelines.wording import counted

PICTURES = FeatureRequest("efficientnet_lite0")
SHORT = 1.2  # seconds: what is shorter is taken for a word or a knock, which needs rows in quick succession
COARSE = 20  # recordings to validate on: with fewer, a score moves in large steps


@dataclass(frozen=True)
class DataFacts:
    """What the rules look at."""

    clips: bool  # else recordings with events
    recordings: int  # to train on
    validation: int
    classes: int
    length: float | None  # seconds of a typical clip or event; None: feature files without a rate
    rows: int  # of a typical clip or event, at `hop`
    all_rows: int  # to train on
    hop: float  # seconds; 1 where only rows are known
    pictures: bool  # rows are made of pictures
    heard: float = 0.0  # seconds of media that a row has heard or seen by itself; 0: a moment, or nobody knows

    @property
    def thing(self) -> str:
        return "clip" if self.clips else "event"

    @property
    def short(self) -> bool:
        """Whether clips or events are as short as words."""
        return self.length is not None and self.length < SHORT


def check_classes(dataset: Dataset) -> None:
    """Refuse clips that are all of one class: there is nothing to tell apart."""
    if len(dataset.scored_classes) < 2 and dataset.kind == "clips":
        raise InputError(
            f"dataset {dataset.name}: '{dataset.class_names[0]}' is the only label in {dataset.root}: a model that "
            "tells clips apart needs clips of at least two"
        )


def data_facts(dataset: Dataset, request: FeatureRequest | None, validate_on: str) -> DataFacts:
    """The facts about an open dataset whose features come from `request`, or are there already."""
    check_classes(dataset)
    train = dataset.split("train")
    hop = dataset.hop if request is None else request.fixed_hop
    lengths = [_length(item, hop, dataset.trim) for item in train]
    whole = sum(lengths)
    things = lengths
    if dataset.kind == "frames":
        things = [segment.end - segment.start for item in train for segment in item.segments or ()] or lengths
    typical = statistics.median(things)
    step = hop or 1.0  # without a rate, lengths are rows
    names = () if request is None else request.extractors
    return DataFacts(
        clips=dataset.kind == "clips",
        recordings=len(train),
        validation=len(dataset.split(validate_on)) if validate_on in dataset.splits else 0,
        classes=len(dataset.class_names),
        length=typical if hop else None,
        rows=max(1, round(typical / step)),
        all_rows=round(whole / step),
        hop=step,
        pictures=any(name in PICTURES.names for name in names),
        heard=_heard(dataset, request),
    )


def _heard(dataset: Dataset, request: FeatureRequest | None) -> float:
    """Seconds that the extractor with the longest look back takes for a row; 0 where that is not known."""
    spec = dataset.spec
    if request is not None:
        try:
            spec = StreamFactory(request, "cpu").prototype().spec
        except (MissingDependencyError, InputError):  # a recipe may be written where nothing can be extracted
            spec = None
    return 0.0 if spec is None else max((part.window for part in spec.parts), default=0.0)


def _length(item: Item, hop: float | None, trim: int) -> float:
    """Seconds; rows, where no rate is known."""
    if item.duration is not None:
        return item.duration
    if item.features:
        return len(open_rows(item, trim)) * (hop or 1.0)
    raise UsageError(f"{item.name}: its length is not known: name a recipe, such as --recipe paper")


def coarse_score(recordings: int, clips: bool = True) -> str | None:
    """A remark where so few recordings are validated on that the score moves in large steps. clips: else events."""
    if not 0 < recordings < COARSE:
        return None
    step = f"one of them is {100 / recordings:.0f} points of accuracy, so the score is coarse" if clips else ""
    return (
        f"only {counted(recordings, 'recording')} to validate on: {step or 'the score says little about others'}; "
        "more data, or --validation with a larger share, make it finer"
    )
