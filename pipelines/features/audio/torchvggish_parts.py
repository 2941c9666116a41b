"""What `vggish` takes from the package torchvggish: its parameters and its post-processing.

The package as a whole imports resampy and numba, which nothing here needs: its two modules are loaded by themselves.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor

from pipelines.errors import MissingDependencyError

PACKAGE = "torchvggish"


def parameters() -> ModuleType:
    """torchvggish.vggish_params: sizes and rates of the front end, names and range of the PCA."""
    return _module("vggish_params")


def post_processor(eigen_vectors: Tensor, means: Tensor) -> Any:
    """torchvggish's `Postprocessor`, with parameters from a file instead of a download.

    eigen_vectors: (128, 128), one per row; means: (128,).
    """
    kind = _module("torchvggish").Postprocessor
    processor = kind.__new__(kind)  # its constructor downloads what we have in a file
    processor._pca_matrix, processor._pca_means = eigen_vectors, means.reshape(-1, 1)
    return processor


@cache
def _module(name: str) -> ModuleType:
    package = importlib.util.find_spec(PACKAGE)  # finds it without running it
    folder = None if package is None or package.origin is None else Path(package.origin).parent
    spec = folder and importlib.util.spec_from_file_location(f"{PACKAGE}_{name}", folder / f"{name}.py")
    if not spec or spec.loader is None:
        raise MissingDependencyError("vggish needs the package torchvggish: `pip install torchvggish`")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
