"""Augmentation changes what it says and nothing else; statistics fold away exactly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pipelines.datasets.source import FeatureOptions
from pipelines.errors import ConfigurationError
from pipelines.features.request import FeatureRequest
from pipelines.features.spec import FeatureSpec
from pipelines.features.stream_factory import StreamFactory
from pipelines.model.transformer.model import ContinualTransformer
from pipelines.training.artifacts import RunFolder
from pipelines.training.fitting.schedules import LearningRate
from pipelines.training.recipes.recipe import AugmentationOptions, DataOptions, ScheduleOptions
from pipelines.training.run import train, train_on
from pipelines.training.samples.augment import augment, warped
from pipelines.training.samples.bands import BandLayout, band_layout
from pipelines.training.samples.batching import BatchLoader
from pipelines.training.samples.sampling import Sample
from pipelines.training.samples.statistics import FeatureStatistics, feature_statistics, folded, unfolded
from tests.training.training_problems import (
    BANDS,
    WIDTH,
    clip,
    clip_data,
    stream,
    stream_data,
    tiny_config,
    tiny_recipe,
)

STATISTICS = FeatureStatistics(np.full(WIDTH, 7.0, np.float32), np.arange(1, WIDTH + 1, dtype=np.float32))


def generator() -> np.random.Generator:
    return np.random.default_rng(3)


def augmented(rows: np.ndarray, options: AugmentationOptions, spec: FeatureSpec | None = None) -> np.ndarray:
    return augment(rows, options, band_layout(options, spec, rows.shape[1]), STATISTICS, generator())


def test_masks_set_stretches_to_the_mean() -> None:
    rows = stream("a", 40, 0).rows
    masked = augmented(rows, AugmentationOptions(time_masks=1, time_mask=10))
    changed = np.flatnonzero((masked != rows).any(axis=1))
    assert 0 < len(changed) <= 10
    assert np.ptp(changed) == len(changed) - 1
    assert (masked[changed] == 7.0).all()
    masked = augmented(rows, AugmentationOptions(feature_masks=1, feature_mask=4))
    changed = np.flatnonzero((masked != rows).any(axis=0))
    assert 0 < len(changed) <= 4
    assert (masked[:, changed] == 7.0).all()
    assert (rows != 7.0).all()  # the original is left alone


def test_joined_clips_have_each_its_own_label() -> None:
    recordings = [clip(f"{label}", 5 + label, label, label) for label in range(3)]
    samples = [Sample(place, 0, len(recording), 0) for place, recording in enumerate(recordings)]
    loader = BatchLoader(recordings, None, False, AugmentationOptions(joins=1.0), positions=0, lag=0, queries=0)
    lengths = set()
    for step in range(20):
        batch = loader.load(samples, 0, step)
        for row, sample in enumerate(samples):
            length, own = batch.lengths[row], len(sample)
            lengths.add(length - own)
            assert batch.weight[row, :length].min() == 1.0
            assert (batch.tokens[row, length - own : length].numpy() == recordings[row].rows).all()
            assert (batch.targets[row, length - own : length, row] == 1.0).all()
            before = int(batch.targets[row, 0].argmax())
            assert (batch.targets[row, : length - own, before] == 1.0).all()
            assert (batch.tokens[row, : length - own].numpy() == recordings[before].rows[own - length :]).all()
    assert lengths == set(range(1, 8))


def test_only_clips_with_a_loss_everywhere_are_joined(tmp_path: Path) -> None:
    joins = AugmentationOptions(joins=0.5)
    for data, options in ((stream_data(), {}), (clip_data(), {"loss_on": "last"})):
        with pytest.raises(ConfigurationError, match=r"augmentation\.joins puts clips in a row"):
            train_on(data, replace(tiny_recipe(**options), augmentation=joins), RunFolder(tmp_path / "a"))
    result = train_on(
        clip_data(), replace(tiny_recipe(loss_on="every", epochs=15), augmentation=joins), RunFolder(tmp_path / "b")
    )
    assert result.scores is not None and result.scores.accuracy == 1.0


def test_noise_and_gain_are_in_units_of_the_deviation() -> None:
    rows = np.zeros((4000, WIDTH), np.float32)
    noisy = augmented(rows, AugmentationOptions(noise=0.5))
    np.testing.assert_allclose(noisy.std(axis=0), 0.5 * STATISTICS.deviation, rtol=0.05)
    louder = augmented(rows, AugmentationOptions(gain=0.5))
    np.testing.assert_allclose(louder / STATISTICS.deviation, louder[0, 0], rtol=1e-6)


def test_a_mask_covers_a_band_in_all_stacked_frames() -> None:
    rows = stream("a", 40, 0).rows  # six features: two frames of three bands
    masked = augmented(rows, AugmentationOptions(bands=3, feature_masks=1, feature_mask=2))
    first, second = (masked != rows).any(axis=0).reshape(2, 3)
    assert first.any() and not first.all()
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("bands", "lowest", "highest"), [(40, 0.0, 4000.0), (64, 40.0, 8000.0), (64, 300.0, 7000.0), (80, 40.0, 16000.0)]
)
def test_warping_moves_mel_bands_as_higher_frequencies_would(bands: int, lowest: float, highest: float) -> None:
    librosa = pytest.importorskip("librosa")
    hertz = librosa.mel_frequencies(n_mels=bands + 2, fmin=lowest, fmax=highest)[1:-1]
    tones = np.array([700.0, 1500.0, 2500.0, 0.7 * highest])
    options = {"sample_rate": 32000, "n_mels": bands, "lowest": lowest, "highest": highest}
    spec = StreamFactory(FeatureRequest("logmel", hop=0.1, options=options)).prototype().spec
    layout = band_layout(AugmentationOptions(warp=0.15), spec, spec.width)
    assert layout.bands == bands and layout.levels == (True, False, True)  # mean, std, max

    def frames(factor: float) -> np.ndarray:
        return np.exp(-((hertz[None] / (factor * tones[:, None]) - 1) ** 2) / 0.02).astype(np.float32)

    for factor in (0.85, 1.15):
        moved = warped(frames(1.0), factor, layout).argmax(axis=1)
        assert np.abs(moved - frames(factor).argmax(axis=1)).max() <= 1
        assert (moved[1:] != frames(1.0).argmax(axis=1)[1:]).all()
    np.testing.assert_allclose(warped(frames(1.0), 1.0, layout), frames(1.0), atol=1e-5)


def test_the_bands_of_narrow_rows_that_stack_frames() -> None:
    options = {"sample_rate": 8000, "n_mels": 24, "window": 0.3, "frames": 6, "level": "relative"}
    spec = StreamFactory(FeatureRequest("logmel", hop=0.05, options=options)).prototype().spec
    assert band_layout(AugmentationOptions(bands=24, warp=0.12), spec, 144) == BandLayout(24, knee=0.42, below=0)


def test_bands_of_default_rows_stay_with_their_statistic() -> None:
    """Rows of mean, std and max of each band: nothing moves from one to the next, and an echo has no deviation."""
    spec = StreamFactory(FeatureRequest("logmel", hop=0.1, options={"n_mels": 8})).prototype().spec
    rows = np.tile(np.repeat(np.array([1.0, 2.0, 3.0], np.float32), 8), (5, 1))
    unit = FeatureStatistics(np.zeros(24, np.float32), np.ones(24, np.float32))
    warp, equalizer = AugmentationOptions(warp=0.3), AugmentationOptions(equalizer=0.5)
    moved = augment(rows, warp, band_layout(warp, spec, 24), unit, generator())
    np.testing.assert_allclose(moved, rows, atol=1e-6)
    raised = augment(rows, equalizer, band_layout(equalizer, spec, 24), unit, generator()) - rows
    assert np.abs(raised[0, :8]).max() > 0.05 and (raised[0, 8:16] == 0).all()
    np.testing.assert_allclose(raised[0, :8], raised[0, 16:], atol=1e-6)


def test_what_the_features_do_not_allow_is_told_before_they_are_extracted(tmp_path: Path) -> None:
    def error(names: str, augmentation: AugmentationOptions) -> str:
        recipe = replace(
            tiny_recipe(),
            augmentation=augmentation,
            data=DataOptions("folder", root=str(tmp_path / "none")),  # would be the next error
            features=FeatureOptions(FeatureRequest(names, hop=0.25)),
        )
        with pytest.raises(ConfigurationError) as caught:
            train(recipe, tmp_path / "run")
        return str(caught.value)

    assert error("musicnn", AugmentationOptions(warp=0.1)) == (
        "augmentation.warp is for rows of mel bands, and these are features of musicnn: set it to 0, or use --features "
        "logmel"
    )
    assert "augmentation.equalizer is for rows of mel bands" in error(
        "musicnn+logmel", AugmentationOptions(equalizer=1)
    )
    assert error("logmel", AugmentationOptions(bands=24, feature_masks=1, feature_mask=2)) == (
        "augmentation.bands is 24, but these features are logmel with 64 bands: leave it out, or make it 64"
    )
    assert error("musicnn", AugmentationOptions(bands=60, feature_masks=1, feature_mask=2)).endswith(
        "frames of 60 bands: choose one of 2, 4, 8, 16, 32, 64, 128, 256"
    )
    for options, words in (
        (AugmentationOptions(bands=4), "rows of 6 features are not made of frames of 4 bands: choose one of 2, 3, 6"),
        (AugmentationOptions(bands=3, warp=0.1), "warp needs to know the frequencies"),
        (AugmentationOptions(equalizer=0.1), "set augmentation.bands to the bands of a frame"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            train_on(stream_data(), replace(tiny_recipe(), augmentation=options), RunFolder(tmp_path / "run"))


def test_a_warp_and_a_response_are_the_same_in_all_rows_and_frames() -> None:
    frame = np.array([0.0, 1.0, 5.0], np.float32)
    rows = np.tile(frame, (40, 2))
    moved = augmented(rows, AugmentationOptions(bands=3, warp=0.3), BANDS)
    assert (moved == moved[0]).all() and (moved[0, :3] == moved[0, 3:]).all() and (moved[0, :3] != frame).any()
    raised = augmented(rows, AugmentationOptions(bands=3, equalizer=0.5), BANDS) - rows
    curve = raised / STATISTICS.deviation
    np.testing.assert_allclose(curve, np.tile(curve[0, :3], (40, 2)), atol=1e-5)
    assert np.abs(curve[0, :3]).max() > 0.05


def load(options: AugmentationOptions, samples: list[Sample], recordings: tuple | None = None):
    data = recordings or stream_data().train
    loader = BatchLoader(data, feature_statistics(data), False, options, 15, 0, 0)
    return loader.load(samples, epoch=1, step=2)


def test_mixing_keeps_targets_and_features_together() -> None:
    samples = [Sample(0, 0, 30, 0), Sample(1, 0, 20, 0)]
    plain = load(AugmentationOptions(), samples)
    mixed = load(AugmentationOptions(mixup=0.5), samples)
    share = (
        1
        - mixed.targets[0, 10:].max(dim=1).values[plain.targets[0, 10:30].argmax(1) != plain.targets[1, :20].argmax(1)]
    )
    assert float(share.max() - share.min()) < 1e-6  # one share for the whole sample
    share = float(share[0])
    assert 0 < share <= 0.5
    # Aligned at their ends: the first ten rows have no partner.
    torch.testing.assert_close(mixed.tokens[0, :10], plain.tokens[0, :10])
    torch.testing.assert_close(mixed.tokens[0, 10:], (1 - share) * plain.tokens[0, 10:] + share * plain.tokens[1, :20])
    torch.testing.assert_close(mixed.targets.sum(dim=2)[0], torch.ones(30))


def test_speed_moves_targets_with_the_features() -> None:
    rows = np.repeat(np.arange(100, dtype=np.float32)[:, None], WIDTH, axis=1)
    targets = np.zeros((100, 4), np.float32)
    targets[np.arange(100), np.arange(100) // 25] = 1
    recording = replace(stream("a", 100, 0), rows=rows, targets=targets)
    batch = load(AugmentationOptions(speed=0.3), [Sample(0, 40, 90, 47)], (recording,))
    places = batch.tokens[0, :, 0].numpy()  # the feature is the place
    speed = np.diff(places)
    assert places[-1] == 89.0
    np.testing.assert_allclose(speed, speed[0], rtol=1e-4)
    assert 0.7 <= speed[0] <= 1.3 and abs(speed[0] - 1) > 1e-3
    np.testing.assert_array_equal(batch.targets[0].argmax(1), np.rint(places).astype(int) // 25)


def test_folding_and_unfolding_change_no_output() -> None:
    torch.manual_seed(0)
    model = ContinualTransformer(tiny_config()).eval()
    data = stream_data().train
    statistics = feature_statistics(data)
    raw = torch.from_numpy(data[0].rows[:8])[None]
    standard = torch.from_numpy(statistics.standardize(data[0].rows[:8]))[None]
    torch.testing.assert_close(folded(model, statistics)(raw), model(standard), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(unfolded(model, statistics)(standard), model(raw), rtol=1e-4, atol=1e-5)


def test_statistics_are_those_of_all_rows() -> None:
    data = stream_data().train
    rows = np.concatenate([recording.rows[:] for recording in data])
    statistics = feature_statistics(data)
    np.testing.assert_allclose(statistics.mean, rows.mean(axis=0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(statistics.deviation, rows.std(axis=0), rtol=1e-4)


def test_schedules() -> None:
    def rates(**options: object) -> list[float]:
        rate = LearningRate(ScheduleOptions(**options), 1.0, epochs=3)
        return [rate.at(epoch, step, 2) for epoch in range(3) for step in range(2)]

    assert rates(name="constant") == [1.0] * 6
    assert rates(name="step", factor=0.1) == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01])
    cosine = rates(name="cosine", factor=0.0, warm_up=1.0)
    steps = len(cosine) // 3
    assert rates(name="cosine", factor=0.0, warm_up_steps=steps) == cosine  # an epoch, said in steps
    assert cosine == pytest.approx([1 / 3, 2 / 3, 1.0, 0.853553, 0.5, 0.146447], abs=1e-5)
    plateau = LearningRate(ScheduleOptions(name="plateau", factor=0.6, patience=2), 1.0, epochs=9)
    seen = []
    for metric in (0.5, 0.4, 0.4, 0.4, 0.6, 0.6):
        plateau.epoch_done(metric)
        seen.append(plateau.at(1, 0, 1))
    assert seen == pytest.approx([1, 1, 1, 0.6, 0.6, 0.6])
