"""Made videos, on which models of pictures learn to say "none of these"."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest

from pipelines.checkpoints.checkpoint import load_checkpoint
from pipelines.datasets.mixing.foreign_video import ALWAYS_FOREIGN, COUNTS, KINDS, foreign_videos, made_video
from pipelines.datasets.source import FeatureOptions
from pipelines.features.request import FeatureRequest
from pipelines.features.stream_factory import StreamFactory
from pipelines.streaming import open_model
from pipelines.training.none_of_these.foreign import made_foreign
from pipelines.training.recipes.recipe_file import build_recipe
from pipelines.training.run import train
from tests.streaming.made_streams import played

PICTURES = FeatureRequest("efficientnet_lite0", hop=0.5, random_weights=True)
BOTH = FeatureRequest("efficientnet_lite0+logmel", hop=0.5, random_weights=True)


def test_made_videos_are_always_the_same() -> None:
    videos = list(foreign_videos(1.0))
    assert {video.kind: sum(other.kind == video.kind for other in videos) for video in videos} == COUNTS
    assert set(ALWAYS_FOREIGN) < set(KINDS)
    for kind in KINDS:
        first, again = (made_video(kind, 1, 1.0) for _ in range(2))
        shown = [frame.image for frame in first.frames()]
        assert len(shown) == 20 and {picture.shape for picture in shown} == {(256, 256, 3)}
        for one, other in zip(shown, again.frames(), strict=True):
            np.testing.assert_array_equal(one, other.image)
    moving = [frame.image for frame in made_video("noise", 0, 1.0).frames()]
    assert not np.array_equal(moving[0], moving[1])
    fading = [frame.image.mean() for frame in made_video("fade", 1, 1.0).frames()]
    assert fading[0] == 0 and all(np.diff(fading) >= 0) and fading[-1] > 90


@pytest.mark.parametrize("request_of", [PICTURES, BOTH], ids=["pictures", "both"])
def test_made_videos_go_through_the_extractors_once(
    request_of: FeatureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.training.none_of_these.foreign.VIDEO_SECONDS", 0.5)
    few = dict.fromkeys(COUNTS, 1)
    monkeypatch.setattr("pipelines.datasets.mixing.foreign_video.COUNTS", few)
    options = FeatureOptions(request=request_of, cache=str(tmp_path))
    spec = StreamFactory(request_of).prototype().spec
    told: list[str] = []
    made = made_foreign(options, spec, 3, lambda done, total, name: told.append(name))
    names = [recording.name for recording in made.fit]
    assert made.always and all(recording.rows.shape[1] == spec.width for recording in made.fit)
    if request_of is PICTURES:
        assert set(names) == set(COUNTS) and not made.weather and told[0] == "foreign: black"
    else:
        assert "silence with black" in names and any(name.startswith("white noise with") for name in names)
        assert all(recording.name.split(" with ")[0] in ("silence", "white noise") for recording in made.always)
        assert {recording.name.split(" with ")[0] for recording in made.weather} == {"coloured noise", "band of noise"}
    monkeypatch.setattr(StreamFactory, "prototype", lambda self: pytest.fail("they are kept"))
    for before, after in zip(made.fit, made_foreign(options, spec, 3).fit, strict=True):
        np.testing.assert_array_equal(before.rows, after.rows)


def write_clip(path: Path, picture: np.ndarray, seed: int, seconds: float = 1.5, grain: float = 6.0) -> Path:
    """A picture that moves a little, with grain."""
    path.parent.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(seed)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=10, options={"crf": "18"})
        stream.height, stream.width, stream.pix_fmt = *picture.shape[:2], "yuv420p"
        place = generator.integers(-12, 13, 2)
        for _ in range(round(seconds * 10)):
            place = place + generator.integers(-2, 3, 2)
            shown = np.roll(picture, tuple(place), (0, 1)) + generator.normal(0, grain, picture.shape)
            frame = av.VideoFrame.from_ndarray(np.clip(shown, 0, 255).astype(np.uint8), "rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def thing(kind: str) -> np.ndarray:
    """A round or a square thing on a lawn below a sky."""
    rows, columns = np.mgrid[0:96, 0:96]
    picture = np.where(rows[..., None] < 40, [140, 180, 230], [60, 130, 50]).astype(np.float64)
    apart = np.hypot(rows - 56, columns - 48) if kind == "round" else np.maximum(abs(rows - 56), abs(columns - 48))
    picture[apart < 22] = [200, 60, 40] if kind == "round" else [230, 220, 90]
    return picture


def test_a_model_of_video_has_no_name_for_black_and_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTRANS_CACHE", str(tmp_path / "cache"))
    for kind in ("round", "square"):
        for number in range(10):
            write_clip(tmp_path / "clips" / kind / f"{number}.mp4", thing(kind), number)
    settings = {
        "data.dataset": "folder",
        "data.root": str(tmp_path / "clips"),
        "data.options.validation": 0.3,
        "features.names": "efficientnet_lite0",
        "features.hop": 0.25,
        "features.workers": 1,
        "model.window": 6,
        "model.positional": "none",
        "optimizer.learning_rate": 1e-3,
        "training.epochs": 8,
        "training.loss_on": "every",
        "training.standardize": True,
    }
    result = train(build_recipe(None, settings), tmp_path / "run", device="cpu")
    assert result.rejection is not None
    model = tmp_path / "run" / "best.safetensors"
    assert load_checkpoint(model).rejection == result.rejection
    black, noise = np.zeros((96, 96, 3)), np.full((96, 96, 3), 128.0)
    assert set(labels_of(model, write_clip(tmp_path / "black.mp4", black, 0, grain=0.0))) == {None}
    # Six clips to fit a rule on may not be turned away for all noise, and x264 gives other bytes in each run.
    grainy = labels_of(model, write_clip(tmp_path / "noise.mp4", noise, 0, grain=60.0))
    assert grainy.count(None) >= len(grainy) / 2
    assert labels_of(model, write_clip(tmp_path / "known.mp4", thing("round"), 99))[-1] == "round"


def labels_of(model: Path, path: Path) -> list[str | None]:
    return [prediction.label for prediction in played([path], open_model(model))]
