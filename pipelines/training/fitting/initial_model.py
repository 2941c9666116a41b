"""The model that a run begins with: a preset with random weights, or that of `--init`."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, cast

import torch

from pipelines.checkpoints.builtin import find_model
from pipelines.checkpoints.checkpoint import load_checkpoint, read_header
from pipelines.errors import ConfigurationError
from pipelines.features.feature_match import check_features, flags_for
from pipelines.features.spec import FeatureSpec
from pipelines.model import kinds
from pipelines.model.base_config import BaseConfig
from pipelines.model.continual_model import ContinualModel
from pipelines.model.presets import get_preset, preset
from pipelines.model.transformer.config import ModelConfig
from pipelines.training.events import Observer, Remark, nobody
from pipelines.training.recipes.recipe import Recipe
from pipelines.training.samples.statistics import FeatureStatistics, unfolded


def model_config(
    recipe: Recipe, input_width: int, classes: int, observer: Observer = nobody, background: int | None = None
) -> BaseConfig:
    """The configuration of a recipe's model for given features and classes.

    background: the class in which nothing happens, which a model that recalls its answers has to know.
    """
    options = recipe.model
    if options.init is not None:
        return _initial_config(recipe, classes, background)
    changes = dict(options.changes)
    if changes.get("recall"):
        changes.setdefault("background", background)
    chosen = get_preset(options.preset)
    regular = chosen.run == "regular" and chosen.values.get("positional") == "recycling"
    if regular and not {"positional", "encoding"} & changes.keys():
        # The paper's regular models give each place of the window its own encoding; with a table that recycles
        # and random starts, training would make the continual model out of them.
        changes["positional"] = "static"
        observer(
            Remark(f"{options.preset} is a regular model: positions are static (one for each place of the window)")
        )
    return preset(options.preset, **{**changes, "input_width": input_width, "classes": classes})


def make_model(recipe: Recipe, config: BaseConfig, seed: int, statistics: FeatureStatistics | None) -> ContinualModel:
    """A new model, or that of `--init`; the random numbers come from the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = kinds.make_model(config)
    if recipe.model.init is None:
        return model
    source = load_checkpoint(find_model(recipe.model.init)).model.float()
    weights = source.state_dict()
    own = model.state_dict()
    if source.config.classes != config.classes:  # other classes: the layers that name them begin anew
        anew = ("classifier", "reading")
        weights = {name: own[name] if any(part in name for part in anew) else value for name, value in weights.items()}
    model.load_state_dict(weights)
    return unfolded(model, statistics) if recipe.training.standardize and statistics is not None else model


def check_initial_features(init: str, given: FeatureSpec | None, width: int, observer: Observer = nobody) -> None:
    """The checkpoint that training starts from must take these features; small differences are told."""
    header = read_header(find_model(init))
    wanted = header.features
    remedy = "" if wanted is None or given is None else f"give {flags_for(given, wanted)}, as it was trained"
    if remark := check_features(given, wanted, f"--init {init}", remedy):
        observer(Remark(remark))
    if header.config.input_width != width:
        raise ConfigurationError(
            f"--init {init} takes features of width {header.config.input_width}, but these have {width}: give "
            "the features that it was trained on"
        )


def _initial_config(recipe: Recipe, classes: int, background: int | None) -> BaseConfig:
    """The configuration of the checkpoint that training starts from; only what has no weights may differ."""
    source = read_header(find_model(str(recipe.model.init))).config
    changes = copy.deepcopy(recipe.model.changes)
    dropout = changes.pop("dropout", source.dropout)
    for key, value in changes.items():
        if key not in kinds.settings_of(source.kind):
            raise ConfigurationError(
                f"model.{key}: {recipe.model.init} is a {source.kind} model, which has no such thing"
            )
        if getattr(source, key) != value:
            raise ConfigurationError(
                f"model.{key} is {value!r}, but {recipe.model.init} has {getattr(source, key)!r}: with --init the "
                "model is that of the checkpoint"
            )
    # Among other classes the one in which nothing happens is another.
    known = {"background": background} if isinstance(source, ModelConfig) and source.recall else {}
    return cast(BaseConfig, replace(cast(Any, source), dropout=dropout, classes=classes, **known))
