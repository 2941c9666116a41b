"""Three ways to run a model, one result; and what happens to recordings that cannot be used."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from pipelines.errors import CheckpointError, ConfigurationError, InputError
from pipelines.model import ContinualTransformer, ModelConfig
from pipelines.running.agreement import compare_runs, require_agreement
from pipelines.running.runner import MODES, Mode, Recording, Run, run_model, speed_of

BASE: dict[str, Any] = {
    "input_width": 6, "width": 8, "heads": 2, "feed_forward": 12, "blocks": 1, "window": 5, "classes": 4,
}  # fmt: skip
VARIANTS: dict[str, dict[str, Any]] = {
    "one block": {},
    "two blocks": {"blocks": 2, "encoding": "cyclic"},
    "static, pre-norm": {"blocks": 2, "positional": "static", "norm": "pre"},
    "class token": {"blocks": 2, "class_token_block": 1, "positional": "static"},
    "deep": {"blocks": 3, "stacking": "deep"},
    "lag": {"lag": 2},
    "decoder": {
        "blocks": 2, "class_token_block": 1, "positional": "static", "norm": "pre",
        "decoder_blocks": 1, "decoder_queries": 3, "decoder_heads": 2, "decoder_feed_forward": 8,
    },
}  # fmt: skip
LENGTHS = (1, 3, 5, 23, 8, 23)


def build(**changes: Any) -> ContinualTransformer:
    torch.manual_seed(0)
    return ContinualTransformer(ModelConfig(**{**BASE, **changes})).eval()


def streams(lengths: tuple[int, ...] = LENGTHS, width: int = 6) -> list[Recording]:
    generator = np.random.default_rng(0)
    return [
        Recording.of(f"video {index}", generator.standard_normal((length, width), dtype=np.float32))
        for index, length in enumerate(lengths)
    ]


def runs(model: ContinualTransformer, recordings: list[Recording]) -> list[Run]:
    return [run_model(model, recordings, mode) for mode in MODES]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_modes_agree(variant: str) -> None:
    model = build(**VARIANTS[variant])
    results = runs(model, streams())
    for run in results:
        assert [len(outputs.logits) for outputs in run.outputs.values()] == list(LENGTHS)
        assert list(run.outputs) == [f"video {index}" for index in range(len(LENGTHS))]
    agreement = compare_runs(results)
    assert 0 <= agreement.relative < 2e-5
    assert agreement.same_class == 1.0
    require_agreement(agreement)
    if model.decoder is not None:
        first, *others = [run.outputs["video 3"].anticipation for run in results]
        assert first is not None and first.shape == (23, 3, 4)
        for other in others:
            np.testing.assert_allclose(other, first, atol=1e-5)


def test_window_is_the_regular_model() -> None:
    model = build(blocks=2)
    recording = streams((17,))[0]
    tokens = torch.from_numpy(recording.open()[:])[None]
    result = run_model(model, [recording], "window").outputs["video 0"].logits
    for row in range(17):
        first = max(0, row - 4)
        with torch.no_grad():
            expected = model(tokens[:, first : row + 1], start=first)[0]
        np.testing.assert_allclose(result[row], expected.numpy(), atol=1e-6)


def test_a_deep_stack_sees_further_than_its_window() -> None:
    assert build(**VARIANTS["deep"]).config.receptive_field == 3 * 4 + 1
    assert build(blocks=3).config.receptive_field == 5


def test_long_recordings_are_cut_into_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.running.passes._CHUNK_TOKENS", 64)
    monkeypatch.setattr("pipelines.running.passes._FLOATS", 1)  # every recording alone
    results = [run_model(build(), streams((200, 150)), mode) for mode in ("stream", "chunk")]
    assert compare_runs(results).relative < 2e-5


def test_a_difference_above_tolerance_is_an_error() -> None:
    first, second, _ = runs(build(), streams())
    changed = second.outputs["video 3"].logits.copy()
    changed[7, 2] += 0.5
    outputs = {**second.outputs, "video 3": replace(second.outputs["video 3"], logits=changed)}
    agreement = compare_runs([first, replace(second, outputs=outputs)])
    assert (agreement.recording, agreement.row, agreement.modes) == ("video 3", 7, ("stream", "chunk"))
    assert agreement.absolute == pytest.approx(0.5, abs=1e-4)
    with pytest.raises(CheckpointError, match=r"stream and chunk differ by .* in video 3, row 7"):
        require_agreement(agreement)
    changed[7, 2] = np.nan
    for pair in ([first, replace(second, outputs=outputs)], [replace(second, outputs=outputs), first]):
        with pytest.raises(CheckpointError, match=r"differ by inf .* in video 3, row 7"):
            require_agreement(compare_runs(pair))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("workers", [0, 2])
def test_damaged_recordings_are_reported_and_do_not_disturb_others(mode: Mode, workers: int) -> None:
    model = build()
    good = streams((9, 9, 9))
    bad = np.array(good[1].open()[:])
    bad[4, 2] = np.nan

    def unreadable() -> Any:
        raise InputError("broken.npy: not a readable .npy file")

    recordings = [
        good[0],
        Recording.of("nan", bad),
        Recording("broken", unreadable),
        good[1],
        Recording.of("empty", np.zeros((0, 6), np.float32)),
        good[2],
    ]
    run = run_model(model, recordings, mode, workers=workers)
    assert list(run.outputs) == ["video 0", "video 1", "video 2"]
    reasons = {damage.name: damage.reason for damage in run.damaged}
    assert set(reasons) == {"nan", "broken", "empty"}
    assert "NaN" in reasons["nan"] and "broken.npy" in reasons["broken"] and "no rows" in reasons["empty"]
    alone = run_model(model, [good[1]], mode)
    np.testing.assert_allclose(run.outputs["video 1"].logits, alone.outputs["video 1"].logits, atol=1e-6)


def test_what_cannot_run_is_one_line() -> None:
    model = build()
    with pytest.raises(ConfigurationError, match="video 0: the features have 7 numbers per row, but the model takes 6"):
        run_model(model, streams((4,), width=7), "chunk")
    with pytest.raises(InputError, match="no recording to run"):
        run_model(model, [], "chunk")
    with pytest.raises(InputError, match="could be used; the first, video 0: it has no rows"):
        run_model(model, streams((0,)), "chunk")
    with pytest.raises(InputError, match="two recordings have the name"):
        run_model(model, streams((3,)) * 2, "chunk")
    with pytest.raises(ConfigurationError, match="unknown mode"):
        run_model(model, streams(), "fast")  # type: ignore[arg-type]
    nan = Recording.of("nan", np.full((3, 6), np.nan, np.float32))
    with pytest.raises(InputError, match="could be used; the first, nan: its features hold NaN"):
        run_model(model, [nan], "stream")
    with pytest.raises(InputError, match="two runs"):
        compare_runs(runs(model, streams())[:1])
    with pytest.raises(InputError, match="same recordings"):
        compare_runs([run_model(model, streams((3,)), "chunk"), run_model(model, streams((3, 4)), "chunk")])


def test_progress_and_speed() -> None:
    seen: list[tuple[int, int]] = []
    run = run_model(build(), streams((20, 30)), "stream", on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(20, 50), (50, 50)]
    assert run.frames == 50 and run.step_seconds is not None and len(run.step_seconds) == 50
    speed = speed_of(replace(run, seconds=5.0, step_seconds=np.arange(1, 101) * 1e-6), hop=0.25)
    assert (speed.frames_per_second, speed.real_time_factor) == (10.0, 2.5)
    assert speed.step_us_median == pytest.approx(50.5) and speed.step_us_p95 == pytest.approx(95.05)
    chunk = speed_of(run_model(build(), streams((20,)), "chunk"))
    assert chunk.step_us_median is None and chunk.real_time_factor is None


@pytest.mark.parametrize("sizes", [{}, {"blocks": 2, "encoding": "cyclic"}, {"blocks": 2, "stacking": "deep"}])
def test_every_row_of_a_model_with_a_lag_is_spoken_of(sizes: dict[str, Any]) -> None:
    """By the outputs at later rows, and for the last rows by the same model with a smaller lag at the end."""
    model = build(lag=3, **sizes)
    shorter = [run_model(model.with_lag(lag), streams(), "window") for lag in range(3)]
    for run in runs(model, streams()):
        for name, outputs in run.outputs.items():
            about, rows = outputs.about_rows(3), len(outputs.logits)
            assert len(about.logits) == rows
            np.testing.assert_array_equal(about.logits[: max(0, rows - 3)], outputs.logits[3:])
            for lag in range(min(3, rows)):
                expected = shorter[lag].outputs[name].logits[-1]
                np.testing.assert_allclose(about.logits[rows - 1 - lag], expected, atol=1e-5)
    twin = model.with_lag(1)
    assert twin.config.lag == 1 and model.config.lag == 3
    assert twin.classifier.weight is model.classifier.weight
