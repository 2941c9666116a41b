"""`extract` with plain arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

from pipelines.api.progress import OnProgress, Progress
from pipelines.features.extraction import run
from pipelines.features.extraction.run import ExtractionOptions, Summary
from pipelines.features.files.npy_writer import Dtype
from pipelines.features.request import FeatureRequest
from pipelines.features.spec import Align, Option
from pipelines.shard import Shard


def extract(
    sources: str | PathLike[str] | Sequence[str | PathLike[str]],
    out: str | Path,
    features: str = "auto",
    *,
    hop: float | None = None,
    fps: float | None = None,
    align: Align = "causal",
    options: Mapping[str, Option] | None = None,
    weights: Mapping[str, str] | None = None,
    random_weights: bool = False,
    dtype: Dtype = "float32",
    layout: str = "npy",
    workers: int = 1,
    device: str = "auto",
    force: bool = False,
    shard: tuple[int, int] = (1, 1),
    on_progress: OnProgress | None = None,
) -> Summary:
    """Extract the features of files, folders and globs into a folder; what is complete there is skipped.

    features: extractors joined by "+", such as "resnet50+vggish"; "auto": by what the files hold. hop: seconds between
    rows. options: of the extractors, {"n_mels": 40} or {"logmel.n_mels": 40}. weights: file or known name by extractor.
    shard: (2, 8) is the second of eight shares of the files, which jobs that know nothing of each other take.
    Bad inputs do not stop the others: they are in `problems` of the result.
    """
    names = [sources] if isinstance(sources, (str, PathLike)) else list(sources)
    request = FeatureRequest(
        features,
        hop=hop,
        fps=fps,
        align=align,
        options=dict(options or {}),
        weights=dict(weights or {}),
        random_weights=random_weights,
    )

    def report(progress: run.Progress) -> None:
        if on_progress is not None:
            on_progress(Progress("features", progress.bytes_done, progress.bytes_total, progress.current))

    chosen = ExtractionOptions(
        request, dtype=dtype, layout=layout, workers=workers, device=device, force=force, shard=Shard(*shard)
    )
    return run.extract([str(name) for name in names], Path(out), chosen, report)
