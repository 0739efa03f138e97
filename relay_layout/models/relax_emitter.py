"""A network as a Relax module."""

import re
from typing import Any

import numpy as np
from tvm import IRModule, relax, tirx

from relay_layout.models.network import Network, Value
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


def to_relax(network: Network) -> IRModule:
    """A module with one function ``main``: the network's inputs to its output, or to a tuple of several.

    Float32, NCHW and OIHW, one dataflow block, weights as constants. Operators are those that
    :func:`relay_layout.frontend.from_onnx` makes of the same network as an ONNX model. Bindings carry the
    names of the nodes' values, with underscores for other characters than letters, digits and underscores.
    A symbolic batch is a variable of the function's signature. The function's attributes "input_names" and
    "output_names" hold the network's names.
    """
    symbols: dict[str, Any] = {}
    inputs = [_input(value, symbols) for value in network.inputs]
    values: dict[str, Any] = {value.name: input for value, input in zip(network.inputs, inputs, strict=True)}
    builder = relax.BlockBuilder()
    names = {
        "input_names": [value.name for value in network.inputs],
        "output_names": [value.name for value in network.outputs],
    }
    with builder.function("main", inputs, attrs=names):
        with builder.dataflow():
            for node in network.nodes:
                name = _identifier(node.output.name)
                weights = [parameter.values() for parameter in node.parameters]
                inputs_read = [values[source] for source in node.inputs]
                expression = _expression(builder, node.operation, name, inputs_read, weights)
                emit = builder.emit_output if node.output in network.outputs else builder.emit
                values[node.output.name] = emit(expression, name_hint=name)
            results = [values[value.name] for value in network.outputs]
        builder.emit_func_output(results[0] if len(results) == 1 else relax.Tuple(results))
    return builder.finalize()


def _input(value: Value, symbols: dict[str, Any]) -> Any:
    shape = [
        extent if isinstance(extent, int) else symbols.setdefault(extent, tirx.Var(extent, "int64"))
        for extent in value.shape
    ]
    return relax.Var(value.name, relax.TensorType(shape, "float32"))


def _expression(
    builder: Any, operation: Operation, name: str, inputs: list[Any], weights: list[Array]
) -> Any:
    match operation:
        case Convolution():
            result = relax.op.nn.conv2d(
                inputs[0],
                relax.const(weights[0]),
                strides=operation.strides,
                padding=operation.padding,
                dilation=operation.dilation,
                groups=operation.groups,
                data_layout="NCHW",
                kernel_layout="OIHW",
            )
            if len(weights) == 1:
                return result
            return _biased(builder, result, name, weights[1].reshape(1, -1, 1, 1))
        case TransposedConvolution():
            result = relax.op.nn.conv2d_transpose(
                inputs[0],
                relax.const(weights[0]),
                strides=operation.strides,
                padding=operation.padding,
                data_layout="NCHW",
                kernel_layout="IOHW",
            )
            if len(weights) == 1:
                return result
            return _biased(builder, result, name, weights[1].reshape(1, -1, 1, 1))
        case BatchNormalization():
            statistics = [relax.const(weight) for weight in weights]
            result = relax.op.nn.batch_norm(
                inputs[0], *statistics, axis=1, epsilon=operation.epsilon, training=False
            )
            return relax.TupleGetItem(builder.emit(result, name_hint=f"{name}_tuple"), 0)
        case LayerNormalization():
            gamma, beta = (relax.const(weight) for weight in weights)
            return relax.op.nn.layer_norm(
                inputs[0], gamma, beta, axes=[len(inputs[0].ty.shape) - 1], epsilon=operation.epsilon
            )
        case Relu():
            return relax.op.nn.relu(inputs[0])
        case Clip():
            return relax.op.clip(inputs[0], operation.minimum, operation.maximum)
        case Sigmoid():
            return relax.op.sigmoid(inputs[0])
        case HardSigmoid():
            return _hard_sigmoid(inputs[0])
        case HardSwish():
            gate = builder.emit(_hard_sigmoid(inputs[0]), name_hint=f"{name}_gate")
            return relax.op.multiply(inputs[0], gate)
        case Gelu():
            return relax.op.nn.gelu(inputs[0])
        case Scale():
            return relax.op.multiply(inputs[0], relax.const(weights[0]))
        case MaxPool():
            return relax.op.nn.max_pool2d(
                inputs[0],
                pool_size=operation.kernel,
                strides=operation.strides,
                padding=operation.padding,
                dilation=operation.dilation,
                ceil_mode=operation.ceil_mode,
                layout="NCHW",
            )
        case AveragePool():
            return relax.op.nn.avg_pool2d(
                inputs[0],
                pool_size=operation.kernel,
                strides=operation.strides,
                padding=operation.padding,
                count_include_pad=operation.count_include_pad,
                layout="NCHW",
            )
        case GlobalAveragePool():
            return relax.op.mean(inputs[0], axis=[2, 3], keepdims=True)
        case Resize():
            nearest = operation.method == "nearest"
            height, width = (int(extent) * operation.factor for extent in list(inputs[0].ty.shape)[2:])
            return relax.op.image.resize2d(
                inputs[0],
                size=(height, width),
                layout="NCHW",
                method="nearest_neighbor" if nearest else "linear",
                coordinate_transformation_mode="asymmetric" if nearest else "half_pixel",
                rounding_method="floor" if nearest else "",
            )
        case Add():
            return relax.op.add(inputs[0], inputs[1])
        case Multiply():
            return relax.op.multiply(inputs[0], inputs[1])
        case Concatenate():
            return relax.op.concat(inputs, axis=1)
        case Slice():
            return relax.op.strided_slice(
                inputs[0], [1], [operation.start], [operation.end], [1], assume_inbound=True
            )
        case Transpose():
            return relax.op.permute_dims(inputs[0], operation.axes)
        case Flatten():
            return relax.op.reshape(inputs[0], (inputs[0].ty.shape[0], -1))
        case Dense() | PixelwiseDense():
            product = relax.op.matmul(inputs[0], relax.const(np.ascontiguousarray(weights[0].T)))
            return _biased(builder, product, name, weights[1])


def _biased(builder: Any, result: Any, name: str, bias: Array) -> Any:
    return relax.op.add(builder.emit(result, name_hint=f"{name}_unbiased"), relax.const(bias))


def _hard_sigmoid(data: Any) -> Any:
    line = relax.op.add(relax.op.multiply(data, relax.const(1 / 6, "float32")), relax.const(0.5, "float32"))
    return relax.op.clip(line, 0.0, 1.0)


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)
