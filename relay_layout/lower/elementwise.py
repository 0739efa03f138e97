"""Elementwise operators whose computes are ours, by operator."""

from collections.abc import Callable, Sequence

import numpy as np
from tvm import relax, te, tirx

from relay_layout.ir import Constant, Expression, constant_array, dtype_of, operator_name, shape_of
from relay_layout.lower.patterns import ELEMENTWISE, PATTERN
from topi_ext.compute import transcendental

COMPUTES: dict[str, Callable[[te.Tensor], te.Tensor]] = {
    "cosh": transcendental.cosh,
    "erf": transcendental.erf,
    "exp": transcendental.exp,
    "nn.gelu": transcendental.gelu,
    "nn.gelu_tanh": transcendental.gelu_tanh,
    "nn.silu": transcendental.silu,
    "sigmoid": transcendental.sigmoid,
    "sinh": transcendental.sinh,
    "tanh": transcendental.tanh,
}
"""Float32 only; others are TVM's."""


def transcendental_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """A call of one of COMPUTES."""
    name = operator_name(call)
    if str(call.args[0].ty.dtype) != "float32":
        return call.op.get_attr("FLegalize")(builder, call)
    return builder.call_te(
        COMPUTES[name],
        call.args[0],
        primfunc_name_hint=name.removeprefix("nn."),
        primfunc_attrs={PATTERN: ELEMENTWISE},
    )


def softmax_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """Softmax, or its logarithm, with exponentials in vectors."""
    name = operator_name(call).removeprefix("nn.")
    if str(call.args[0].ty.dtype) != "float32":
        return call.op.get_attr("FLegalize")(builder, call)
    compute = transcendental.log_softmax if name == "log_softmax" else transcendental.softmax
    return builder.call_te(compute, call.args[0], int(call.attrs.axis), primfunc_name_hint=name)


def rms_norm_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """Division by the root mean square; TVM's loops need an axis that is not summed over, so all have one."""
    data, weight = call.args
    axes, shape = [int(axis) for axis in call.attrs.axes], shape_of(data)
    if shape is None or len(axes) < len(shape):
        return call.op.get_attr("FLegalize")(builder, call)
    batch = builder.emit(builder.normalize(relax.op.reshape(data, [1, *shape])))
    inner = list(range(1, len(shape) + 1))
    same = builder.normalize(relax.op.nn.rms_norm(batch, weight, axes=inner, epsilon=call.attrs.epsilon))
    found = builder.emit(call.op.get_attr("FLegalize")(builder, same))
    return relax.op.reshape(found, shape)


def full_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """``full`` or ``full_like`` of a number that may be infinite or none; TVM takes finite ones alone."""
    shape, value = shape_of(call), call.args[1]
    if shape is None or not isinstance(value, Constant) or np.isfinite(constant_array(value)).all():
        return call.op.get_attr("FLegalize")(builder, call)
    element = tirx.const(constant_array(value).item(), dtype_of(call))

    def compute(extents: Sequence[tirx.Expr]) -> te.Tensor:
        return te.compute(extents, lambda *index: element)

    return builder.call_te(compute, list(call.ty.shape.values), primfunc_name_hint="full")


__all__ = ["COMPUTES", "full_call", "rms_norm_call", "softmax_call", "transcendental_call"]
