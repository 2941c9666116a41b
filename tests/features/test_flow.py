"""Optical flow: known motion, clipping, order of channels."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from pipelines.features.video.choices import FlowMethod
from pipelines.features.video.flow import BOUND, FlowStack, to_levels
from pipelines.features.video.preprocessing import resize_mmaction


def texture(height: int = 256, width: int = 340) -> np.ndarray:
    noise = np.random.default_rng(0).uniform(0, 255, (height, width, 3)).astype(np.float32)
    smooth = cv2.GaussianBlur(noise, (0, 0), 4)
    return ((smooth - smooth.min()) / (smooth.max() - smooth.min()) * 255).astype(np.uint8)


def moving(dx: int, dy: int, count: int = 6) -> np.ndarray:
    return np.stack([np.roll(texture(), (dy * index, dx * index), axis=(0, 1)) for index in range(count)])


@pytest.mark.parametrize("method", ["dis", "farneback"])
def test_known_motion_is_found(method: FlowMethod) -> None:
    stack = FlowStack(method)(moving(3, -2))[0].numpy()
    assert stack.shape == (10, 224, 224)
    # One grey level is 40 / 255 pixels; the input is (level − 128) / 128.
    pixels = (stack * 128 + 128) / 255 * 2 * BOUND - BOUND
    for pair in range(5):
        assert np.median(pixels[2 * pair]) == pytest.approx(3, abs=0.25)
        assert np.median(pixels[2 * pair + 1]) == pytest.approx(-2, abs=0.25)


def test_channels_are_in_order_of_time() -> None:
    frames = np.stack([np.roll(texture(), shift, axis=1) for shift in (0, 1, 3, 6, 10, 15)])
    stack = FlowStack("dis")(frames)[0].numpy()
    medians = [float(np.median((stack[2 * pair] * 128 + 128) / 255 * 40 - 20)) for pair in range(5)]
    assert medians == pytest.approx([1, 2, 3, 4, 5], abs=0.3)


def test_stills_have_no_motion_and_motion_is_clipped() -> None:
    assert np.abs(FlowStack("dis")(np.repeat(texture()[None], 6, axis=0)).numpy()).max() == 0.0
    field = np.array([[[-100.0, 100.0], [0.0, -20.0], [20.0, 10.0]]], np.float32)
    assert to_levels(field)[0].tolist() == [[0, 255], [128, 0], [255, 191]]


def test_flow_is_that_of_opencv() -> None:
    frames = moving(2, 1)
    grey = [cv2.cvtColor(resize_mmaction(frame), cv2.COLOR_RGB2GRAY) for frame in frames[:2]]
    expected = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM).calc(*grey, None)
    np.testing.assert_array_equal(FlowStack("dis").field(*grey), expected)
