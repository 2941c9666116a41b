"""None of these, from training to streaming: foreign sound, the implicit class, the rule in the checkpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from pipelines.checkpoints.checkpoint import Checkpoint, load_checkpoint
from pipelines.datasets.mixing.foreign_sound import KINDS, NOISE_RATES, RATE, foreign_sounds
from pipelines.datasets.published.digit_streams import SAMPLE
from pipelines.datasets.source import open_source
from pipelines.errors import ConfigurationError, InputError
from pipelines.features.stream_factory import StreamFactory
from pipelines.metrics.rejection import Rejection, separation
from pipelines.model import ContinualTransformer, ModelConfig
from pipelines.model.per_frame import PerFrameModel
from pipelines.model.per_frame_config import PerFrameConfig
from pipelines.streaming import PlayOptions, find_sources, open_model
from pipelines.streaming.pipeline import Stream
from pipelines.training.fitting.initial_model import model_config
from pipelines.training.fitting.losses import frame_losses
from pipelines.training.none_of_these.foreign import made_foreign
from pipelines.training.none_of_these.none_shift import with_none_shift
from pipelines.training.recipes.recipe_file import build_recipe
from pipelines.training.run import make_problem, train
from pipelines.training.samples import opening
from pipelines.training.samples.opening import open_data
from pipelines.training.samples.recordings import Recording

SECONDS = 1.5


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    """Two kinds of hum, ten clips each."""
    generator = np.random.default_rng(0)
    times = np.arange(round(SECONDS * RATE)) / RATE
    for label, pitch in (("low", 220.0), ("high", 1760.0)):
        (tmp_path / "clips" / label).mkdir(parents=True)
        for number in range(10):
            sound = 0.2 * np.sin(2 * np.pi * pitch * generator.uniform(0.97, 1.03) * times)
            sound += 0.01 * generator.standard_normal(len(times))
            soundfile.write(tmp_path / "clips" / label / f"{number}.wav", sound, RATE)
    return tmp_path / "clips"


def settings(clips: Path, **more: object) -> dict[str, object]:
    return {
        "data.dataset": "folder",
        "data.root": str(clips),
        "features.names": "logmel",
        "features.cache": str(clips.parent / "cache"),
        "features.workers": 1,
        "model.window": 6,
        "model.width": 16,
        "model.heads": 2,
        "model.feed_forward": 16,
        "optimizer.learning_rate": 1e-2,
        "training.epochs": 8,
        "training.batch_size": 8,
        "training.loss_on": "every",
        "training.standardize": True,
        "training.baseline": False,
        **more,
    }


def labels_of(checkpoint: Path, sound: np.ndarray, place: Path) -> list[str | None]:
    soundfile.write(place, sound, RATE)
    with Stream(find_sources([str(place)]), open_model(checkpoint), PlayOptions(fast=True)) as stream:
        return [prediction.label for prediction in stream]


def test_a_model_that_heard_foreign_sound_says_none(clips: Path, tmp_path: Path) -> None:
    recipe = build_recipe(None, settings(clips, **{"data.foreign": "made"}))
    result = train(recipe, tmp_path / "run", device="cpu")
    checkpoint = tmp_path / "run" / "best.safetensors"
    rule = load_checkpoint(checkpoint).rejection
    assert rule is not None and rule == result.rejection
    assert result.scores is not None and result.scores.accuracy == 1.0
    silence = np.zeros(2 * RATE)
    noise = 0.3 * np.random.default_rng(3).standard_normal(2 * RATE)
    assert set(labels_of(checkpoint, silence, tmp_path / "silence.wav")[2:]) == {None}
    assert set(labels_of(checkpoint, noise, tmp_path / "noise.wav")[2:]) == {None}
    known = 0.2 * np.sin(2 * np.pi * 1760 * np.arange(2 * RATE) / RATE) + noise / 30
    assert labels_of(checkpoint, known, tmp_path / "known.wav")[-1] == "high"


def test_foreign_recordings_that_are_not_there_are_told_before_anything_is_decoded(clips: Path, tmp_path: Path) -> None:
    decoded: list[str] = []
    recipe = build_recipe(None, settings(clips, **{"data.foreign": str(tmp_path / "nowhere")}))
    with pytest.raises(InputError, match=r"--foreign: .*nowhere is not there: name a folder of recordings"):
        train(recipe, tmp_path / "run", device="cpu", on_item=lambda done, total, name: decoded.append(name))
    assert not decoded


def test_every_clip_model_gets_a_rule_and_a_recipe_may_give_it(clips: Path, tmp_path: Path) -> None:
    fitted = train(build_recipe(None, settings(clips)), tmp_path / "fitted", device="cpu").rejection
    assert fitted is not None
    silence = labels_of(tmp_path / "fitted" / "best.safetensors", np.zeros(2 * RATE), tmp_path / "silence.wav")
    assert set(silence[2:]) == {None}  # though it was shown none
    best = (tmp_path / "fitted" / "best.safetensors").read_bytes()
    again = train(build_recipe(None, settings(clips)), tmp_path / "fitted", resume=True, device="cpu")
    assert again.rejection == fitted and (tmp_path / "fitted" / "best.safetensors").read_bytes() == best
    given = build_recipe(
        None, settings(clips, **{"training.rejection": 1.5, "training.epochs": 1, "data.options.validation": 0.0})
    )
    train(given, tmp_path / "given", device="cpu")
    assert load_checkpoint(tmp_path / "given" / "last.safetensors").rejection == Rejection("energy", 1.5)


def test_features_of_made_sounds_are_kept(clips: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    features = build_recipe(None, settings(clips)).features
    assert features.request is not None
    spec = StreamFactory(features.request).prototype().spec
    told: list[tuple[int, int]] = []
    threads = torch.get_num_threads()
    first = made_foreign(features, spec, 2, lambda done, total, name: told.append((done, total)))
    assert torch.get_num_threads() == threads
    assert [done for done, _ in told] == list(range(told[-1][1] + 1)) and len({total for _, total in told}) == 1
    heard = list(zip(first.always, foreign_sounds(5.0), strict=False))[:40:13]  # of several rates
    for recording, (kind, samples, rate) in heard:
        stream = StreamFactory(features.request).prototype()
        np.testing.assert_array_equal(
            recording.rows, np.concatenate([stream.push_audio(samples, rate), stream.flush()])
        )
        assert recording.name == kind
    made = []
    original = StreamFactory.prototype
    monkeypatch.setattr(StreamFactory, "prototype", lambda self: made.append(self) or original(self))
    (kept,) = (clips.parent / "cache").rglob("made-*.npy")
    for damage in (None, b"", kept.read_bytes()[:-100]):
        if damage is not None:
            kept.write_bytes(damage)
        again = made_foreign(features, spec, 2)
        for before, after in zip(first.fit, again.fit, strict=True):
            np.testing.assert_array_equal(before.rows, after.rows)
        assert bool(made) == (damage is not None)  # what is damaged is made again
        made.clear()


def stream_settings(tmp_path: Path) -> dict[str, object]:
    return {
        "data.dataset": "digits",
        "data.root": str(SAMPLE),
        "data.foreign": "made",
        "features.names": "logmel",
        "features.cache": str(tmp_path / "cache"),
        "features.workers": 1,
        "model.window": 6,
    }


def test_streams_have_their_background_for_foreign_sound(tmp_path: Path) -> None:
    recipe = build_recipe(None, stream_settings(tmp_path))
    data = open_data(recipe)
    assert [recording.name for recording in data.foreign.train].count("coloured noise") > 0
    assert len(data.foreign.train) == len(list(foreign_sounds(0.1))) and not data.foreign.fit
    for recording in data.foreign.train:
        assert recording.targets is not None and (recording.targets.argmax(axis=1) == data.dataset.background).all()
        assert (recording.targets.sum(axis=1) == 1).all()
    config = model_config(recipe, data.width, len(data.dataset.class_names))
    problem = make_problem(data, recipe, config, None)
    assert problem.loader.recordings == (*data.train, *data.foreign.train) and not problem.objective.none


@pytest.mark.parametrize("changes", [{"training.none": "shift"}, {"training.rejection": 1.5}], ids=str)
def test_what_is_about_the_answer_none_is_refused_for_streams(tmp_path: Path, changes: dict[str, object]) -> None:
    recipe = build_recipe(None, {**stream_settings(tmp_path), **changes})
    data = open_data(recipe)
    config = model_config(recipe, data.width, len(data.dataset.class_names))
    with pytest.raises(ConfigurationError, match=f"{next(iter(changes))} is about .*: streams have their background"):
        make_problem(data, recipe, config, None)


def test_streams_without_a_background_refuse_foreign_sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "open_source", lambda source: replace(open_source(source), background=None))
    with pytest.raises(ConfigurationError, match="no class for what is none of its events"):
        open_data(build_recipe(None, stream_settings(tmp_path)))


def test_foreign_recordings_in_a_folder(clips: Path, tmp_path: Path) -> None:
    for place, (kind, sound, rate) in enumerate(foreign_sounds(1.0, each=1)):
        (tmp_path / "foreign").mkdir(exist_ok=True)
        soundfile.write(tmp_path / "foreign" / f"{place}-{kind}.wav", sound, rate)
    recipe = build_recipe(None, settings(clips, **{"data.foreign": str(tmp_path / "foreign"), "training.epochs": 1}))
    train(recipe, tmp_path / "run", device="cpu")
    provenance = load_checkpoint(tmp_path / "run" / "best.safetensors").provenance
    assert "foreign" not in provenance["recipe"]["data"]
    wrong = settings(clips, **{"data.foreign": "made", "training.loss": "binary", "training.epochs": 1})
    with pytest.raises(ConfigurationError, match="needs the loss cross-entropy"):
        train(build_recipe(None, wrong), tmp_path / "wrong", device="cpu")


@pytest.mark.parametrize("kind", ["transformer", "per-frame"])
def test_learning_of_foreign_sound_afterwards_changes_no_probability(kind: str) -> None:
    torch.manual_seed(0)
    model: ContinualTransformer | PerFrameModel
    if kind == "per-frame":
        model = PerFrameModel(PerFrameConfig(input_width=4, classes=3))
    else:
        model = ContinualTransformer(
            ModelConfig(input_width=4, width=8, heads=2, feed_forward=8, blocks=1, window=5, classes=3)
        )
    model.eval()
    generator = np.random.default_rng(0)

    def recordings(centre: float) -> list[Recording]:
        rows = [generator.normal(centre, 1, (12, 4)).astype(np.float32) for _ in range(20)]
        return [Recording(str(place), part, 3, label=0) for place, part in enumerate(rows)]

    known, foreign = recordings(1.0), recordings(-1.0)
    before = Checkpoint(model, model.config, ("a", "b", "c"), None, {})
    after = with_none_shift(before, known, foreign)
    assert after is not None
    rows = torch.from_numpy(np.stack([recording.rows[:] for recording in (*known, *foreign)]))
    with torch.inference_mode():
        old, _ = model.steps(rows, model.initial_state(40))
        new, _ = after.model.steps(rows, after.model.initial_state(40))
    torch.testing.assert_close(new.softmax(-1), old.softmax(-1), atol=1e-5, rtol=1e-4)
    energy = new.logsumexp(-1)[:, -1]
    assert separation(energy[:20].double().numpy(), energy[20:].double().numpy()) > 0.95


def test_the_loss_has_an_implicit_class() -> None:
    logits = torch.randn(5, 3, dtype=torch.float64)
    targets = torch.eye(3, dtype=torch.float64)[[0, 1, 2, 0, 0]]
    targets[3:] = 0
    targets[4, 1] = 0.25  # mixed with a foreign recording
    extended = torch.cat([logits, torch.zeros(5, 1, dtype=torch.float64)], 1)
    wanted = torch.cat([targets, 1 - targets.sum(1, keepdim=True)], 1)
    expected = torch.nn.functional.cross_entropy(extended, wanted, reduction="none", label_smoothing=0.1)
    torch.testing.assert_close(frame_losses(logits, targets, "cross-entropy", 0.1, none=True), expected)


def test_made_sounds_are_always_the_same_and_never_too_loud() -> None:
    sounds = list(foreign_sounds(0.5, each=2))
    assert set(KINDS) == {sound.kind for sound in sounds} and sum(sound.kind == "tone" for sound in sounds) == 2
    assert {sound.rate for sound in sounds if sound.kind == "white noise"} == set(NOISE_RATES)
    for first, second in zip(sounds, foreign_sounds(0.5, each=2), strict=True):
        np.testing.assert_array_equal(first.samples, second.samples)
        assert first.rate == second.rate and first.samples.shape == (round(first.rate / 2),)
        assert np.isfinite(first.samples).all() and np.abs(first.samples).max() <= 1.0
    noises = [sound.samples for sound in sounds if sound.kind == "white noise"]
    # Where one begins after silence or ends before it, rows hear both.
    assert any(not noise[:100].any() for noise in noises) and any(not noise[-100:].any() for noise in noises)


def test_foreign_sound_by_a_shift_afterwards_changes_no_probability(clips: Path, tmp_path: Path) -> None:
    """`training.none = "shift"`: the same model as without foreign sound, which then says none to it."""
    changes = {"data.options.validation": 0.0, "training.epochs": 4}
    train(build_recipe(None, settings(clips, **changes)), tmp_path / "plain", device="cpu")
    shift = {**changes, "data.foreign": "made", "training.none": "shift", "training.rejection": 0.0}
    result = train(build_recipe(None, settings(clips, **shift)), tmp_path / "shifted", device="cpu")
    assert result.rejection == Rejection("energy", 0.0)
    plain, shifted = (load_checkpoint(tmp_path / name / "last.safetensors").model for name in ("plain", "shifted"))
    rows = torch.randn(2, 9, plain.config.input_width, generator=torch.Generator().manual_seed(0))
    logits = [model.steps(rows, model.initial_state(2))[0] for model in (plain, shifted)]
    torch.testing.assert_close(logits[0].softmax(-1), logits[1].softmax(-1), atol=1e-4, rtol=0)
    silence = labels_of(tmp_path / "shifted" / "last.safetensors", np.zeros(2 * RATE), tmp_path / "silence.wav")
    assert set(silence[2:]) == {None}


def test_changed_copies_are_trained_on_too(clips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTRANS_CACHE", str(tmp_path / "cache"))
    result = train(build_recipe(None, settings(clips, **{"data.copies": 1, "training.epochs": 2})), tmp_path / "run")
    assert result.train_recordings == 2 * (20 - result.validation_recordings)
    frames = {"data.copies": 1, "data.options.mix_streams": True}
    with pytest.raises(ConfigurationError, match="copies is for clips"):
        train(build_recipe(None, settings(clips, **frames)), tmp_path / "frames")
