"""Operators that reduce along axes whose computes are ours."""

from functools import partial
from math import prod

import numpy as np
from tvm import relax

from relay_layout.ir import Expression, constant, dtype_of, is_static, operator_name, shape_of
from relay_layout.lower.legalize.default import default_call
from relay_layout.lower.legalize.elementwise import ordered_call
from topi_ext.compute import transcendental
from topi_ext.compute.extremes import extreme, first_place


def softmax_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """Softmax, or its logarithm, with exponentials in vectors."""
    name = operator_name(call).removeprefix("nn.")
    if str(call.args[0].ty.dtype) != "float32":
        return default_call(builder, call)
    compute = transcendental.log_softmax if name == "log_softmax" else transcendental.softmax
    return builder.call_te(compute, call.args[0], int(call.attrs.axis), primfunc_name_hint=name)


def rms_norm_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """Division by the root mean square; TVM's loops need an axis that is not summed over, so all have one."""
    data, weight = call.args
    axes, shape = [int(axis) for axis in call.attrs.axes], shape_of(data)
    if shape is None or len(axes) < len(shape):
        return default_call(builder, call)
    batch = builder.emit(builder.normalize(relax.op.reshape(data, [1, *shape])))
    inner = list(range(1, len(shape) + 1))
    same = builder.normalize(relax.op.nn.rms_norm(batch, weight, axes=inner, epsilon=call.attrs.epsilon))
    found = builder.emit(default_call(builder, same))
    return relax.op.reshape(found, shape)


def layer_norm_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """Layer norm; of types that TVM has no loops for, as arithmetic."""
    data, gamma, beta = call.args
    shape, dtype = shape_of(data), dtype_of(data)
    if shape is None or dtype in ("float32", "float16"):
        return default_call(builder, call)
    axes = [int(axis) % len(shape) for axis in call.attrs.axes]

    def mean(tensor: Expression) -> Expression:
        return builder.emit(relax.op.mean(tensor, axes, keepdims=True))

    def lined_up(parameter: Expression) -> Expression:
        in_order = builder.emit(relax.op.permute_dims(parameter, [axes.index(axis) for axis in sorted(axes)]))
        extents = [extent if axis in axes else 1 for axis, extent in enumerate(shape)]
        return builder.emit(relax.op.reshape(in_order, relax.ShapeExpr(extents)))

    deviation = builder.emit(relax.op.subtract(data, mean(data)))
    variance = mean(builder.emit(relax.op.multiply(deviation, deviation)))
    margin = relax.const(float(call.attrs.epsilon), dtype)
    factor = builder.emit(relax.op.rsqrt(builder.emit(relax.op.add(variance, margin))))
    result = builder.emit(relax.op.multiply(deviation, factor))
    if call.attrs.scale:
        result = builder.emit(relax.op.multiply(result, lined_up(gamma)))
    return builder.emit(relax.op.add(result, lined_up(beta))) if call.attrs.center else result


def extreme_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """The largest or smallest elements of floats; those of integers are TVM's."""
    data, shape = call.args[0], shape_of(call.args[0])
    if dtype_of(data) == "bool":
        return ordered_call(builder, call)
    if shape is None or not str(dtype_of(data)).startswith("float"):
        return default_call(builder, call)
    name = operator_name(call)
    axes = range(len(shape)) if call.attrs.axis is None else call.attrs.axis
    places = sorted(int(axis) % len(shape) for axis in axes)
    compute = partial(extreme, largest=name == "max")
    if len(places) == len(shape) > 1 and is_static(shape) and not call.attrs.keepdims:
        # Vectors of a reduction to one number cross the ends of rows, which they only may within one axis.
        data, places = builder.emit(relax.op.reshape(data, [prod(shape)])), [0]
    return builder.call_te(compute, data, places, bool(call.attrs.keepdims), primfunc_name_hint=name)


def first_place_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """``argmax`` or ``argmin``: where no element passes what TVM begins with, the first instead of -1.

    TVM begins with the least or the greatest finite number of the type, such as 0 for uint8.
    """
    if dtype_of(call.args[0]) == "bool":
        return ordered_call(builder, call)
    found = builder.emit(default_call(builder, call))
    return relax.op.maximum(found, constant(np.array(0, dtype_of(call))))


def first_place_in_vectors(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """As :func:`first_place_call`; along a last axis of known extent in vectors, for processors."""
    data, shape, axis = call.args[0], shape_of(call.args[0]) or (), call.attrs.axis
    is_last = bool(shape) and axis is not None and int(axis) % len(shape) == len(shape) - 1
    if not is_last or not isinstance(shape[-1], int) or dtype_of(data) == "bool":
        return first_place_call(builder, call)
    name = operator_name(call)
    compute = partial(first_place, largest=name == "argmax")
    return builder.call_te(compute, data, bool(call.attrs.keepdims), primfunc_name_hint=name)
