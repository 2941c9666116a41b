"""`export` with plain arguments."""

from __future__ import annotations

from pathlib import Path

from pipelines.api.progress import OnProgress, Progress
from pipelines.exporting.exporter import Export, ExportOptions, Format, export_model
from pipelines.model.precision import Precision


def export(
    model: str | Path,
    out: str | Path,
    *,
    format: Format = "onnx",
    precision: Precision = "float32",
    opset: int | None = None,
    with_features: bool = False,
    on_progress: OnProgress | None = None,
) -> Export:
    """Write one step of a model, with its state as inputs and outputs, for other runtimes.

    model: a built-in model, a checkpoint or the folder of a run. with_features: sound in place of rows, for models that
    take logmel. The file is compared with the model first: where they differ by more than the precision allows,
    CheckpointError is raised and nothing is written.
    """
    report = None if on_progress is None else lambda done, total: on_progress(Progress("check", done, total))
    return export_model(model, Path(out), ExportOptions(format, precision, opset, with_features), report)
