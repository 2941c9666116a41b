"""Rules for a user's own data: what is chosen, why, and that flags win."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.checkpoints.checkpoint import load_checkpoint
from pipelines.datasets.dataset import Dataset
from pipelines.datasets.item import Item, Segment
from pipelines.errors import InputError
from pipelines.features.request import FeatureRequest
from pipelines.training.recipes.data_facts import coarse_score, data_facts
from pipelines.training.recipes.own_data import FEWEST_ROWS, MOST_EPOCHS, MOST_ROWS, OWN_DATA, READING, plan_recipe
from pipelines.training.recipes.recipe import StreamDefaults
from pipelines.training.run import train
from pipelines.training.samples.opening import open_data
from tests.features.made_recordings import write_sound, write_video

LOGMEL = FeatureRequest("logmel", hop=0.1)


def clips(count: int, seconds: float) -> Dataset:
    items = [Item(f"{n}", "train", media=Path(f"{n}.wav"), label=n % 2, duration=seconds) for n in range(count)]
    return Dataset(OWN_DATA, "clips", Path("x"), ("a", "b"), tuple(items))


def write_clips(root: Path, seconds: float) -> Path:
    for number in range(4):
        for label in ("yes", "no"):
            write_sound(root / label / f"{number}.wav", seconds, seed=number)
    return root


def test_facts_of_clips_and_events() -> None:
    facts = data_facts(clips(10, 3.0), LOGMEL, "validation")
    assert (facts.length, facts.rows, facts.all_rows, facts.validation) == (3.0, 30, 300, 0)
    events = (Segment(0, 1.0, 1), Segment(5, 7.0, 1), Segment(8, 11.0, 1))
    item = Item("a", "train", media=Path("a.wav"), segments=events, duration=60.0)
    facts = data_facts(Dataset(OWN_DATA, "frames", Path("x"), ("background", "b"), (item,)), LOGMEL, "validation")
    assert (facts.length, facts.rows, facts.all_rows) == (2.0, 20, 600)


@pytest.mark.parametrize(
    ("seconds", "features", "window"),
    [
        (0.6, "speech", 8),  # 0.64 s: a whole word
        (1.5, "logmel+speech+soundnet", 4),  # half a clip of eight rows, of which each hears 1 s
        (2.9, "logmel+speech+soundnet", 8),  # a clip of twelve rows, less what a row hears
        (3.0, "musicnn+logmel+speech+soundnet", 6),  # half: a row hears 3 s
        (6.0, "musicnn+logmel+speech+soundnet", 12),
        (20.0, "musicnn+logmel+speech+soundnet", 68),
    ],
)
def test_sound_by_its_length(tmp_path: Path, seconds: float, features: str, window: int) -> None:
    planned = plan_recipe(None, {"data.dataset": OWN_DATA, "data.root": str(write_clips(tmp_path, seconds))})
    assert planned.recipe.features.request is not None
    assert planned.recipe.features.request.names == features
    assert planned.recipe.model.changes["window"] == window
    read = ["reading"] if seconds > 1.2 else []
    told = ["features", "window", *read, "learning", "variation", "stream"]
    assert [choice.what for choice in planned.choices] == told
    assert f"clips last {seconds:.3g} s" in str(planned.choices[0])


def test_recordings_with_events_are_learned_as_detection_is(tmp_path: Path) -> None:
    lines = ["file,start,end,label"]
    for number in range(4):
        write_sound(tmp_path / f"{number}.wav", 20.0, seed=number)
        lines += [f"{number}.wav,2,5,bark", f"{number}.wav,9,12,bell"]
    (tmp_path / "labels.csv").write_text("\n".join(lines) + "\n")
    recipe = plan_recipe(None, {"data.dataset": OWN_DATA, "data.root": str(tmp_path)}).recipe
    changes = recipe.model.changes
    assert (changes["window"], changes["positional"], changes["embedding"]) == (12, "relative", 256)
    assert recipe.training.cold_chunks and recipe.training.chunk == 64 and recipe.augmentation.mixup == 0.4
    assert changes["shortcut"] == "concatenate" and recipe.optimizer.learning_rate == 1e-3
    other = plan_recipe(None, {"data.dataset": OWN_DATA, "data.root": str(tmp_path), "model.preset": "trans-b1"})
    assert "embedding" not in other.recipe.model.changes and "positional" not in other.recipe.model.changes


def test_clips_are_shown_in_a_row_where_the_model_can_take_them(tmp_path: Path) -> None:
    data = {"data.dataset": OWN_DATA, "data.root": str(write_clips(tmp_path, 2.0)), "features.names": "logmel"}
    recipe = plan_recipe(None, data).recipe
    assert recipe.augmentation.joins == 0.5 and recipe.model.changes["embedding"] == 256
    unfit = ({"model.preset": "cotrans-b2"}, {"training.loss_on": "last"}, {"model.positional": "static"})
    for flags in (*unfit, {"training.sampling": "window"}, {"model.blocks": 2}, {"model.decoder_blocks": 1}):
        other = plan_recipe(None, {**data, **flags})
        assert other.recipe.augmentation.joins == 0.0
        assert not any("in a row" in str(choice) for choice in other.choices)


def test_clips_are_read_where_the_model_can_have_a_reading(tmp_path: Path) -> None:
    data = {"data.dataset": OWN_DATA, "data.root": str(write_clips(tmp_path, 2.0)), "features.names": "logmel"}
    planned = plan_recipe(None, data)
    assert planned.recipe.model.changes["reading"] == READING
    assert any(str(choice).startswith("reading ") for choice in planned.choices)
    assert planned.recipe.model.changes["reading_evidence"]
    assert plan_recipe(None, {**data, "model.lag": 0}).recipe.model.changes["reading"] == READING
    taught = {**data, "data.foreign": "made"}  # by recordings that it is trained on
    assert not plan_recipe(None, taught).recipe.model.changes["reading_evidence"]
    assert plan_recipe(None, {**taught, "training.none": "shift"}).recipe.model.changes["reading_evidence"]
    assert "reading_evidence" not in plan_recipe(None, {**data, "model.reading": 0.0}).recipe.model.changes
    for flags in ({"model.lag": 2}, {"training.loss": "binary"}, {"model.decoder_blocks": 1}, {"model.recall": 4}):
        other = plan_recipe(None, {**data, **flags})
        assert "reading" not in other.recipe.model.changes
        assert not any("reading" in str(choice) for choice in other.choices)


@pytest.mark.parametrize("seconds", [0.6, 2.0, 4.0])
def test_sounds_are_played_in_a_row_where_the_model_can_take_them(seconds: float, tmp_path: Path) -> None:
    data = {"data.dataset": OWN_DATA, "data.root": str(write_clips(tmp_path, seconds))}
    planned = plan_recipe(None, data)
    assert planned.recipe.data.in_a_row and planned.recipe.augmentation.joins == 0.0
    assert any("clips in a row with pauses" in str(choice) for choice in planned.choices)
    for flags in ({"model.preset": "cotrans-b2"}, {"training.loss_on": "last"}):
        assert not plan_recipe(None, {**data, **flags}).recipe.data.in_a_row
    other = plan_recipe(None, {**data, "features.names": "logmel"}).recipe  # which may be of anything
    assert not other.data.in_a_row and other.augmentation.joins == 0.5


def test_the_best_epoch_of_words_is_that_of_the_smallest_loss(tmp_path: Path) -> None:
    words, clips = write_clips(tmp_path / "words", 0.6), write_clips(tmp_path / "clips", 2.0)
    short, long = (plan_recipe(None, {"data.dataset": OWN_DATA, "data.root": str(root)}) for root in (words, clips))
    assert short.recipe.training.metric == "loss" and long.recipe.training.metric == "auto"
    assert [any("smallest loss" in str(choice) for choice in plan.choices) for plan in (short, long)] == [True, False]
    own = {"data.dataset": OWN_DATA, "data.root": str(words), "training.metric": "accuracy"}
    assert plan_recipe(None, own).recipe.training.metric == "accuracy"


def test_clips_that_only_time_tells_apart_are_learned_without_a_flag(tmp_path: Path) -> None:
    """Both kinds of row are in clips of either class: one kind alone, or both in turn."""
    generator = np.random.default_rng(0)
    kinds = generator.normal(size=(2, 8))
    for number in range(80):
        for label in ("alone", "both"):
            places = np.full(12, number % 2) if label == "alone" else (np.arange(12) + number) // 3 % 2
            (tmp_path / "clips" / label).mkdir(exist_ok=True, parents=True)
            rows = kinds[places] + generator.normal(0, 0.3, (12, 8))
            np.save(tmp_path / "clips" / label / f"{number}.npy", rows.astype(np.float32))
    planned = plan_recipe(None, {"data.dataset": OWN_DATA, "data.root": str(tmp_path / "clips")})
    result = train(planned.recipe, tmp_path / "run", device="cpu")
    assert result.baseline is not None and result.last_scores is not None and result.last_scores.accuracy is not None
    assert result.last_scores.accuracy > result.baseline.best + 0.2
    assert not result.below_baseline


def test_segments_of_words_are_three_rows_at_least(tmp_path: Path) -> None:
    planned = plan_recipe(None, {"data.dataset": OWN_DATA, "data.root": str(write_clips(tmp_path, 0.4))})
    assert planned.recipe.stream == StreamDefaults(smooth=0.0, least=0.24)
    reason = "3 rows, which are more than 0.45 of a clip"
    assert str(planned.choices[-1]).endswith(f"not smoothed, no segment below 0.24 s: {reason}")


def test_the_checkpoint_says_how_a_stream_is_told(tmp_path: Path) -> None:
    """From the length of the clips to the segments that `cotrans stream` tells of without a flag."""
    data = {"data.dataset": OWN_DATA, "data.root": str(write_clips(tmp_path / "clips", 4.0))}
    flags = {**data, "features.names": "logmel", "features.cache": str(tmp_path / "cache"), "training.epochs": 1}
    planned = plan_recipe(None, flags)
    assert planned.recipe.stream == StreamDefaults(smooth=1.0, least=1.8)
    assert str(planned.choices[-1]).endswith("smoothed over 1 s, no segment below 1.8 s: 0.45 of a clip")
    train(planned.recipe, tmp_path / "run", device="cpu")
    for name in ("best", "last"):  # also after the rule for none of these was written into them
        checkpoint = load_checkpoint(tmp_path / "run" / f"{name}.safetensors")
        assert (checkpoint.smoothing, checkpoint.least) == (1.0, 1.8) and checkpoint.rejection is not None
    own = plan_recipe(None, {**flags, "stream.least": 0.0}).recipe.stream
    assert own == StreamDefaults(smooth=1.0, least=0.0)


def test_pictures_without_sound_are_watched(tmp_path: Path) -> None:
    for number in range(3):
        for label in ("up", "down"):
            write_video(tmp_path / label / f"{number}.mp4", 1.0, audio=False)
    planned = plan_recipe(None, {"data.dataset": OWN_DATA, "data.root": str(tmp_path)})
    request = planned.recipe.features.request
    assert request is not None and (request.names, request.hop) == ("efficientnet_lite0", 0.12)
    assert planned.recipe.augmentation.gain == 0.0


def test_clips_are_copied_unless_they_are_words(tmp_path: Path) -> None:
    for number in range(3):
        for label in ("up", "down"):
            write_video(tmp_path / "silent" / label / f"{number}.mp4", 1.0, audio=False)
            write_video(tmp_path / "both" / label / f"{number}.mp4", 2.0)
    sets = {"silent": 1, "both": 1, "sound": 1, "brief": 1, "words": 0}
    for name, seconds in (("sound", 4.0), ("brief", 2.0), ("words", 0.6)):
        write_clips(tmp_path / name, seconds)
    for name, copies in sets.items():
        planned = plan_recipe(None, {"data.dataset": OWN_DATA, "data.root": str(tmp_path / name)})
        assert planned.recipe.data.copies == copies, name
        assert ("a changed copy of each" in str(planned.choices)) == bool(copies)
    named = {"data.dataset": OWN_DATA, "data.root": str(tmp_path / "sound"), "features.names": "logmel"}
    assert plan_recipe(None, named).recipe.data.copies == 0


@pytest.mark.parametrize(
    ("kinds", "features", "said"),
    [
        ("s" * 11 + "v", "logmel+speech+soundnet", "sound in 11 of 12 files, and those without are left out"),
        ("v" * 11 + "b", "efficientnet_lite0", "the files hold pictures, sound in 1, which is not heard"),
        ("v" * 11 + "s", "efficientnet_lite0", "pictures in 11 of 12 files, and those without are left out"),
        ("s" * 11 + "b", "logmel+speech+soundnet", "the files hold sound, pictures in 1, which are not watched"),
        (
            "b" * 11 + "v",
            "efficientnet_lite0+logmel+speech+soundnet",
            "pictures and sound in 11 of 12 files, and those without",
        ),
        ("b" * 12, "efficientnet_lite0+logmel+speech+soundnet", "the files hold pictures and sound; "),
        ("b" * 6 + "v" * 6, "efficientnet_lite0", "the files hold pictures, sound in 6"),
        ("v" * 6 + "s" * 6, "logmel+speech+soundnet", "sound in 6 of 12 files"),
    ],
)
def test_features_are_of_what_most_files_hold(tmp_path: Path, kinds: str, features: str, said: str) -> None:
    for number, kind in enumerate(kinds):
        path = tmp_path / ("up", "down")[number % 2] / f"{number}"
        if kind == "s":
            write_sound(path.with_suffix(".wav"), 2.0, seed=number)
        else:
            write_video(path.with_suffix(".mp4"), 2.0, audio=kind == "b", seed=number)
    planned = plan_recipe(None, {"data.dataset": OWN_DATA, "data.root": str(tmp_path)})
    assert planned.recipe.features.request is not None
    assert planned.recipe.features.request.names == features
    assert said in str(planned.choices[0])


def test_files_without_the_wanted_track_are_left_out_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTRANS_CACHE", str(tmp_path / "cache"))
    clips = write_clips(tmp_path / "clips", 1.5)
    write_video(clips / "yes" / "silent.mp4", 1.5, audio=False)
    told: list[str] = []
    recipe = plan_recipe(None, {"data.dataset": OWN_DATA, "data.root": str(clips)}).recipe
    data = open_data(recipe, remark=told.append)
    names = {item.name for item in data.dataset.items}
    assert "yes/silent" not in names and len([name for name in names if ", copy" not in name]) == 8
    assert any("silent.mp4" in text for text in told)


def test_flags_are_not_decided_again(tmp_path: Path) -> None:
    flags = {"data.dataset": OWN_DATA, "data.root": str(write_clips(tmp_path, 2.0)), "model.window": 5}
    flags |= {"features.names": "logmel", "features.hop": 0.1, "optimizer.learning_rate": 1e-4}
    recipe = plan_recipe(None, flags).recipe
    assert recipe.features.request == LOGMEL
    assert (recipe.model.changes["window"], recipe.optimizer.learning_rate) == (5, 1e-4)
    only_hop = {key: value for key, value in flags.items() if key != "features.names"}
    request = plan_recipe(None, only_hop).recipe.features.request
    assert request is not None and (request.names, request.hop) == ("logmel+speech+soundnet", 0.1)


def test_what_is_said_of_the_choices_names_the_flags_that_win(tmp_path: Path) -> None:
    flags = {"data.dataset": OWN_DATA, "data.root": str(write_clips(tmp_path, 2.0)), "training.epochs": 3}
    texts = {choice.what: str(choice) for choice in plan_recipe(None, flags).choices}
    assert texts["learning"].endswith("; yours: epochs 3") and "epochs of 2 steps, " in texts["learning"]
    assert "yours" not in texts["window"] + texts["features"] + texts["variation"]


def test_feature_files_without_a_rate_count_in_rows(tmp_path: Path) -> None:
    for number in range(4):
        for label in ("a", "b"):
            (tmp_path / label).mkdir(exist_ok=True)
            np.save(tmp_path / label / f"{label}{number}.npy", np.zeros((20, 3), np.float32))
    planned = plan_recipe(None, {"data.dataset": OWN_DATA, "data.root": str(tmp_path)})
    assert planned.recipe.features.request is None
    assert planned.recipe.model.changes["window"] == 20
    assert "20 rows: a whole clip" in str(planned.choices[0])
    assert planned.recipe.stream == StreamDefaults()  # nobody knows how many seconds a row is


def test_a_recipe_a_preset_dataset_or_nothing_to_look_at_is_left_alone(tmp_path: Path) -> None:
    data = {"data.dataset": OWN_DATA, "data.root": str(write_clips(tmp_path, 2.0))}
    assert plan_recipe("paper", data).choices == ()
    assert plan_recipe("sound-events", data).choices == ()
    assert plan_recipe(None, {"data.dataset": "gtzan", "data.root": "nowhere"}).choices == ()
    assert plan_recipe(None, {"data.dataset": OWN_DATA}).choices == ()


@settings(deadline=None)
@given(count=st.integers(2, 500), seconds=st.floats(0.1, 600), hop=st.sampled_from([0.05, 0.25, 1.0]))
def test_rules_stay_within_their_bounds(count: int, seconds: float, hop: float) -> None:
    from pipelines.training.recipes.own_data import _learning, _regularisation, _window

    facts = data_facts(clips(count, seconds), FeatureRequest("logmel", hop=hop), "validation")
    window = _window(facts).values["model.window"]
    assert FEWEST_ROWS <= window <= MOST_ROWS and window <= max(FEWEST_ROWS, facts.rows)
    learning = _learning(facts, _regularisation(facts)).values
    assert 1 <= learning["training.epochs"] <= MOST_EPOCHS and learning["training.early_stop"] == 0
    assert _regularisation(facts).values["augmentation.time_mask"] >= 1


def test_a_coarse_score_is_said() -> None:
    assert coarse_score(0) is None and coarse_score(20) is None
    assert "one of them is 12 points" in str(coarse_score(8))
    assert str(coarse_score(1)).startswith("only 1 recording to")
    assert "accuracy" not in str(coarse_score(1, clips=False))  # events have mAP


def test_one_label_is_refused_before_anything_is_decoded(tmp_path: Path) -> None:
    for number in range(3):
        write_sound(tmp_path / "a" / f"{number}.wav", 1.0, seed=number)
    decoded: list[object] = []
    flags = {"data.dataset": OWN_DATA, "data.root": str(tmp_path), "features.names": "logmel"}
    with pytest.raises(InputError, match="'a' is the only label"):
        plan_recipe(None, flags)  # nor is anything chosen for it
    with pytest.raises(InputError, match="'a' is the only label"):
        open_data(plan_recipe("paper", flags).recipe, on_item=lambda *item: decoded.append(item))
    assert not decoded
