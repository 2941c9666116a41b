"""Training a model that recalls its answers: which class is nothing, and for which data it is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.checkpoints.checkpoint import save_checkpoint
from pipelines.errors import ConfigurationError
from pipelines.model import ContinualTransformer
from pipelines.training.fitting.initial_model import model_config
from pipelines.training.recipes.recipe import ModelOptions, Recipe
from pipelines.training.run import make_problem
from tests.training.training_problems import WIDTH, clip_data, stream_data, tiny_config, tiny_recipe, with_model


@pytest.fixture
def initial(tmp_path: Path) -> Recipe:
    """A recipe that starts from a checkpoint in which class 3 is nothing."""
    path = tmp_path / "recalling.safetensors"
    save_checkpoint(path, ContinualTransformer(tiny_config(recall=5, background=3)))
    return replace(tiny_recipe(), model=ModelOptions(init=str(path)))


def test_the_class_of_nothing_is_that_of_the_data(initial: Recipe) -> None:
    new = with_model(tiny_recipe(), recall=5)
    for recipe, background in ((new, 0), (initial, 0), (initial, None)):
        config = model_config(recipe, WIDTH, 4, background=background)
        assert (config.to_dict()["recall"], config.to_dict()["background"]) == (5, background)
    assert model_config(initial, WIDTH, 3, background=1).to_dict()["background"] == 1
    make_problem(stream_data(), new, model_config(new, WIDTH, 4, background=0), None)


def test_clips_and_labels_side_by_side_are_refused(initial: Recipe) -> None:
    for recipe in (with_model(tiny_recipe(), recall=5), initial):
        config = model_config(recipe, WIDTH, 4)
        with pytest.raises(ConfigurationError, match=r"model\.recall weighs frames"):
            make_problem(clip_data(), recipe, config, None)
        binary = replace(recipe, training=replace(recipe.training, loss="binary"))
        with pytest.raises(ConfigurationError, match=r"model\.recall weighs frames"):
            make_problem(stream_data(), binary, config, None)
