"""What an exported file is, for `cotrans info`."""

from __future__ import annotations

from pathlib import Path

from pipelines.checkpoints.description import Description, stream_details
from pipelines.exporting.runtime import OnnxStep
from pipelines.untrusted.parsing import json_value


def describe_step(path: Path) -> Description:
    """Say what a file of `cotrans export` is; it is opened, and one step of it run."""
    step = OnnxStep(path).description
    takes = f"{step.input_width} inputs" if step.samples is None else f"{step.samples} samples of sound in"
    summary = f"one step of {step.name} for onnxruntime, window {step.window}, {takes}, {step.classes} classes"
    details = {
        "precision": step.precision,
        "config": json_value(step.config),
        "class_names": list(step.class_names),
        **stream_details(step),
        "largest_difference": step.difference,
    }
    return Description(path, "exported step", summary, details)
