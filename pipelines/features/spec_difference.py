"""What sets two feature specifications apart, in words."""

from __future__ import annotations

from pipelines.features.spec import FeatureSpec


def spec_difference(old: FeatureSpec, new: FeatureSpec) -> str | None:
    """The first thing in which features of `old` are not those of `new`: "have a hop of 0.25, not 0.2", or None."""
    for what, before, now in (
        ("features", old.name, new.name),
        ("a hop of", old.hop, new.hop),
        ("alignment", old.align, new.align),
    ):
        if before != now:
            return f"have {what} {before}, not {now}"
    for part, wanted in zip(old.parts, new.parts, strict=True):
        if part.weights != wanted.weights:
            return f"come from other weights of {wanted.name}"
        if part != wanted:
            return f"come from other options of {wanted.name} ({dict(part.options)}, not {dict(wanted.options)})"
    return None
