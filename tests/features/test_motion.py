"""Motion of pictures as features: maps, memory, and the same rows however the pictures come."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pipelines.errors import InputError, UsageError
from pipelines.features.joint import FeatureStream, feature_rows
from pipelines.features.media import decode
from pipelines.features.video import build_video_extractor
from pipelines.features.video.motion import (
    MAPS,
    REACH,
    SIDE,
    WIDTH,
    MotionExtractor,
    MotionSteps,
    grey_square,
    motion_maps,
)
from tests.features.made_media import VideoTrackOptions, brightness, write_media


def extractor() -> MotionExtractor:
    built = build_video_extractor("motion")
    assert isinstance(built, MotionExtractor)
    return built


def moving_square(place: int, size: int = SIDE) -> NDArray[np.uint8]:
    """A textured square on a textured ground, `place` pixels from the left."""
    random = np.random.default_rng(0)
    image = random.integers(60, 90, (size, size, 3), dtype=np.uint8)
    image[40:100, place : place + 60] = random.integers(150, 250, (60, 60, 1), dtype=np.uint8)
    return image


def test_maps_say_where_something_moves_and_which_way() -> None:
    before, now = grey_square(moving_square(40)), grey_square(moving_square(44))
    right, down, change, size, grey = motion_maps(before, now)
    inside = (slice(6, 12), slice(6, 12))  # cells of 8 pixels
    assert right[inside].mean() > 1.0 and abs(down[inside].mean()) < 0.3
    assert np.abs(right[:, 17:]).max() < 0.2 and size[:, 15:].max() == 0.0
    assert (size >= np.abs(change) - 1e-6).all()
    assert grey.mean() == pytest.approx(0.0, abs=1e-5)
    left = motion_maps(now, before)[0]
    assert left[inside].mean() < -1.0


def test_a_still_has_no_motion() -> None:
    still = grey_square(moving_square(20))
    maps = motion_maps(still, still)
    assert maps.shape == (MAPS, 20, 20) and not maps[:4].any() and maps[4].any()


@pytest.mark.parametrize("size", [(160, 160), (90, 400), (400, 90), (33, 47), (1, 1)])
def test_the_middle_of_any_picture(size: tuple[int, int]) -> None:
    assert grey_square(np.full((*size, 3), 77, np.uint8)).tolist() == np.full((SIDE, SIDE), 77).tolist()


def test_steps_equal_the_whole_recording() -> None:
    network = extractor().network
    steps = MotionSteps(network)
    maps = torch.randn(2 * REACH + 9, MAPS, 20, 20, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        rows = np.stack([steps.step(each) for each in maps.numpy()])
        np.testing.assert_allclose(rows, network(maps), atol=1e-5, rtol=1e-5)
        # A row depends on what came up to REACH rows before it and on nothing else.
        changed = maps.clone()
        changed[0] += 1
        difference = (network(changed) - network(maps)).abs().amax(dim=1)
    assert difference[0] > 0 and not difference[REACH + 1 :].any()


def test_rows_do_not_depend_on_how_the_pictures_come() -> None:
    frames = np.stack([moving_square(20 + 3 * step) for step in range(8)])
    whole = extractor().push(frames)
    assert whole.shape == (8, WIDTH)
    for cut in (1, 3, 7):
        pieces = extractor()
        joined = np.concatenate([pieces.push(frames[:cut]), pieces.push(frames[cut:])])
        np.testing.assert_array_equal(joined, whole)
    used = extractor()
    used.push(frames)
    np.testing.assert_array_equal(used.fresh().push(frames), whole)


def test_a_picture_that_stays_is_a_row_without_motion(tmp_path: Path) -> None:
    times = [0.0, 0.1, 0.6]  # the second picture stays for five rows
    path = write_media(tmp_path / "a.mp4", VideoTrackOptions(size=(160, 160), times=times, picture=brightness))
    images = [frame.image for frame in decode(path, audio=False, video=True)]  # type: ignore[union-attr]
    stream = FeatureStream([extractor().fresh()], 0.1)
    rows = np.concatenate(list(feature_rows(decode(path, audio=False, video=True), stream)))
    shown = np.stack([images[0], *[images[1]] * 5, images[2]])
    np.testing.assert_array_equal(rows[:6], extractor().push(shown)[:6])
    assert not np.array_equal(rows[1], rows[2])


def test_what_is_no_picture_is_refused() -> None:
    with pytest.raises(InputError, match="uint8"):
        extractor().push(np.zeros((1, 4, 4, 3), np.float32))
    with pytest.raises(UsageError, match="no option 'flow'"):
        build_video_extractor("motion", options={"flow": "dis"})
    assert build_video_extractor("motion", random_weights=True).spec.weights == "random"
