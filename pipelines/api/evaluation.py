"""`evaluate` with plain arguments, and its tables as pandas frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.api.progress import OnProgress, Progress, on_item
from pipelines.datasets.source import DataSource, FeatureOptions
from pipelines.evaluation.comparison import Comparison, ComparisonOptions, compare_models, parse_modes
from pipelines.evaluation.data.contenders import find_contenders
from pipelines.evaluation.data.data_request import DataRequest
from pipelines.evaluation.tables.comparison_report import class_table, csv_table
from pipelines.evaluation.tables.report import to_frame
from pipelines.model.precision import Precision, parse_precision
from pipelines.running.runner import Mode

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class EvaluationResult:
    """Models on one part of a dataset. Scores are fractions."""

    comparison: Comparison

    @property
    def score(self) -> float:
        """Of the first model: accuracy of clips, or mean average precision of frames."""
        return self.comparison.rows[0].score[0]

    @property
    def metric(self) -> str:
        """What `score` is."""
        return self.comparison.metric

    def to_frame(self) -> pandas.DataFrame:
        """A row for each model: score, interval, operations, parameters, state and speed."""
        return to_frame(csv_table(self.comparison))

    def classes(self) -> pandas.DataFrame | None:
        """A row for each class; None where whole clips are scored."""
        table = class_table(self.comparison)
        return None if table is None else to_frame(table)


def evaluate(
    models: str | Path | Sequence[str | Path],
    dataset: str,
    root: str | Path | None = None,
    *,
    on: str | None = None,
    mode: str = "chunk",
    protocol: str | None = None,
    features: str | None = None,
    feature_options: Mapping[str, Any] | None = None,
    feature_dir: str | Path | None = None,
    hop: float | None = None,
    weights: Mapping[str, str] | None = None,
    bootstrap: int = 0,
    seed: int = 0,
    baseline: bool = False,
    workers: int = 1,
    device: str = "auto",
    precision: Precision = "float32",
    on_progress: OnProgress | None = None,
    **dataset_options: Any,
) -> EvaluationResult:
    """Score models as they will run, on a part of a dataset, and say what they cost.

        result = evaluate(["runs/mine", "music-genre"], "gtzan", "GTZAN", bootstrap=200)
        result.score, result.metric, result.to_frame()  # the last one is a pandas frame

    models: checkpoints, folders of runs, built-in names; "NAME=PATH" names a row of the table. on: train, validation,
    test or all; None: test, or validation where there is no test. mode: chunk, stream, window or all of them.
    features: extractors for media; None: those that the first model was trained on. dataset_options: as in training;
    what is not said is taken from there. bootstrap: resamples of the recordings for an interval. precision: of weights;
    float16 and int8 are compared with float32 (`result.comparison.rows[0].first.loss`).
    """
    names = [models] if isinstance(models, (str, Path)) else list(models)
    values = {
        "names": features,
        "hop": hop,
        "options": dict(feature_options or {}),
        "weights": {} if features is None else dict(weights or {}),
        "directory": None if feature_dir is None else str(feature_dir),
    }
    source = DataSource(
        dataset, None if root is None else Path(root), dataset_options, FeatureOptions.from_values(values)
    )
    request = DataRequest(source, on, {} if features is not None else dict(weights or {}))
    options = ComparisonOptions(
        modes=parse_modes(mode),
        protocol=protocol,
        bootstrap=bootstrap,
        seed=seed,
        baseline="on" if baseline else "off",
        workers=workers,
        device=device,
        precision=parse_precision(precision),
    )

    def report(name: str, mode: Mode, done: int, total: int) -> None:
        if on_progress is not None:
            on_progress(Progress("evaluation", done, total, f"{name}, {mode}"))

    contenders = find_contenders([str(name) for name in names], dataset)
    return EvaluationResult(compare_models(contenders, request, options, report, on_item(on_progress)))
