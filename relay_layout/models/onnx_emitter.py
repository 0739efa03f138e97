"""A network as an ONNX model, and as a file of one."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from relay_layout.errors import ModelError
from relay_layout.models.catalog import build
from relay_layout.models.network import Network, Node, Value
from relay_layout.models.operations import (
    Add,
    AveragePool,
    BatchNormalization,
    Clip,
    Concatenate,
    Convolution,
    Dense,
    Flatten,
    Gelu,
    GlobalAveragePool,
    HardSigmoid,
    HardSwish,
    LayerNormalization,
    MaxPool,
    Multiply,
    Operation,
    PixelwiseDense,
    Relu,
    Resize,
    Scale,
    Sigmoid,
    Slice,
    Transpose,
    TransposedConvolution,
)
from relay_layout.models.parameters import Array
from topi_ext.messages import system_reason
from topi_ext.whole_file import replaced

if TYPE_CHECKING:
    import onnx

OPSET = 20
"""The first opset with Gelu."""

IR_VERSION = 9
"""The ONNX file version that came with opset 20: readers of that age can open the file."""


def to_onnx(network: Network) -> "onnx.ModelProto":
    """An ONNX model of opset 20: float32 weights as initializers in raw_data, BatchNormalization kept.

    Inputs, outputs, nodes and initializers carry the network's names; the weight of a pixelwise dense layer
    is stored as MatMul takes it, [K,out_features]. ModelError without the onnx package.
    """
    try:
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        raise ModelError("writing ONNX needs the onnx package: pip install 'relay-layout[onnx]'") from None

    def declared(values: tuple[Value, ...]) -> list["onnx.ValueInfoProto"]:
        return [
            helper.make_tensor_value_info(value.name, TensorProto.FLOAT, list(value.shape))
            for value in values
        ]

    nodes = []
    constants: dict[str, NDArray[Any]] = {}
    for node in network.nodes:
        kind, attributes = _operator(node.operation)
        own = {f"{node.name}.{part}": array for part, array in _constants(node.operation).items()}
        constants.update(own)
        inputs = [*node.inputs, *(parameter.name for parameter in node.parameters)]
        if isinstance(node.operation, Resize):
            inputs.append("")
        output = node.output.name
        if isinstance(node.operation, PixelwiseDense):
            product = f"{node.name}.unbiased"
            nodes.append(helper.make_node("MatMul", inputs[:2], [product], name=product))
            inputs = [product, inputs[2]]
        nodes.append(helper.make_node(kind, [*inputs, *own], [output], name=node.name, **attributes))
    model = helper.make_model(
        helper.make_graph(
            nodes,
            network.name,
            declared(network.inputs),
            declared(network.outputs),
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="relay_layout",
    )
    # One by one into the finished model: make_graph would hold all weights twice.
    for node in network.nodes:
        for parameter, array in zip(node.parameters, _stored(node), strict=True):
            model.graph.initializer.append(numpy_helper.from_array(array, parameter.name))
    for name, constant in constants.items():
        model.graph.initializer.append(numpy_helper.from_array(constant, name))
    return model


def export_onnx(network: Network | str, path: str | os.PathLike[str]) -> None:
    """Write a network, or the built-in one of this name with its default options, to an .onnx file.

    The file appears complete or not at all. ModelError for an unknown name, without the onnx package,
    or where the file cannot be written.
    """
    model = to_onnx(build(network) if isinstance(network, str) else network)
    try:
        with replaced(path) as file:
            file.write(model.SerializeToString(deterministic=True))
    except OSError as error:
        raise ModelError(f"{os.fspath(path)}: cannot be written: {system_reason(error)}") from None


def _stored(node: Node) -> Iterator[Array]:
    for parameter in node.parameters:
        values = parameter.values()
        yield np.ascontiguousarray(values.T) if isinstance(node.operation, PixelwiseDense) else values


def _constants(operation: Operation) -> dict[str, NDArray[Any]]:
    match operation:
        case Clip():
            return {
                "minimum": np.array(operation.minimum, np.float32),
                "maximum": np.array(operation.maximum, np.float32),
            }
        case Resize():
            return {"scales": np.array([1, 1, operation.factor, operation.factor], np.float32)}
        case Slice():
            bounds = {"start": operation.start, "end": operation.end, "axis": 1}
            return {part: np.array([bound], np.int64) for part, bound in bounds.items()}
    return {}


def _operator(operation: Operation) -> tuple[str, dict[str, Any]]:
    match operation:
        case Convolution():
            return "Conv", {
                "kernel_shape": operation.kernel,
                "strides": operation.strides,
                "pads": operation.padding,
                "dilations": operation.dilation,
                "group": operation.groups,
            }
        case TransposedConvolution():
            return "ConvTranspose", {
                "kernel_shape": operation.kernel,
                "strides": operation.strides,
                "pads": operation.padding,
            }
        case BatchNormalization():
            return "BatchNormalization", {"epsilon": operation.epsilon}
        case LayerNormalization():
            return "LayerNormalization", {"axis": -1, "epsilon": operation.epsilon}
        case Relu():
            return "Relu", {}
        case Clip():
            return "Clip", {}
        case Sigmoid():
            return "Sigmoid", {}
        case HardSigmoid():
            return "HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}
        case HardSwish():
            return "HardSwish", {}
        case Gelu():
            return "Gelu", {"approximate": "none"}
        case MaxPool():
            return "MaxPool", {
                "kernel_shape": operation.kernel,
                "strides": operation.strides,
                "pads": operation.padding,
                "dilations": operation.dilation,
                "ceil_mode": int(operation.ceil_mode),
            }
        case AveragePool():
            return "AveragePool", {
                "kernel_shape": operation.kernel,
                "strides": operation.strides,
                "pads": operation.padding,
                "count_include_pad": int(operation.count_include_pad),
            }
        case GlobalAveragePool():
            return "GlobalAveragePool", {}
        case Resize(method="nearest"):
            return "Resize", {
                "mode": "nearest",
                "coordinate_transformation_mode": "asymmetric",
                "nearest_mode": "floor",
            }
        case Resize():
            return "Resize", {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
        case Add() | PixelwiseDense():
            return "Add", {}
        case Multiply() | Scale():
            return "Mul", {}
        case Concatenate():
            return "Concat", {"axis": 1}
        case Slice():
            return "Slice", {}
        case Transpose():
            return "Transpose", {"perm": operation.axes}
        case Flatten():
            return "Flatten", {"axis": 1}
        case Dense():
            return "Gemm", {"transB": 1}
