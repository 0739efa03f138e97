"""Small TensorFlow Lite files, written with the builders of the tflite package."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite

TYPES = {
    "float32": tflite.TensorType.FLOAT32,
    "int16": tflite.TensorType.INT16,
    "int32": tflite.TensorType.INT32,
    "int64": tflite.TensorType.INT64,
    "int4": tflite.TensorType.INT4,
    "int8": tflite.TensorType.INT8,
    "uint8": tflite.TensorType.UINT8,
    "bool": tflite.TensorType.BOOL,
    "float16": tflite.TensorType.FLOAT16,
    "complex64": tflite.TensorType.COMPLEX64,
    "resource": tflite.TensorType.RESOURCE,
}


@dataclass
class Tensor:
    name: str
    shape: tuple[int, ...]
    dtype: str
    data: np.ndarray | None = None
    scales: Sequence[float] = ()
    zero_points: Sequence[int] = ()
    axis: int = 0
    blocks: bool = False
    """Says that it has scales of blocks, and has none."""


@dataclass
class Operator:
    code: str
    inputs: list[int]
    outputs: list[int]
    options: str
    attributes: Mapping[str, Any]


@dataclass
class TfliteFile:
    """Tensors and operators of one graph, and those of others; tensors are known by their numbers."""

    tensors: list[Tensor] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    graphs: "list[TfliteFile]" = field(default_factory=list)
    """Those that operators refer to, from 1 on."""
    behind: bool = False
    """Constants lie behind the tables."""
    newer: bool = False
    """Numbers of operators are in the newer field alone."""

    def tensor(self, shape: Sequence[int], dtype: str = "float32", **quantization: Any) -> int:
        self.tensors.append(Tensor(f"t{len(self.tensors)}", tuple(shape), dtype, **quantization))
        return len(self.tensors) - 1

    def input(self, shape: Sequence[int], dtype: str = "float32", **quantization: Any) -> int:
        self.inputs.append(self.tensor(shape, dtype, **quantization))
        return self.inputs[-1]

    def constant(self, array: np.ndarray, dtype: str = "", **quantization: Any) -> int:
        return self.tensor(array.shape, dtype or str(array.dtype), data=array, **quantization)

    def operator(
        self,
        code: str,
        inputs: Sequence[int],
        shape: Sequence[int],
        options: str = "",
        dtype: str = "float32",
        quantization: Mapping[str, Any] | None = None,
        **attributes: Any,
    ) -> int:
        """Adds an operator with one result of that shape; ``options`` names the table of its attributes."""
        result = self.tensor(shape, dtype, **(quantization or {}))
        self.operators.append(Operator(code, list(inputs), [result], options, attributes))
        return result

    def finish(self) -> bytes:
        """The file, whose outputs are ``outputs`` or else the last tensor."""
        tables, contents = self._built(_ALIGNED)
        if not self.behind:
            return tables
        # Offsets of any size take as many bytes.
        tables, contents = self._built(len(_aligned(tables)))
        return _aligned(tables) + b"".join(map(_aligned, contents))

    def _built(self, start: int) -> tuple[bytes, list[bytes]]:
        """The tables, and the constants, which lie from ``start`` on if they lie behind."""
        builder = flatbuffers.Builder(1024)
        graphs = [self, *self.graphs]
        codes = sorted({operator.code for graph in graphs for operator in graph.operators})
        buffers = [b""]
        graph_tables = [graph.graph(builder, codes, buffers) for graph in graphs]
        code_tables = []
        for code in codes:
            number = getattr(tflite.BuiltinOperator, code, tflite.BuiltinOperator.CUSTOM)
            custom = builder.CreateString(code) if number == tflite.BuiltinOperator.CUSTOM else None
            tflite.OperatorCodeStart(builder)
            if custom is not None:
                tflite.OperatorCodeAddCustomCode(builder, custom)
            if not self.newer:
                tflite.OperatorCodeAddDeprecatedBuiltinCode(builder, min(number, 127))
            tflite.OperatorCodeAddBuiltinCode(builder, number)
            tflite.OperatorCodeAddVersion(builder, _VERSIONS.get(code, 1))
            code_tables.append(tflite.OperatorCodeEnd(builder))
        buffer_tables = []
        for content in buffers:
            data = builder.CreateByteVector(content) if content and not self.behind else None
            tflite.BufferStart(builder)
            if content and self.behind:
                tflite.BufferAddOffset(builder, start)
                tflite.BufferAddSize(builder, len(content))
                start += len(_aligned(content))
            if data is not None:
                tflite.BufferAddData(builder, data)
            buffer_tables.append(tflite.BufferEnd(builder))
        parts = [_offsets(builder, part) for part in (code_tables, graph_tables, buffer_tables)]
        description = builder.CreateString("made in a test")
        tflite.ModelStart(builder)
        tflite.ModelAddVersion(builder, 3)
        tflite.ModelAddOperatorCodes(builder, parts[0])
        tflite.ModelAddSubgraphs(builder, parts[1])
        tflite.ModelAddDescription(builder, description)
        tflite.ModelAddBuffers(builder, parts[2])
        builder.Finish(tflite.ModelEnd(builder), file_identifier=b"TFL3")
        return bytes(builder.Output()), buffers

    def graph(self, builder: Any, codes: Sequence[str], buffers: list[bytes]) -> int:
        """The table of this graph, in a file with these operators; adds its constants to the buffers."""
        tensors = _offsets(builder, [self._tensor(builder, tensor, buffers) for tensor in self.tensors])
        operators = _offsets(
            builder, [self._operator(builder, operator, codes) for operator in self.operators]
        )
        inputs = builder.CreateNumpyVector(np.array(self.inputs, "int32"))
        outputs = builder.CreateNumpyVector(np.array(self.outputs or [len(self.tensors) - 1], "int32"))
        tflite.SubGraphStart(builder)
        tflite.SubGraphAddTensors(builder, tensors)
        tflite.SubGraphAddInputs(builder, inputs)
        tflite.SubGraphAddOutputs(builder, outputs)
        tflite.SubGraphAddOperators(builder, operators)
        return int(tflite.SubGraphEnd(builder))

    def _tensor(self, builder: Any, tensor: Tensor, buffers: list[bytes]) -> int:
        place = 0
        if tensor.data is not None:
            place = len(buffers)
            buffers.append(_stored(tensor.data, tensor.dtype))
        name = builder.CreateString(tensor.name)
        shape = builder.CreateNumpyVector(np.array(tensor.shape, "int32"))
        quantization = None
        if tensor.scales:
            scales = builder.CreateNumpyVector(np.array(tensor.scales, "float32"))
            points = builder.CreateNumpyVector(np.array(tensor.zero_points, "int64"))
            tflite.QuantizationParametersStart(builder)
            tflite.QuantizationParametersAddScale(builder, scales)
            tflite.QuantizationParametersAddZeroPoint(builder, points)
            tflite.QuantizationParametersAddQuantizedDimension(builder, tensor.axis)
            quantization = tflite.QuantizationParametersEnd(builder)
        elif tensor.blocks:
            tflite.QuantizationParametersStart(builder)
            tflite.QuantizationParametersAddDetailsType(builder, 2)
            quantization = tflite.QuantizationParametersEnd(builder)
        tflite.TensorStart(builder)
        tflite.TensorAddShape(builder, shape)
        tflite.TensorAddType(builder, TYPES[tensor.dtype])
        tflite.TensorAddBuffer(builder, place)
        tflite.TensorAddName(builder, name)
        if quantization is not None:
            tflite.TensorAddQuantization(builder, quantization)
        return tflite.TensorEnd(builder)

    def _operator(self, builder: Any, operator: Operator, codes: Sequence[str]) -> int:
        options = None
        later = "2" if operator.options.lower().startswith("stablehlo") else ""
        if operator.options:
            vectors = {
                name: builder.CreateString(value)
                if isinstance(value, str)
                else builder.CreateNumpyVector(np.array(value, "int64" if later else "int32"))
                for name, value in operator.attributes.items()
                if isinstance(value, list | str)
            }
            getattr(tflite, f"{operator.options}Start")(builder)
            for name, value in operator.attributes.items():
                getattr(tflite, f"{operator.options}Add{name}")(builder, vectors.get(name, value))
            options = getattr(tflite, f"{operator.options}End")(builder)
        custom = builder.CreateByteVector(operator.attributes.get("custom", b""))
        inputs = builder.CreateNumpyVector(np.array(operator.inputs, "int32"))
        outputs = builder.CreateNumpyVector(np.array(operator.outputs, "int32"))
        tflite.OperatorStart(builder)
        tflite.OperatorAddCustomOptions(builder, custom)
        tflite.OperatorAddOpcodeIndex(builder, codes.index(operator.code))
        tflite.OperatorAddInputs(builder, inputs)
        tflite.OperatorAddOutputs(builder, outputs)
        if options is not None:
            kind = getattr(getattr(tflite, f"BuiltinOptions{later}"), operator.options)
            getattr(tflite, f"OperatorAddBuiltinOptions{later}Type")(builder, kind)
            getattr(tflite, f"OperatorAddBuiltinOptions{later}")(builder, options)
        return tflite.OperatorEnd(builder)


_VERSIONS = {"CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 4, "RESIZE_NEAREST_NEIGHBOR": 3}
"""Versions of operators in which they take 8-bit integers and dilation."""


_ALIGNED = 16


def _aligned(content: bytes) -> bytes:
    return content + bytes(-len(content) % _ALIGNED)


def _stored(array: np.ndarray, dtype: str) -> bytes:
    """The bytes of a constant; of four bits, the first of two is the lower half of a byte."""
    if dtype != "int4":
        return np.ascontiguousarray(array).tobytes()
    halves = np.append(array.reshape(-1), [0] * (array.size % 2)).astype("uint8") & 15
    return bytes(halves[::2] | halves[1::2] << 4)


def _offsets(builder: Any, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return builder.EndVector()
