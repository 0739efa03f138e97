"""A network as a Relax module."""

import re
from typing import Any

import numpy as np
from tvm import IRModule, relax, tirx

from relay_layout.models import operations as ops
from relay_layout.models.network import Network, Value
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
    builder: relax.BlockBuilder, operation: ops.Operation, name: str, inputs: list[Any], weights: list[Array]
) -> Any:
    """The call that computes an operation; others that it needs are bound under names after ``name``."""
    data = inputs[0]
    match operation:
        case ops.Convolution() | ops.TransposedConvolution():
            result = _convolution(data, operation, relax.const(weights[0]))
            return _biased(builder, result, name, weights[1].reshape(1, -1, 1, 1)) if weights[1:] else result
        case ops.BatchNormalization():
            statistics = [relax.const(weight) for weight in weights]
            result = relax.op.nn.batch_norm(
                data, *statistics, axis=1, epsilon=operation.epsilon, training=False
            )
            return relax.TupleGetItem(builder.emit(result, name_hint=f"{name}_tuple"), 0)
        case ops.LayerNormalization():
            gamma, beta = (relax.const(weight) for weight in weights)
            return relax.op.nn.layer_norm(
                data, gamma, beta, axes=[len(data.ty.shape) - 1], epsilon=operation.epsilon
            )
        case ops.Relu():
            return relax.op.nn.relu(data)
        case ops.Clip():
            return relax.op.clip(data, operation.minimum, operation.maximum)
        case ops.Sigmoid():
            return relax.op.sigmoid(data)
        case ops.HardSigmoid():
            return _hard_sigmoid(data)
        case ops.HardSwish():
            return relax.op.multiply(data, builder.emit(_hard_sigmoid(data), name_hint=f"{name}_gate"))
        case ops.Gelu():
            return relax.op.nn.gelu(data)
        case ops.Scale():
            return relax.op.multiply(data, relax.const(weights[0]))
        case ops.MaxPool() | ops.AveragePool():
            return _pooling(data, operation)
        case ops.GlobalAveragePool():
            return relax.op.mean(data, axis=[2, 3], keepdims=True)
        case ops.Resize():
            return _resized(data, operation)
        case ops.Add():
            return relax.op.add(data, inputs[1])
        case ops.Multiply():
            return relax.op.multiply(data, inputs[1])
        case ops.Concatenate():
            return relax.op.concat(inputs, axis=1)
        case ops.Slice():
            bounds = [operation.start], [operation.end]
            return relax.op.strided_slice(data, [1], *bounds, [1], assume_inbound=True)
        case ops.Transpose():
            return relax.op.permute_dims(data, operation.axes)
        case ops.Flatten():
            return relax.op.reshape(data, (data.ty.shape[0], -1))
        case ops.Dense() | ops.PixelwiseDense():
            product = relax.op.matmul(data, relax.const(np.ascontiguousarray(weights[0].T)))
            return _biased(builder, product, name, weights[1])


def _convolution(data: Any, operation: ops.Convolution | ops.TransposedConvolution, weight: Any) -> Any:
    window = {"strides": operation.strides, "padding": operation.padding, "data_layout": "NCHW"}
    if isinstance(operation, ops.TransposedConvolution):
        return relax.op.nn.conv2d_transpose(data, weight, kernel_layout="IOHW", **window)
    return relax.op.nn.conv2d(
        data,
        weight,
        dilation=operation.dilation,
        groups=operation.groups,
        kernel_layout="OIHW",
        **window,
    )


def _pooling(data: Any, operation: ops.MaxPool | ops.AveragePool) -> Any:
    window = {
        "pool_size": operation.kernel,
        "strides": operation.strides,
        "padding": operation.padding,
        "layout": "NCHW",
    }
    if isinstance(operation, ops.AveragePool):
        return relax.op.nn.avg_pool2d(data, count_include_pad=operation.count_include_pad, **window)
    return relax.op.nn.max_pool2d(data, ceil_mode=operation.ceil_mode, **window)


def _resized(data: Any, operation: ops.Resize) -> Any:
    nearest = operation.method == "nearest"
    height, width = (int(extent) * operation.factor for extent in list(data.ty.shape)[2:])
    return relax.op.image.resize2d(
        data,
        size=(height, width),
        layout="NCHW",
        method="nearest_neighbor" if nearest else "linear",
        coordinate_transformation_mode="asymmetric" if nearest else "half_pixel",
        rounding_method="floor" if nearest else "",
    )


def _biased(builder: relax.BlockBuilder, result: Any, name: str, bias: Array) -> Any:
    return relax.op.add(builder.emit(result, name_hint=f"{name}_unbiased"), relax.const(bias))


def _hard_sigmoid(data: Any) -> Any:
    line = relax.op.add(relax.op.multiply(data, relax.const(1 / 6, "float32")), relax.const(0.5, "float32"))
    return relax.op.clip(line, 0.0, 1.0)


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)
