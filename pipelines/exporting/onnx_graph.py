"""A step as an ONNX graph: traced by PyTorch, with names, a batch of any size, and a description in its metadata."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from pipelines.errors import ConfigurationError, MissingDependencyError, UsageError
from pipelines.exporting.step_module import StepModule
from pipelines.wording import one_line

DEFAULT_OPSET = 18
OPSETS = range(18, 24)  # what PyTorch's exporter writes and onnxruntime 1.20 reads
BATCH = "batch"


def check_opset(opset: int) -> None:
    """Refuse a version of ONNX's operators that graphs are not written for."""
    if opset not in OPSETS:
        raise UsageError(f"--opset {opset}: choose from {OPSETS.start} to {OPSETS.stop - 1}")


def traced(step: StepModule) -> torch.export.ExportedProgram:
    """The step as a graph of PyTorch's operators, for batches of any size."""
    batch = torch.export.Dim(BATCH)
    arguments = step.zeros(2)  # of one row, the tracer would think that there is always one
    state = tuple({0: batch} for _ in arguments[2:])
    try:
        with _quiet(), torch.no_grad():
            return torch.export.export(step, arguments, dynamic_shapes=({0: batch}, {0: batch}, state), strict=False)
    except Exception as error:  # the tracer has no common base for its errors
        raise ConfigurationError(
            f"the step of this model ({step.model.config.summary()}) cannot be traced: {one_line(str(error))}"
        ) from error


def onnx_graph(step: StepModule, opset: int = DEFAULT_OPSET) -> Any:
    """The step as an `onnx.ModelProto`."""
    check_opset(opset)
    require_onnx()
    program = traced(step)
    names = step.signature
    try:
        with _quiet():
            exported = torch.onnx.export(
                program,
                dynamo=True,
                input_names=list(names.inputs),
                output_names=list(names.outputs),
                opset_version=opset,
                verbose=False,
            )
            assert exported is not None
            graph = exported.model_proto
    except Exception as error:  # the exporter has no common base for its errors
        raise ConfigurationError(
            f"the step of this model ({step.model.config.summary()}) has no ONNX graph: {one_line(str(error))}"
        ) from error
    _without_traces(graph)
    return graph


def require_onnx() -> None:
    """Refuse to begin without the packages that write and run graphs."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(f"{error.name} is not installed: pip install 'cotrans[onnx]'") from error


def _without_traces(graph: Any) -> None:
    """Take out what the exporter tells about our source code: half of a small file, and nobody's business."""
    for node in graph.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    del graph.graph.metadata_props[:]
    del graph.graph.value_info[:]
    graph.graph.doc_string = ""
    graph.producer_name = "cotrans"


@contextmanager
def _quiet() -> Iterator[None]:
    """PyTorch's exporter warns about packages that nobody needs here, and about itself."""
    loggers = [logging.getLogger(name) for name in ("torch", "torch.onnx", "onnxscript")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    trace = logging.getLogger("torch.__trace")  # a record of every operator, which takes longer than tracing it
    disabled, trace.disabled = trace.disabled, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        trace.disabled = disabled
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
