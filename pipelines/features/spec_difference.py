"""What sets two feature specifications apart, in words."""

from __future__ import annotations

from pipelines.features.spec import ExtractorSpec, FeatureSpec


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
        if part.options != wanted.options:
            ours, theirs = (_said(one, other) for one, other in ((part, wanted), (wanted, part)))
            return f"come from other options of {wanted.name} ({ours}, not {theirs})"
        if part.weights != wanted.weights:
            return f"come from other weights of {wanted.name}"
        if part != wanted:
            return f"come from another {wanted.name} (width {part.width}, not {wanted.width})"
    return None


def _said(part: ExtractorSpec, other: ExtractorSpec) -> str:
    """The options in which a part is not like another."""
    keys = [*part.options, *(key for key in other.options if key not in part.options)]
    different = [key for key in keys if part.options.get(key) != other.options.get(key)]
    return ", ".join(f"{key}={part.options[key]}" if key in part.options else f"no {key}" for key in different)
