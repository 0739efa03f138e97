"""Elementwise operators and matrix products whose computes are ours, by operator."""

from collections.abc import Callable

from tvm import relax, te

from relay_layout.ir import Expression, operator_name
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
    """Exponentials in vectors."""
    if str(call.args[0].ty.dtype) != "float32":
        return call.op.get_attr("FLegalize")(builder, call)
    return builder.call_te(
        transcendental.softmax, call.args[0], int(call.attrs.axis), primfunc_name_hint="softmax"
    )


__all__ = ["COMPUTES", "softmax_call", "transcendental_call"]
