"""A step as a graph of PyTorch's operators, which both formats are written from."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from pipelines.errors import ConfigurationError
from pipelines.exporting.step_module import StepModule
from pipelines.wording import one_line

BATCH = "batch"


def traced(step: StepModule) -> torch.export.ExportedProgram:
    """The step as a graph of PyTorch's operators, for batches of any size."""
    batch = torch.export.Dim(BATCH)
    arguments = step.zeros(2)  # of one row, the tracer would think that there is always one
    state = tuple({0: batch} for _ in arguments[2:])
    shapes = ({0: batch}, {0: batch}, *([state] if state else []))  # a model without memory carries none
    try:
        with quiet(), torch.no_grad():
            return torch.export.export(step, arguments, dynamic_shapes=shapes, strict=False)
    except (RuntimeError, ValueError) as error:  # all of the tracer's own are one of these
        raise ConfigurationError(
            f"the step of this model ({step.model.config.summary()}) cannot be traced: {one_line(str(error))}"
        ) from error


@contextmanager
def quiet() -> Iterator[None]:
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
