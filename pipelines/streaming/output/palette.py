"""Colours of classes, the same in the live view and on an overlay."""

from __future__ import annotations

from collections.abc import Sequence

# Of a lightness that can be read on black and on white.
PALETTE = (
    *("#1c8fd1", "#d97300", "#2c9a4b", "#c9458f", "#7a68dd", "#d64545"),
    *("#9a8200", "#0d9494", "#9c7352", "#6f8299", "#b5537a", "#6a9412"),
)


def class_colours(class_names: Sequence[str], colours: Sequence[str] = PALETTE) -> dict[str, str]:
    """A colour for each class, by its place; they come again where there are more classes."""
    return {name: colours[place % len(colours)] for place, name in enumerate(class_names)}
