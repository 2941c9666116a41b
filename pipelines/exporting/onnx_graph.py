"""A step as an ONNX graph: traced by PyTorch, with names, a batch of any size, and a description in its metadata."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.onnx.errors import OnnxExporterError

from pipelines.errors import ConfigurationError, UsageError
from pipelines.exporting.step_module import StepModule
from pipelines.exporting.tracing import quiet, traced
from pipelines.packages import require
from pipelines.wording import one_line

DEFAULT_OPSET = 18
OPSETS = range(18, 24)  # what PyTorch's exporter writes and onnxruntime 1.20 reads


def check_opset(opset: int) -> None:
    """Refuse a version of ONNX's operators that graphs are not written for."""
    if opset not in OPSETS:
        raise UsageError(f"--opset {opset}: choose from {OPSETS.start} to {OPSETS.stop - 1}")


def onnx_graph(step: StepModule, opset: int = DEFAULT_OPSET) -> Any:
    """The step as an `onnx.ModelProto`."""
    check_opset(opset)
    require_onnx()
    program = traced(step)
    names = step.signature
    try:
        with quiet():
            exported = torch.onnx.export(
                program,
                dynamo=True,
                input_names=list(names.inputs),
                output_names=list(names.outputs),
                opset_version=opset,
                custom_translation_table=_translations(),
                verbose=False,
            )
            assert exported is not None
            graph = exported.model_proto
    except OnnxExporterError as error:
        raise ConfigurationError(
            f"the step of this model ({step.model.config.summary()}) has no ONNX graph: {one_line(str(error))}"
        ) from error
    _without_traces(graph)
    return graph


def shorten_weights(graph: Any) -> None:
    """Store matrices that are float16 numbers as such: the exporter widens small ones on its own account."""
    import onnx

    casts = []
    for tensor in graph.graph.initializer:
        if tensor.data_type != onnx.TensorProto.FLOAT or len(tensor.dims) < 2:
            continue
        values = onnx.numpy_helper.to_array(tensor)
        with np.errstate(over="ignore"):
            short = values.astype(np.float16)
        if np.array_equal(short.astype(np.float32), values):
            name, stored = tensor.name, f"{tensor.name}_float16"
            tensor.CopyFrom(onnx.numpy_helper.from_array(short, stored))
            casts.append(onnx.helper.make_node("Cast", [stored], [name], to=onnx.TensorProto.FLOAT))
    nodes = [*casts, *graph.graph.node]
    del graph.graph.node[:]
    graph.graph.node.extend(nodes)


def _translations() -> dict[Any, Any]:
    """Operators of ours that PyTorch's exporter does not know."""
    from onnxscript import opset18

    def whole_product(left: Any, right: Any) -> Any:
        return opset18.MatMulInteger(left, right)

    return {torch.ops.aten._int_mm.default: whole_product}


def require_onnx() -> None:
    """Refuse to begin without the packages that write and run graphs."""
    require("--format onnx", "onnx", "onnxruntime", "onnxscript", extra="onnx")


def _without_traces(graph: Any) -> None:
    """Take out what the exporter tells about our source code: half of a small file, and nobody's business."""
    for node in graph.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    del graph.graph.metadata_props[:]
    del graph.graph.value_info[:]
    graph.graph.doc_string = ""
    graph.producer_name = "cotrans"
