"""What single rows are worth on the recordings that models are scored on: rows of the table without any memory.

The classifiers are those of training (`training.per_frame`), fitted to the training part of the dataset.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.rows.feature_rows import open_rows
from pipelines.evaluation.model_evaluation import detection_protocol, predictions_of, score_dataset
from pipelines.evaluation.scores.detection import DetectionOptions
from pipelines.evaluation.scores.scoring import Evaluation
from pipelines.metrics.probabilities import ScoreKind
from pipelines.running.passes import Outputs
from pipelines.running.runner import Run
from pipelines.training.fitting.baseline import fit_row_classifiers
from pipelines.training.samples.recordings import open_recordings

NAME = "single rows"


@dataclass(frozen=True)
class Reference:
    """A classifier of single rows, scored as a model is."""

    name: str
    evaluation: Evaluation
    macs: int  # of one row
    parameters: int
    fitted_rows: int


def row_references(
    dataset: Dataset,
    part: str,
    protocol: str | None,
    options: DetectionOptions,
    score_kind: ScoreKind,
    usable: frozenset[str],
) -> tuple[Reference, ...]:
    """Fit the training rows and score `part`. usable: names of the recordings that a model could be scored on."""
    rules = detection_protocol(dataset, protocol)
    recordings = open_recordings(dataset, dataset.split("train"))
    items = {item.name: item for item in dataset.split(part) if item.name in usable}
    references = []
    for classifier in fit_row_classifiers(recordings, "binary" if score_kind == "sigmoid" else "cross-entropy"):
        outputs = {name: Outputs(classifier.logits(open_rows(item, dataset.trim)[:])) for name, item in items.items()}
        run = Run("chunk", outputs, (), sum(len(output.logits) for output in outputs.values()), 0.0, None)
        predictions = predictions_of(run, dataset, items, 0, score_kind).predictions
        references.append(
            Reference(
                f"{NAME}, {classifier.kind}",
                score_dataset(predictions, dataset, rules, options),
                classifier.macs,
                classifier.parameters,
                classifier.fitted_rows,
            )
        )
    return tuple(references)
