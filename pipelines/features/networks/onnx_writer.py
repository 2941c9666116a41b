"""ONNX graphs of our own networks, written down layer by layer, for where onnxruntime computes them faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

OPSET = 13
Sizes = Sequence[int | str]  # of an input; a name stands for any size


class OnnxWriter:
    """Nodes and constants; a value has the name of what gives it. The package onnx must be installed."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def constant(self, name: str, value: NDArray[Any] | np.generic) -> str:
        from onnx import numpy_helper

        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(self, operator: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        """A node with one output."""
        from onnx import helper

        self._nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def split(self, value: str, sizes: Sequence[int], axis: int) -> list[str]:
        """The parts of a value, so many numbers long each along an axis."""
        from onnx import helper

        parts = [f"{value}{number}" for number in range(len(sizes))]
        lengths = self.constant(f"{value}_sizes", np.array(sizes))
        self._nodes.append(helper.make_node("Split", [value, lengths], parts, f"{value}_split", axis=axis))
        return parts

    def model(self, inputs: Mapping[str, Sizes], outputs: Sequence[str]) -> bytes:
        """The graph as a file has it."""
        from onnx import TensorProto, helper

        entering = [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes) for name, sizes in inputs.items()]
        leaving = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self._nodes, "network", entering, leaving, self._constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        return bytes(model.SerializeToString())
