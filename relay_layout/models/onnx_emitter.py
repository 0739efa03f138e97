"""A network as an ONNX model, and as a file of one."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from relay_layout.errors import ModelError
from relay_layout.models import operations as ops
from relay_layout.models.catalog import build
from relay_layout.models.network import Network, Node, Value
from relay_layout.models.parameters import Array
from topi_ext.files.whole_file import replaced
from topi_ext.messages import system_reason

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
        if isinstance(node.operation, ops.Resize):
            inputs.append("")
        output = node.output.name
        if isinstance(node.operation, ops.PixelwiseDense):
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
        yield np.ascontiguousarray(values.T) if isinstance(node.operation, ops.PixelwiseDense) else values


def _constants(operation: ops.Operation) -> dict[str, NDArray[Any]]:
    match operation:
        case ops.Clip():
            return {
                "minimum": np.array(operation.minimum, np.float32),
                "maximum": np.array(operation.maximum, np.float32),
            }
        case ops.Resize():
            return {"scales": np.array([1, 1, operation.factor, operation.factor], np.float32)}
        case ops.Slice():
            bounds = {"start": operation.start, "end": operation.end, "axis": 1}
            return {part: np.array([bound], np.int64) for part, bound in bounds.items()}
    return {}


def _operator(operation: ops.Operation) -> tuple[str, dict[str, Any]]:
    match operation:
        case ops.Convolution():
            further = {"dilations": operation.dilation, "group": operation.groups}
            return "Conv", {**_window(operation), **further}
        case ops.TransposedConvolution():
            return "ConvTranspose", _window(operation)
        case ops.BatchNormalization():
            return "BatchNormalization", {"epsilon": operation.epsilon}
        case ops.LayerNormalization():
            return "LayerNormalization", {"axis": -1, "epsilon": operation.epsilon}
        case ops.Relu():
            return "Relu", {}
        case ops.Clip():
            return "Clip", {}
        case ops.Sigmoid():
            return "Sigmoid", {}
        case ops.HardSigmoid():
            return "HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}
        case ops.HardSwish():
            return "HardSwish", {}
        case ops.Gelu():
            return "Gelu", {"approximate": "none"}
        case ops.MaxPool():
            return "MaxPool", {**_window(operation), "ceil_mode": int(operation.ceil_mode)}
        case ops.AveragePool():
            counted = int(operation.count_include_pad)
            return "AveragePool", {**_window(operation), "count_include_pad": counted}
        case ops.GlobalAveragePool():
            return "GlobalAveragePool", {}
        case ops.Resize(method="nearest"):
            return "Resize", {
                "mode": "nearest",
                "coordinate_transformation_mode": "asymmetric",
                "nearest_mode": "floor",
            }
        case ops.Resize():
            return "Resize", {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
        case ops.Add() | ops.PixelwiseDense():
            return "Add", {}
        case ops.Multiply() | ops.Scale():
            return "Mul", {}
        case ops.Concatenate():
            return "Concat", {"axis": 1}
        case ops.Slice():
            return "Slice", {}
        case ops.Transpose():
            return "Transpose", {"perm": operation.axes}
        case ops.Flatten():
            return "Flatten", {"axis": 1}
        case ops.Dense():
            return "Gemm", {"transB": 1}


def _window(
    operation: ops.Convolution | ops.TransposedConvolution | ops.MaxPool | ops.AveragePool,
) -> dict[str, Any]:
    return {"kernel_shape": operation.kernel, "strides": operation.strides, "pads": operation.padding}
