"""Datasets: clips or feature streams with labels and splits, in one shape for training and evaluation."""

from pipelines.datasets.dataset import Dataset, Kind
from pipelines.datasets.feature_rows import FeatureRows, open_rows
from pipelines.datasets.frame_targets import FrameTargets, frame_range, frame_targets
from pipelines.datasets.item import Item, Segment
from pipelines.datasets.opening import dataset_options, open_dataset

__all__ = [
    "Dataset",
    "FeatureRows",
    "FrameTargets",
    "Item",
    "Kind",
    "Segment",
    "dataset_options",
    "frame_range",
    "frame_targets",
    "open_dataset",
    "open_rows",
]
