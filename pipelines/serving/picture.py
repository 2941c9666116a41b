"""The newest picture of a source, small, as a page shows it."""

from __future__ import annotations

from pipelines.features.media import VideoFrame
from pipelines.pages.jpeg import jpeg_text

LARGEST = (400, 300)  # pixels
QUALITY = 65  # of JPEG


class Picture:
    """Frames are left here by the thread that plays them; few of them are ever converted."""

    def __init__(self) -> None:
        self._newest: VideoFrame | None = None
        self._written: VideoFrame | None = None
        self._number = 0
        self._text = ""

    def played(self, frame: VideoFrame) -> None:
        """From the thread that plays the source."""
        self._newest = frame

    def collect(self, number: int) -> bool:
        """Make a JPEG of the newest frame, as part of message `number`; whether there is a new one."""
        frame = self._newest
        if frame is None or frame is self._written:
            return False
        self._written, self._number = frame, number
        self._text = jpeg_text(frame.image, LARGEST, QUALITY)
        return True

    def since(self, number: int) -> str | None:
        """A text in quotes: base64 of the newest JPEG, if it came after message `number`."""
        return f'"{self._text}"' if self._number > number else None
