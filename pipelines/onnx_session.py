"""A graph in onnxruntime: how it is opened and run, and one error for all that it may raise. Nothing needs PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from pipelines.devices import thread_count
from pipelines.packages import require
from pipelines.wording import one_line

# What the binding makes of C++'s own exceptions, beside onnxruntime's.
_STANDARD = (RuntimeError, ValueError, IndexError, OverflowError, MemoryError)


class GraphError(Exception):
    """What onnxruntime has against a graph or its inputs, on one line."""


class OnnxSession:
    """A graph on the CPU."""

    def __init__(self, what: str, graph: Path | bytes, spinning: bool = True, threads: int | None = None) -> None:
        """what: that needs onnxruntime, for where there is none. threads: None: as many as everything else has.

        spinning: threads burn their processor until the next run: quicker where runs follow one another, a waste where
        a stream waits for its source.
        """
        require(what, "onnxruntime", extra="onnx")
        import onnxruntime

        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = thread_count() if threads is None else threads
        settings.log_severity_level = 4  # what is wrong is raised; nothing is printed
        if not spinning:
            settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
        model = graph if isinstance(graph, bytes) else str(graph)
        self._errors = _session_errors()
        try:
            self._session = onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
            self.metadata: dict[str, str] = self._session.get_modelmeta().custom_metadata_map
        except self._errors as error:
            raise GraphError(one_line(str(error))) from error
        self.inputs: list[Any] = self._session.get_inputs()  # with name, shape and type
        self.outputs: list[str] = [value.name for value in self._session.get_outputs()]

    def run(self, outputs: Sequence[str], inputs: Mapping[str, NDArray[Any]]) -> list[Any]:
        """The outputs of these names."""
        try:
            return list(self._session.run(outputs, inputs))
        except self._errors as error:
            raise GraphError(one_line(str(error))) from error


@cache
def _session_errors() -> tuple[type[Exception], ...]:
    """A dozen classes without a common base, more of them with every version."""
    from onnxruntime.capi import onnxruntime_pybind11_state as binding

    own = [value for value in vars(binding).values() if isinstance(value, type) and issubclass(value, Exception)]
    return (*own, *_STANDARD)
