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


def full_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """``full`` or ``full_like`` of a number that may be infinite or none; TVM takes finite ones alone."""
    shape, value = shape_of(call), call.args[1]
    if shape is None or not isinstance(value, Constant) or np.isfinite(constant_array(value)).all():
        return call.op.get_attr("FLegalize")(builder, call)
    element = tirx.const(constant_array(value).item(), dtype_of(call))

    def compute(extents: Sequence[tirx.Expr]) -> te.Tensor:
        return te.compute(extents, lambda *index: element)

    return builder.call_te(compute, list(call.ty.shape.values), primfunc_name_hint="full")


__all__ = ["COMPUTES", "full_call", "transcendental_call"]
