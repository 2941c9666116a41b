"""What the data decide of a recipe for a user's own data: the rules of docs/train.md, with their reasons."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.opening import ROOT_VARIABLE
from pipelines.datasets.source import open_source
from pipelines.features.default_features import Tracks, tracks_of
from pipelines.features.request import DEFAULT_HOP, FeatureRequest
from pipelines.features.spec import Option
from pipelines.training.recipes.data_facts import PICTURES, DataFacts, data_facts
from pipelines.training.recipes.recipe import ModelOptions, Recipe
from pipelines.training.recipes.recipe_file import build_recipe, default_recipes, paper_recipe
from pipelines.training.samples.clips_in_a_row import CLIPS
from pipelines.wording import counted

DEFAULT_PRESET = ModelOptions().preset
OWN_DATA = "folder"  # the dataset whose recipe follows from its files
LOOKED_AT = 40  # media files that say what all of them hold

# Features.
# Timbre, spectrum and voice, as the built-in sound-events hears them, and what things sound like.
BRIEF_OPTIONS: dict[str, Option] = {"logmel.window": 1.0, "soundnet.statistics": "mean"}
SOUND = FeatureRequest(
    "musicnn+logmel+speech+soundnet",
    hop=DEFAULT_HOP,
    options={"musicnn.network": "msd_musicnn", "musicnn.output": "middle+penultimate", **BRIEF_OPTIONS},
)
HEARD_AT_ONCE = 3.0  # seconds that musicnn hears for a row: in a stream of shorter clips these are more than one
BRIEF_SOUND = FeatureRequest("logmel+speech+soundnet", options=BRIEF_OPTIONS)
MOST_FILES = 0.9  # share of the files that hold sound and pictures, from which on both are taken
SHORT_SOUND = FeatureRequest("speech")
ROWS_OF_A_CLIP = 8  # at least: a shorter clip is looked at more often
SHORTEST_HOP = 0.05  # seconds

# Window.
LEAST_WINDOW = 2.0  # seconds, of events
WINDOW_SHARE = 0.5  # of a clip, at least, however much of it a row hears by itself
FEWEST_ROWS, MOST_ROWS = 4, 120

# Optimisation.
FEW_ROWS = 20_000  # training rows: with fewer, a model learns them by heart unless it is held back
CLIP_STEPS, EVENT_STEPS = 300, 150  # of the optimiser in all: what there is of small data is soon known by heart
MANY_STEPS = 1600  # from so many on, weights are averaged over more of them
FEWEST_EPOCHS, MOST_EPOCHS = 15, 60
LARGEST_BATCH, SMALLEST_BATCH = 32, 8  # clips
STEPS_OF_AN_EPOCH = 8  # at least, where there are clips enough
EMBEDDING = 256  # features in front of the encoder
LEARNING_RATE = 1e-3
READING = 0.67  # share of a linear reading of the window's mean, which few clips teach better than a transformer
# Models of the user's that have none (`ModelConfig` says why).
UNREAD = ("model.lag", "model.recall", "model.decoder_blocks")
CLIP_DECAY, EVENT_DECAY = 0.1, 0.05  # of the weights
JOINS = 0.5  # share of clips that follow on another
# What makes a model unfit for clips in a row, which are trained on in chunks with a loss on every row.
_UNBANDED = ("model.blocks", "model.stacking", "model.positional", "model.class_token_block", "model.decoder_blocks")
UNJOINED = (*_UNBANDED, "training.sampling")
CHUNK = 64  # labelled rows of a long recording in a step

# Streams.
SMOOTHED_SHARE = 1 / 4  # of a clip or event: over so much a stream is smoothed
LEAST_OF_A_CLIP = 0.45  # no segment is shorter, since where two clips meet a third may be heard
LEAST_OF_AN_EVENT = 1 / 3
SEGMENT_ROWS = 3  # at least: a row or two between words are no word


@dataclass(frozen=True)
class Choice:
    """Something that was decided for the user."""

    what: str  # "window"
    values: Mapping[str, Any]  # by "section.key"
    text: str  # "10 rows = 2.5 s"
    reason: str  # "a whole clip"
    given: Mapping[str, Any] = field(default_factory=dict)  # what the user's flags say in place of some values

    def beside(self, flags: Mapping[str, Any]) -> Choice:
        """The same, with the flags that win over it."""
        return replace(self, given={key: flags[key] for key in self.values if key in flags})

    def __str__(self) -> str:
        own = ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in self.given.items())
        return f"{self.what:12} {self.text}: {self.reason}" + (f"; yours: {own}" if own else "")


@dataclass(frozen=True)
class PlannedRecipe:
    """A recipe, and what of it the data have decided."""

    recipe: Recipe
    choices: tuple[Choice, ...] = ()


def plan_recipe(
    file: str | Path | None = None, flags: Mapping[str, Any] | None = None, named: Collection[str] = ()
) -> PlannedRecipe:
    """The recipe of a file or of the paper; for a user's own data without either, one that suits the data.

    Arguments as of `build_recipe`. What `flags` say is not decided again.
    """
    given = {key: value for key, value in (flags or {}).items() if value is not None}
    recipe = build_recipe(file, given, named)
    somewhere = recipe.data.root is not None or ROOT_VARIABLE in os.environ
    if file is not None or recipe.data.dataset != OWN_DATA or recipe.model.init is not None or not somewhere:
        return PlannedRecipe(recipe)
    # A rate that was given is that of feature files, or of the features that are to be chosen.
    hop = recipe.features.file_hop
    dataset = open_source(replace(recipe.source, features=replace(recipe.features, file_hop=None)))
    dataset = replace(dataset, hop=hop or dataset.hop)
    choices = []
    request, chosen = recipe.features.request, _features(recipe, dataset)
    if chosen is not None:
        choices.append(chosen)
        request = FeatureRequest.from_dict(
            {key.removeprefix("features."): value for key, value in chosen.values.items()}
        )
    facts = data_facts(dataset, request, recipe.data.validate_on)
    if default_recipes(recipe.model.preset) == (paper_recipe(recipe.model.preset),):  # else it has one of our own
        preset = recipe.model.preset
        joins = preset == DEFAULT_PRESET and given.get("training.loss_on") != "last" and not given.keys() & {*UNJOINED}
        sounds = (SOUND.names, BRIEF_SOUND.names)
        words = facts.short and request is not None and request.names == SHORT_SOUND.names
        heard_whole = not facts.short and request is not None and request.names in sounds
        # What is heard of clips in a row says more than their rows in a row; of many clips, extracting it takes long.
        heard = joins and (words or (heard_whole and facts.all_rows < FEW_ROWS))
        copied = facts.clips and request is not None and (facts.pictures or heard_whole)
        varied = _regularisation(facts, preset, joins, heard, copied)
        read = preset == DEFAULT_PRESET and given.get("training.loss") != "binary" and not any(map(given.get, UNREAD))
        taught = given.get("data.foreign") is not None and given.get("training.none", "class") == "class"
        told = not taught and request is not None and facts.validation > 0  # of foreign media, on held-out clips
        reading = _reading(facts, told) if read and given.get("model.reading", READING) else ()
        choices += [_window(facts, preset), *reading, _learning(facts, varied), varied, *_stream(facts)]
    choices = [choice.beside(given) for choice in choices if choice.values.keys() - given.keys()]
    decided = {key: value for choice in choices for key, value in choice.values.items()}
    return PlannedRecipe(build_recipe(None, {**decided, **given}, named), tuple(choices))


# ---- the rules ---------------------------------------------------------------------------------------------


def _features(recipe: Recipe, dataset: Dataset) -> Choice | None:
    """Extractors by what the files hold and how long the clips are; None where features are there or named."""
    if recipe.features.request is not None or any(item.features for item in dataset.items):
        return None
    media = [item.media for item in dataset.items if item.media is not None]
    tracks = tracks_of(media[:: max(1, len(media) // LOOKED_AT)])
    typical = data_facts(dataset, FeatureRequest(SOUND.names), recipe.data.validate_on)
    assert typical.length is not None
    request, reason = _request(tracks, typical)
    hop = recipe.features.file_hop or request.hop or request.default_hop
    values = {f"features.{key}": value for key, value in {**request.to_dict(), "hop": hop}.items()}
    return Choice("features", values, f"{request.names}, a row every {hop:g} s", reason)


def _request(tracks: Tracks, facts: DataFacts) -> tuple[FeatureRequest, str]:
    """What most files hold: both, where nine in ten have both, else what more of them have, sound where as many do."""
    length = facts.length or 0.0
    lasts = f"{facts.thing}s last {length:.3g} s"
    watched = max(SHORTEST_HOP, min(DEFAULT_HOP, round(length / ROWS_OF_A_CLIP, 2)))
    brief = facts.clips and length < HEARD_AT_ONCE
    sound = replace(BRIEF_SOUND, hop=watched) if brief else SOUND
    how_long = f"{lasts}, less than musicnn hears at once" if brief else lasts
    with_both = tracks.with_sound + tracks.with_pictures - tracks.files
    if with_both > 0 and with_both >= MOST_FILES * tracks.files:
        both = FeatureRequest(f"{PICTURES.names}+{sound.names}", hop=watched, options=sound.options)
        return both, f"{_held('pictures and sound', with_both, tracks.files)}; {how_long}"
    if tracks.with_pictures > tracks.with_sound:
        held = _held("pictures" if tracks.with_sound else "pictures and no sound", tracks.with_pictures, tracks.files)
        held += f", sound in {tracks.with_sound}, which is not heard" if with_both > 0 else ""
        return FeatureRequest(PICTURES.names, hop=watched), f"{held}; {lasts}"
    held = _held("sound", tracks.with_sound, tracks.files)
    held += f", pictures in {tracks.with_pictures}, which are not watched" if with_both > 0 else ""
    if facts.short:
        return SHORT_SOUND, f"{held}; {lasts}, as short as words"
    return sound, f"{held}; {how_long}"


def _held(what: str, count: int, files: int) -> str:
    """What the files that were looked at hold, and what becomes of those that do not."""
    if count == files:
        return f"the files hold {what}"
    return f"{what} in {count} of {files} files, and those without are left out"


def _window(facts: DataFacts, preset: str = DEFAULT_PRESET) -> Choice:
    """A whole clip, less what a row hears of it already, so that a stream soon forgets the clip before; or an event."""
    wanted, reason = facts.rows, "a whole clip"
    if facts.clips and not facts.short:
        half, rest = math.ceil(WINDOW_SHARE * facts.rows), facts.rows - round(facts.heard / facts.hop)
        if half < rest < facts.rows:
            wanted, reason = rest, f"a clip, less the {facts.heard:.2g} s that a row hears already"
        elif rest <= half < facts.rows:
            wanted, reason = half, f"half a clip, since a row hears {facts.heard:.2g} s already"
    if not facts.clips:
        least = LEAST_WINDOW / facts.hop if facts.length is not None else FEWEST_ROWS
        wanted, reason = round(max(least, facts.rows)), "as long as an event"
    window = min(max(wanted, FEWEST_ROWS), MOST_ROWS)
    if window == MOST_ROWS:
        reason = "the most that a step is cheap for"
    elif window > wanted:
        short = f"; a {facts.thing} has {facts.rows}" if window > facts.rows else ""
        reason = f"the fewest rows that make a course of time{short}"
    seconds = f" = {window * facts.hop:.3g} s" if facts.length is not None else ""
    values: dict[str, Any] = {"model.window": window}
    if preset == DEFAULT_PRESET:  # few recordings cannot teach a table of positions; other models are what they are
        values["model.positional"] = "none" if facts.clips else "relative"
    return Choice("window", values, f"{window} rows{seconds}", reason)


def _reading(facts: DataFacts, evidence: bool = True) -> tuple[Choice, ...]:
    """Of clips, but not of words: a word is what its sounds are in their order, which a mean does not know.

    evidence: that for any class is read, too: the model hears of foreign recordings, and after its training alone.
    """
    if not facts.clips or facts.short:
        return ()
    text = f"{100 * READING:.0f} % of the answer is a linear reading of the window's mean"
    values = {"model.reading": READING, "model.reading_evidence": evidence}
    return (Choice("reading", values, text, "few clips teach it better than a transformer"),)


def _learning(facts: DataFacts, varied: Choice) -> Choice:
    """Batches small enough for steps enough, and epochs for about 300 steps of the clips themselves; events: 150."""
    batch, unit = _batch(facts.recordings), facts.recordings
    values: dict[str, Any] = {"training.batch_size": batch}
    if not facts.clips:
        unit = max(1, facts.all_rows // CHUNK)  # chunks
        batch = _batch(unit)
        values = {"training.chunk": CHUNK, "training.chunk_batch": batch}
    steps = max(1, -(-unit // batch))
    wanted = CLIP_STEPS if facts.clips else EVENT_STEPS
    epochs = min(max(-(-wanted // steps), FEWEST_EPOCHS), MOST_EPOCHS)
    # A model of words, which has no reading, names clips by luck while it is still unsure of all of them.
    by_loss = facts.clips and facts.short and facts.validation > 0
    values |= {
        "optimizer.name": "adamw",
        "optimizer.learning_rate": LEARNING_RATE,
        "optimizer.weight_decay": CLIP_DECAY if facts.clips else EVENT_DECAY,
        "optimizer.gradient_clip": 1.0,
        "schedule.name": "cosine",
        "schedule.factor": 0.01,
        "schedule.warm_up": 1.0,
        "training.epochs": epochs,
        "training.ema": 0.99 if steps * epochs < MANY_STEPS else 0.998,
        "training.early_stop": max(10, 2 * epochs // 3) if facts.validation else 0,
        "training.metric": "loss" if by_loss else "auto",
    }
    # What is made of the clips is trained on beside them.
    made = unit * int(varied.values.get("data.copies", 0)) + bool(varied.values.get("data.in_a_row")) * unit // CLIPS
    taken = counted(-(-(unit + made) // batch), "step")
    text = f"{epochs} epochs of {taken}, rate {LEARNING_RATE:g} along a cosine, batches of {batch}"
    stop = ", ended early when nothing gets better" if facts.validation else ""
    stop += "; the best epoch is that of the smallest loss" if by_loss else ""
    return Choice("learning", values, text, f"{counted(facts.recordings, 'recording')} to train on{stop}")


def _batch(units: int) -> int:
    """A power of two that leaves steps enough in an epoch."""
    batch = LARGEST_BATCH
    while batch > SMALLEST_BATCH and units < batch * STEPS_OF_AN_EPOCH:
        batch //= 2
    return batch


def _regularisation(
    facts: DataFacts, preset: str = DEFAULT_PRESET, joins: bool = True, heard: bool = False, copied: bool = False
) -> Choice:
    """Loss on every row; small data are varied and smoothed more.

    joins: the model can be shown clips in a row. heard: they are played in a row, rather than their rows joined.
    copied: the clips are media whose features are extracted, so that copies can be changed, and no words.
    """
    few = facts.all_rows < FEW_ROWS
    values: dict[str, Any] = {"training.loss_on": "every", "training.loss": "auto", "training.standardize": True}
    amount = f"few rows ({facts.all_rows:,})" if few else f"many rows ({facts.all_rows:,})"
    if facts.clips:
        dropout, varied = 0.3 if few else 0.1, "masks, noise and mixtures"
        values |= {
            "training.label_smoothing": 0.1,
            "augmentation.mixup": 0.3,
            "augmentation.feature_dropout": 0.2 if few else 0.1,
            "augmentation.noise": 0.1,
            "augmentation.gain": 0.0 if facts.pictures else 0.2,
            "augmentation.time_masks": 1,
            "augmentation.time_mask": max(1, facts.rows // 4),
            "augmentation.joins": JOINS if joins and not heard else 0.0,
            "data.in_a_row": heard,
            "data.copies": 1 if copied and few else 0,
        }
        varied += ", a changed copy of each" if copied and few else ""
        varied += ", clips in a row" if joins else ""
        varied += " with pauses" if heard else ""
    else:  # what works for detection: recipes/detection*.toml
        dropout, varied = 0.2 if few else 0.1, "mixtures, chunks that begin as streams do"
        values |= {"training.label_smoothing": 0.05, "training.cold_chunks": True, "augmentation.mixup": 0.4}
        if preset == DEFAULT_PRESET:
            # What single rows say stays in view: an event often begins and ends with a row.
            values |= {"model.norm": "pre", "model.input_dropout": 0.3 if few else 0.1}
            values["model.shortcut"] = "concatenate"
    if preset == DEFAULT_PRESET:
        values |= {"model.embedding": EMBEDDING, "model.embedding_dropout": 0.5 if few else 0.2}
    values["model.dropout"] = dropout
    text = f"dropout {dropout:g}, {varied}, loss on every row"
    return Choice("variation", values, text, f"{amount} of {facts.classes} classes, heard at any moment of a stream")


def _stream(facts: DataFacts) -> tuple[Choice, ...]:
    """What the checkpoint says of how a stream is told; nothing where lengths are not known in seconds."""
    if facts.length is None:
        return ()
    # Over rows of other words, words would blur.
    smooth = 0.0 if facts.short else float(f"{SMOOTHED_SHARE * facts.length:.2g}")
    part, what = (
        (LEAST_OF_A_CLIP, f"{LEAST_OF_A_CLIP:g} of a clip")
        if facts.clips
        else (LEAST_OF_AN_EVENT, "a third of an event")
    )
    share, rows = part * facts.length, SEGMENT_ROWS * facts.hop
    least = float(f"{max(share, rows):.2g}")
    reason = f"{SEGMENT_ROWS} rows, which are more than {what}" if share < rows else what
    smoothed = "not smoothed" if not smooth else f"smoothed over {smooth:g} s"
    text = f"{smoothed}, no segment below {least:g} s"
    return (Choice("stream", {"stream.smooth": smooth, "stream.least": least}, text, reason),)
