"""The box of labels that an overlay draws."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.streaming.output.palette import class_colours
from pipelines.streaming.predicting.prediction import Prediction

NOTHING = "#969696"  # a prediction without label
BACKGROUND = (16, 16, 20)
OPACITY = 0.72
SHARE = 0.6  # of the picture's height that the box may take


class LabelPanel:
    """Draws the best classes with bars, the time, and a strip of the newest labels, as the live view does.

    The box stands in the lower left corner, the strip below it across the whole picture, the newest label last.
    """

    def __init__(self, width: int, height: int, class_names: Sequence[str]) -> None:
        from PIL import ImageFont

        # A twentieth of the picture's height, but never too small to read nor too large for the width.
        self._size = int(max(9, min(height / 18, width / 22)))
        self._font = ImageFont.truetype(str(_font_path()), self._size)
        self._width = min(width, self._size * 17)
        self._height = height
        self._colours = class_colours(class_names)
        self._strip = np.tile(np.array(BACKGROUND, np.uint8), (max(3, self._size // 3), width, 1))
        self._drawn: tuple[Prediction, NDArray[np.uint8]] | None = None

    def draw(self, image: NDArray[np.uint8], prediction: Prediction) -> NDArray[np.uint8]:
        """(height, width, 3) RGB -> a picture of the same size."""
        panel = self._panel(prediction)
        height, width, _ = panel.shape
        picture = image.copy()
        picture[-len(self._strip) :] = self._strip
        corner = picture[: -len(self._strip)][-height:, :width]
        blended = OPACITY * panel[-corner.shape[0] :] + (1 - OPACITY) * corner
        # Text and bars are opaque, the background lets the video through.
        is_ink = (panel[-corner.shape[0] :] != np.array(BACKGROUND, np.uint8)).any(axis=2, keepdims=True)
        corner[:] = np.where(is_ink, panel[-corner.shape[0] :], blended).astype(np.uint8)
        return picture

    def _panel(self, prediction: Prediction) -> NDArray[np.uint8]:
        """Drawn once for each prediction: many frames show the same."""
        if self._drawn is None or self._drawn[0] is not prediction:
            self._remember(prediction)
            self._drawn = prediction, self._render(prediction)
        return self._drawn[1]

    def _remember(self, prediction: Prediction) -> None:
        """Move the strip on by one label; half as high while the window warms up."""
        cell = min(max(2, self._size // 4), self._strip.shape[1])
        self._strip = np.roll(self._strip, -cell, axis=1)
        self._strip[:, -cell:] = BACKGROUND
        if prediction.label is not None:
            top = len(self._strip) // 2 if prediction.warmup else 0
            self._strip[top:, -cell:] = _rgb(self._colours.get(prediction.label, NOTHING))

    def _render(self, prediction: Prediction) -> NDArray[np.uint8]:
        from PIL import Image, ImageDraw

        size, line = self._size, int(self._size * 1.5)
        # Small pictures have room for the best class only.
        rows = prediction.top[: max(1, int(SHARE * self._height / line) - 1)]
        picture = Image.new("RGB", (self._width, line * (len(rows) + 1) + size // 2), BACKGROUND)
        draw = ImageDraw.Draw(picture)
        note = "  warming up" if prediction.warmup else ""
        head = f"{prediction.time:.2f} s{note}" + ("" if prediction.label is not None else "  (no label)")
        draw.text((size // 2, size // 4), head, font=self._font, fill=(200, 200, 200))
        for place, (label, score) in enumerate(rows):
            top = line * (place + 1)
            colour = self._colours.get(label, NOTHING) if prediction.label is not None else NOTHING
            length = int((self._width - size) * score)
            draw.rectangle((size // 2, top + line - size // 4, size // 2 + length, top + line - 1), fill=colour)
            percent = f"{100 * score:.0f} %"
            right = self._width - size // 2 - draw.textlength(percent, font=self._font)
            draw.text((size // 2, top), self._shortened(draw, label, right - size), font=self._font, fill=colour)
            draw.text((right, top), percent, font=self._font, fill=colour)
        return np.asarray(picture, np.uint8)

    def _shortened(self, draw: Any, label: str, room: float) -> str:
        if draw.textlength(label, font=self._font) <= room:
            return label
        while label and draw.textlength(f"{label}…", font=self._font) > room:
            label = label[:-1]
        return f"{label}…"


def _rgb(colour: str) -> tuple[int, int, int]:
    """ "#1c8fd1" as numbers."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return red, green, blue


def _font_path() -> Path:
    """DejaVu Sans, which comes with matplotlib and knows most of the world's letters."""
    import matplotlib

    return Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans-Bold.ttf"
