"""Small TensorFlow Lite networks, written with the schema that ai-edge-litert carries."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

flatbuffers = pytest.importorskip("flatbuffers")
schema = pytest.importorskip("ai_edge_litert.schema_py_generated")


def save(
    path: Path,
    inputs: list[list[int]],
    matrix: np.ndarray,
    custom: str | None = None,
    metadata: bytes | None = None,
    archive: dict[str, str] | None = None,
) -> str:
    """`inputs[0]` @ matrix -> "inner", relu -> "outer", the only output. custom: the name of an unknown operation."""
    model = schema.ModelT()
    model.version, model.description = 3, b"made by a test"
    model.buffers = [schema.BufferT(), _buffer(matrix.T.astype(np.float32).tobytes())]
    graph = schema.SubGraphT()
    graph.name = b"main"
    graph.tensors = [_tensor(f"x{number}", shape) for number, shape in enumerate(inputs)]
    first = len(inputs)
    rows, columns = matrix.shape
    graph.tensors += [
        _tensor("matrix", [columns, rows], 1),
        _tensor("inner", [1, columns]),
        _tensor("outer", [1, columns]),
    ]
    graph.inputs, graph.outputs = np.arange(first, dtype=np.int32), np.array([first + 2], np.int32)
    product = _operator(0, [0, first, -1], [first + 1])
    product.builtinOptionsType = schema.BuiltinOptions.FullyConnectedOptions
    product.builtinOptions = schema.FullyConnectedOptionsT()
    graph.operators = [product, _operator(1, [first + 1], [first + 2])]
    model.operatorCodes = [_code(schema.BuiltinOperator.FULLY_CONNECTED), _code(schema.BuiltinOperator.RELU)]
    if custom is not None:
        model.operatorCodes[1] = _code(schema.BuiltinOperator.CUSTOM, custom)
    model.subgraphs = [graph]
    if metadata is not None:
        entry = schema.MetadataT()
        entry.name, entry.buffer = b"TFLITE_METADATA", len(model.buffers)
        model.buffers.append(_buffer(metadata))
        model.metadata = [entry]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    data = bytes(builder.Output())
    if archive is not None:
        appended = io.BytesIO()
        with zipfile.ZipFile(appended, "w") as file:
            for name, text in archive.items():
                file.writestr(name, text)
        data += appended.getvalue()
    path.write_bytes(data)
    return f"tflite:{path}"


def audio_metadata(rate: int, labels: str) -> bytes:
    """ModelMetadata with one input of sound at `rate` and one output whose classes are named in the file `labels`."""
    builder = flatbuffers.Builder(256)
    name = builder.CreateString(labels)
    file = _table(builder, 4, {0: ("offset", name), 2: ("byte", 2)})
    files = _vector(builder, [file])
    output = _table(builder, 7, {6: ("offset", files)})
    properties = _table(builder, 2, {0: ("int", rate), 1: ("int", 1)})
    content = _table(builder, 3, {0: ("byte", 4), 1: ("offset", properties)})
    sound = _table(builder, 7, {3: ("offset", content)})
    inputs, outputs = _vector(builder, [sound]), _vector(builder, [output])
    subgraph = _table(builder, 5, {2: ("offset", inputs), 3: ("offset", outputs)})
    subgraphs = _vector(builder, [subgraph])
    builder.Finish(_table(builder, 8, {3: ("offset", subgraphs)}), b"M001")
    return bytes(builder.Output())


def _table(builder: Any, size: int, fields: dict[int, tuple[str, int]]) -> int:
    builder.StartObject(size)
    for place, (kind, value) in fields.items():
        if kind == "offset":
            builder.PrependUOffsetTRelativeSlot(place, value, 0)
        elif kind == "byte":
            builder.PrependUint8Slot(place, value, 0)
        else:
            builder.PrependUint32Slot(place, value, 0)
    return int(builder.EndObject())


def _vector(builder: Any, offsets: list[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _buffer(data: bytes) -> Any:
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(data, np.uint8)
    return buffer


def _tensor(name: str, shape: list[int], buffer: int = 0) -> Any:
    tensor = schema.TensorT()
    tensor.name, tensor.shape, tensor.buffer = name.encode(), np.array(shape, np.int32), buffer
    tensor.type = schema.TensorType.FLOAT32
    return tensor


def _operator(code: int, inputs: list[int], outputs: list[int]) -> Any:
    operator = schema.OperatorT()
    operator.opcodeIndex = code
    operator.inputs, operator.outputs = np.array(inputs, np.int32), np.array(outputs, np.int32)
    return operator


def _code(builtin: int, custom: str | None = None) -> Any:
    code = schema.OperatorCodeT()
    code.builtinCode, code.deprecatedBuiltinCode, code.version = builtin, min(builtin, 127), 1
    if custom is not None:
        code.customCode = custom.encode()
    return code
