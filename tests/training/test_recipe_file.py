"""Recipes: round trip, layers, and errors for what nobody knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.datasets.source import open_source
from pipelines.errors import ConfigurationError, UsageError
from pipelines.model.presets import PRESETS
from pipelines.model.transformer.config import RELATIVE
from pipelines.training.recipes.recipe_file import (
    build_recipe,
    find_recipe,
    parse_recipe,
    parse_settings,
    recipe_text,
    shipped_recipes,
)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"features.directory": "x", "features.hop": 0.2}, "--hop: feature files of gtzan need none"),
        ({"features.directory": "x", "features.options.output": "tags"}, "no extractor: name it with --features"),
        ({"features.weights.vggish": "a.pth"}, "no extractor: name it with --features"),
    ],
)
def test_feature_options_that_nothing_would_use_are_refused(flags: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_source(build_recipe(None, {"data.dataset": "gtzan", **flags}).source)


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_round_trip_of_every_preset(preset: str) -> None:
    flags = {"model.preset": preset, "data.dataset": "gtzan", "data.options.split": "fault-filtered"}
    flags |= {"features.names": "vggish"}
    recipe = build_recipe(None, {**flags, "features.weights.vggish": "a file.pth", "model.window": 32})
    assert recipe.model.changes["window"] == 32
    assert parse_recipe(recipe_text(recipe)) == recipe


def test_the_papers_numbers_are_one_flag_away() -> None:
    audio = build_recipe(None, {"model.preset": "cotrans-b1"})
    assert build_recipe("paper", {"model.preset": "cotrans-b1"}) == audio
    assert (audio.optimizer.name, audio.optimizer.learning_rate, audio.optimizer.weight_decay) == ("adamw", 1e-5, 1e-4)
    assert (audio.training.batch_size, audio.training.epochs, audio.schedule.name) == (32, 50, "constant")
    detection = build_recipe("paper", {"model.preset": "cooadtr-b1"})
    assert (detection.optimizer.name, detection.optimizer.learning_rate) == ("adam", 1e-4)
    assert (detection.optimizer.weight_decay, detection.optimizer.gradient_clip) == (1e-4, 1.0)
    assert (detection.training.batch_size, detection.training.epochs) == (128, 2)
    assert (detection.schedule.name, detection.schedule.factor) == ("step", 0.1)
    assert detection.model.changes == {"dropout": 0.1}
    assert build_recipe("paper", {"model.preset": "oadtr"}).training.anticipation == 0.5
    stage1 = audio.finetune
    assert (stage1.batch_size, stage1.learning_rate, stage1.factor) == (64, 1e-4, 0.6)
    assert (stage1.patience, stage1.epochs) == (2, 100)


def test_flags_win_over_the_file_and_the_file_over_the_preset(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text('[model]\npreset = "cooadtr-b1"\n[training]\nepochs = 7\nchunk = 32\n')
    recipe = build_recipe(file, {"training.epochs": 9, "training.seed": None})
    assert (recipe.training.epochs, recipe.training.chunk, recipe.training.batch_size) == (9, 32, 128)
    assert recipe.training.least_steps == 0  # nine epochs are nine
    assert build_recipe(file).training.least_steps > 0
    assert recipe.model.preset == "cooadtr-b1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[training]\nepoch = 3\n", "unknown key 'epoch' in [training]; did you mean 'epochs'?"),
        ("[trainning]\nepochs = 3\n", "unknown section [trainning]; did you mean 'training'?"),
        ("[model]\nwidht = 3\n", "unknown key 'widht' in [model]; did you mean 'width'?"),
        ("[training]\nepochs = 2.5\n", "training.epochs must be a whole number"),
        ("[training]\nepochs = 0\n", "training.epochs must be at least 1"),
        ('[optimizer]\nname = "adagrad"\n', "optimizer.name must be one of adam, adamw, sgd"),
        ("[optimizer]\nlearning_rate = 0\n", "optimizer.learning_rate must be above 0"),
        ("[augmentation]\ntime_masks = 2\n", "time_mask (how large) go together"),
        ("[augmentation]\nwarp = 0.7\n", "augmentation.warp must be at least 0 and at most 0.5, not 0.7"),
        ("[augmentation]\nequaliser = 0.7\n", "unknown key 'equaliser' in [augmentation]; did you mean 'equalizer'?"),
        ('[training]\nrejection_by = "size"\n', "training.rejection_by must be one of energy, probability, both"),
        ('[training]\nrejection_by = "both"\n', "training.rejection_by is what training.rejection is a threshold of"),
        ("training = 3\n", "training is a section"),
        ("[training\n", "is not valid TOML"),
    ],
)
def test_what_cannot_be_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(ConfigurationError) as error:
        build_recipe(file)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_unknown_recipe_names_what_there_is() -> None:
    with pytest.raises(UsageError, match=r"one of audio, .*music-genre, oad, oadtr, sound-events"):
        build_recipe("oadd")
    assert {"audio", "oad", "oadtr"} <= set(shipped_recipes())


def test_detection_presets_have_a_recipe_of_our_own() -> None:
    streaming, regular = (build_recipe(None, {"model.preset": name}) for name in ("cooadtr-b1", "oadtr-b1"))
    assert streaming.training == regular.training and streaming.optimizer == regular.optimizer
    assert (streaming.schedule.name, streaming.training.standardize) == ("cosine", True)
    assert streaming.model.changes["positional"] in RELATIVE and "positional" not in regular.model.changes


@pytest.mark.parametrize("name", shipped_recipes())
def test_every_recipe_that_comes_with_cotrans_is_found_by_name(name: str) -> None:
    assert build_recipe(name) == build_recipe(find_recipe(name))


def test_settings_are_toml_or_text() -> None:
    flags = parse_settings(["training.epochs=4", "model.encoding=cyclic", "training.standardize=true"])
    recipe = build_recipe(None, {**flags, "data.options.split": "random", "data.options.seconds": 30.0})
    assert recipe.training.epochs == 4
    assert recipe.training.standardize is True
    assert recipe.model.changes["encoding"] == "cyclic"
    assert recipe.data.options == {"split": "random", "seconds": 30.0}
    with pytest.raises(UsageError, match=r"SECTION\.KEY=VALUE"):
        parse_settings(["epochs"])
