"""`tflite:FILE`: any network that maps an audio window or a picture to a vector, through ai-edge-litert.

Any tensor of the network can be the row, by its name or number: networks are often published as classifiers, and the
layer before the classes is what another model learns from.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.devices import thread_count
from pipelines.errors import CheckpointError, UsageError
from pipelines.features.networks.network import described_input, only_input
from pipelines.features.networks.tflite_metadata import read_metadata
from pipelines.packages import require
from pipelines.wording import did_you_mean, listed, one_line


class TfliteNetwork:
    """An interpreter from one array to one vector."""

    def __init__(self, path: Path, output: str = "") -> None:
        """output: the name or number of a tensor; "" is the first output of the network."""
        self.path = path
        interpreter = _open_interpreter(path, every_tensor=False)
        details = only_input(path, [(value["name"], value) for value in interpreter.get_input_details()])
        signature = details.get("shape_signature", details["shape"])
        shape = [int(size) if size > 0 else None for size in signature]
        dtype = details["dtype"] if np.issubdtype(details["dtype"], np.floating) else None
        metadata = read_metadata(path)
        self.input = described_input(
            path, one_line(details["name"]), shape, dtype, np.dtype(details["dtype"]).name, metadata.rate
        )
        outputs = interpreter.get_output_details()
        self.tensors = [TensorDetails(value) for value in interpreter.get_tensor_details()]
        number = outputs[0]["index"] if not output else _tensor_number(path, output, self.tensors, outputs)
        self.output = output or one_line(outputs[0]["name"])
        self.labels = metadata.labels_of([value["index"] for value in outputs], number)
        if number not in {value["index"] for value in outputs}:
            # Inner tensors share memory with later ones unless all are kept.
            interpreter = _open_interpreter(path, every_tensor=True)
        self._interpreter, self._number = interpreter, number
        self._input_number, self._shape = details["index"], tuple(int(size) for size in details["shape"])
        self._turn = threading.Lock()  # an interpreter runs one input at a time; sources have threads of their own

    def __call__(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """An array of the input's shape -> (width,)."""
        with self._turn:
            try:
                if values.shape != self._shape:
                    self._interpreter.resize_tensor_input(self._input_number, values.shape)
                    self._interpreter.allocate_tensors()
                    self._shape = values.shape
                self._interpreter.set_tensor(self._input_number, values.astype(self.input.dtype))
                self._interpreter.invoke()
                vector = np.asarray(self._interpreter.get_tensor(self._number))
            except (ValueError, RuntimeError) as error:
                raise CheckpointError(
                    f"{self.path}: the network does not give tensor '{self.output}' for its input {values.shape}: "
                    f"{one_line(str(error))}"
                ) from error
        scale, zero = self.tensors[self._number].quantization
        if scale:
            return ((vector.astype(np.float32) - zero) * scale).reshape(-1)
        return vector.astype(np.float32).reshape(-1)


class TensorDetails:
    """What the interpreter says about one tensor."""

    def __init__(self, details: dict[str, Any]) -> None:
        self.number = int(details["index"])
        self.name = one_line(str(details["name"]))
        self.shape = tuple(int(size) for size in details["shape"])
        self.width = math.prod(self.shape)
        scale, zero = details["quantization"]
        self.quantization = (float(scale), int(zero))  # scale 0: the numbers are what they are


def _tensor_number(path: Path, output: str, tensors: list[TensorDetails], outputs: list[dict[str, Any]]) -> int:
    """The number of the tensor that `output` names."""
    if output.isdecimal():
        if int(output) < len(tensors):
            return int(output)
        raise UsageError(f"{path}: has no tensor {output}: its tensors are 0 to {len(tensors) - 1}")
    by_name = {tensor.name: tensor.number for tensor in tensors if tensor.name}
    if output in by_name:
        return by_name[output]
    names = listed([f"{value['name']} ({value['index']})" for value in outputs])
    hint = did_you_mean(output, by_name)
    raise UsageError(
        f"{path}: has no tensor '{one_line(output)}'{hint} (its outputs: {names}; any tensor by name or number)"
    )


def _open_interpreter(path: Path, every_tensor: bool) -> Any:
    require(f"tflite:{path}", "ai_edge_litert", extra="tflite")
    from ai_edge_litert.interpreter import Interpreter

    try:
        with _quiet(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that keeping every tensor takes memory
            interpreter = Interpreter(
                model_content=path.read_bytes(),
                num_threads=thread_count(),
                experimental_preserve_all_tensors=every_tensor,
            )
        with _quiet():
            interpreter.allocate_tensors()
    except (ValueError, RuntimeError, OSError) as error:
        raise CheckpointError(
            f"{path}: not a TensorFlow Lite network that ai-edge-litert can run: {one_line(str(error))}"
        ) from error
    return interpreter


@contextmanager
def _quiet() -> Iterator[None]:
    """Nothing on stderr: the library greets there, from C++ and once in a process, and what is wrong is raised."""
    if sys.stderr is not None:
        sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
