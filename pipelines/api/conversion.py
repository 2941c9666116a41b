"""`convert` with plain arguments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.api.progress import OnProgress, Progress
from pipelines.checkpoints import conversion
from pipelines.checkpoints.conversion import Conversion, ConversionOptions, Mode
from pipelines.checkpoints.foreign_files.imported import Hints


def convert(
    path: str | Path,
    out: str | Path | None = None,
    *,
    mode: Mode = "exact",
    class_names: Sequence[str] | None = None,
    drop_decoder: bool = False,
    verify: str | Path | None = None,
    force: bool = False,
    on_progress: OnProgress | None = None,
    **hints: Any,
) -> Conversion:
    """Make a streaming model of a regular checkpoint, prove that it gives the same outputs, and write it.

    out: None: FILE.cotrans.safetensors beside the input. hints: what the file does not say, as in `cotrans convert`:
    window=64, heads=8, class_token=False, norm="pre", … Where the proof fails, CheckpointError is raised and nothing is
    written.
    """
    options = ConversionOptions(
        mode=mode,
        hints=Hints(**hints),
        drop_decoder=drop_decoder,
        class_names=None if class_names is None else tuple(class_names),
        output=None if out is None else Path(out),
        force=force,
        verify=None if verify is None else Path(verify),
    )
    report = None if on_progress is None else lambda done, total: on_progress(Progress("proof", done, total))
    return conversion.convert(Path(path), options, report)
