"""`onnx:FILE`: any network that maps an audio window or a picture to a vector, through onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import CheckpointError, UsageError
from pipelines.features.networks.network import described_input, only_input
from pipelines.onnx_session import GraphError, OnnxSession

ELEMENT_TYPES: Mapping[str, type[np.floating[Any]]] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
}


class OnnxNetwork:
    """A graph from one array to one vector."""

    def __init__(self, path: Path, output: str = "") -> None:
        self.path = path
        try:
            self._session = OnnxSession(f"onnx:{path}", path)
        except GraphError as error:
            raise CheckpointError(f"{path}: not an ONNX network that onnxruntime can load: {error}") from error
        value = only_input(path, [(value.name, value) for value in self._session.inputs])
        shape = [size if isinstance(size, int) and size > 0 else None for size in value.shape]
        self.input = described_input(path, value.name, shape, ELEMENT_TYPES.get(value.type), value.type)
        names = self._session.outputs
        if output and output not in names:
            raise UsageError(f"{path}: has no output '{output}': choose from {', '.join(names)}")
        self.output = output or names[0]

    def __call__(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """An array of the input's shape -> (width,)."""
        try:
            (result,) = self._session.run([self.output], {self.input.name: values.astype(self.input.dtype)})
        except GraphError as error:
            raise CheckpointError(
                f"{self.path}: the network does not run on its input {values.shape}: {error}"
            ) from error
        vector = np.asarray(result)
        if not np.issubdtype(vector.dtype, np.number):
            raise CheckpointError(f"{self.path}: output '{self.output}' is not numbers; choose another with `output`")
        return vector.astype(np.float32).reshape(-1)
