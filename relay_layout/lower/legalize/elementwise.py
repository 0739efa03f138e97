"""Elementwise operators whose computes are ours, by operator."""

from collections.abc import Callable, Sequence

import numpy as np
from tvm import relax, te, tirx

from relay_layout.ir import (
    Constant,
    Expression,
    constant,
    constant_array,
    dtype_of,
    operator_name,
    shape_of,
    with_operands,
)
from relay_layout.lower.fusion.patterns import BROADCAST, ELEMENTWISE, PATTERN
from relay_layout.lower.legalize.default import default_call
from topi_ext.compute import transcendental, trigonometric
from topi_ext.compute.powers import power
from topi_ext.compute.quotients import (
    EXACT,
    floored_integer_remainder,
    floored_quotient,
    integer_remainder,
    quotient,
)
from topi_ext.compute.remainders import floored_remainder, remainder

COMPUTES: dict[str, Callable[[te.Tensor], te.Tensor]] = {
    "acos": trigonometric.acos,
    "asin": trigonometric.asin,
    "atan": trigonometric.atan,
    "cos": trigonometric.cos,
    "cosh": transcendental.cosh,
    "erf": transcendental.erf,
    "exp": transcendental.exp,
    "log": transcendental.log,
    "nn.gelu": transcendental.gelu,
    "nn.gelu_tanh": transcendental.gelu_tanh,
    "nn.silu": transcendental.silu,
    "sigmoid": transcendental.sigmoid,
    "sin": trigonometric.sin,
    "sinh": transcendental.sinh,
    "tanh": transcendental.tanh,
}
"""Computes of float32. For other types TVM's are taken, except for _DOUBLES."""

_DOUBLES = "cosh", "sinh"
"""Those that are of float64, too: LLVM has no functions for them."""


REMAINDERS: dict[str, Callable[..., te.Tensor]] = {"mod": remainder, "floor_mod": floored_remainder}
"""Computes of float32, which broadcast."""


_INTEGER_QUOTIENTS: dict[str, Callable[..., te.Tensor]] = {
    "divide": quotient,
    "floor_divide": floored_quotient,
    "mod": integer_remainder,
    "floor_mod": floored_integer_remainder,
}
"""Computes of integers that floats hold, which broadcast."""


def transcendental_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """A call of one of COMPUTES."""
    name = operator_name(call)
    dtype = dtype_of(call.args[0])
    if dtype != "float32" and not (dtype == "float64" and name in _DOUBLES):
        return default_call(builder, call)
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
        return default_call(builder, call)
    element = tirx.const(constant_array(value).item(), dtype_of(call))

    def compute(extents: Sequence[tirx.Expr]) -> te.Tensor:
        return te.compute(extents, lambda *index: element)

    return builder.call_te(compute, list(call.ty.shape.values), primfunc_name_hint="full")


def quotient_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """A quotient or remainder of integers that no operand ends the process with, and one of REMAINDERS of
    float32; others as they are.

    By 0 it is that by 1. By -1, of which the quotient of the least integer has no room, the remainder is that
    by 1 as well, and the quotient that by 1 with the other sign, which wraps around.
    """
    dividend, divisor = call.args
    if operator_name(call) in REMAINDERS and _are_single(call):
        return _broadcast_call(builder, call, REMAINDERS[operator_name(call)])
    if not isinstance(divisor.ty, relax.TensorType) or not dtype_of(divisor).startswith(("int", "uint")):
        return default_call(builder, call)
    is_one = isinstance(divisor, Constant) and constant_array(divisor).size == 1
    # By one constant LLVM multiplies.
    if dtype_of(dividend) == dtype_of(divisor) in EXACT and not is_one and shape_of(call) is not None:
        return _broadcast_call(builder, call, _INTEGER_QUOTIENTS[operator_name(call)])
    trapping = (0, -1) if dtype_of(divisor).startswith("int") else (0,)
    if isinstance(divisor, Constant) and not np.isin(constant_array(divisor), trapping).any():
        return default_call(builder, call)

    def chosen(name: str, where: Sequence[int], there: int, elsewhere: int | None = None) -> Expression:
        """``there`` where the divisor is one of ``where``, else the divisor or ``elsewhere``."""

        def element(value: tirx.Expr) -> tirx.Expr:
            rest = value if elsewhere is None else tirx.const(elsewhere, value.ty.dtype)
            found = tirx.any(*(value == each for each in where))
            return tirx.Select(found, tirx.const(there, value.ty.dtype), rest)

        def compute(tensor: te.Tensor) -> te.Tensor:
            return te.compute(tensor.shape, lambda *index: element(tensor(*index)))

        made = builder.call_te(
            compute, divisor, primfunc_name_hint=name, primfunc_attrs={PATTERN: ELEMENTWISE}
        )
        return builder.emit(made, name_hint=name)

    plain = with_operands(call, [dividend, chosen("divisor", trapping, 1)])
    if -1 not in trapping or operator_name(call) in REMAINDERS:
        return default_call(builder, plain)
    quotient = builder.emit(default_call(builder, plain), name_hint="quotient")
    signed = builder.normalize(relax.op.multiply(quotient, chosen("sign", [-1], -1, 1)))
    return default_call(builder, signed)


def _are_single(call: relax.Call) -> bool:
    """Are both operands tensors of float32, and the shape of the result known?"""
    tensors = all(isinstance(side.ty, relax.TensorType) for side in call.args)
    return tensors and {*map(dtype_of, call.args)} == {"float32"} and shape_of(call) is not None


def _broadcast_call(
    builder: relax.BlockBuilder, call: relax.Call, compute: Callable[..., te.Tensor]
) -> Expression:
    """A call of ``compute`` of both operands and the shape of the result."""
    return builder.call_te(
        compute,
        *call.args,
        list(call.ty.shape.values),
        primfunc_name_hint=operator_name(call),
        primfunc_attrs={PATTERN: BROADCAST},
    )


def equality_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """``equal`` or ``not_equal``; of a float and itself a question for NaN, which TVM simplifies away."""
    left, right = call.args
    if not left.same_as(right) or "float" not in dtype_of(left):
        return default_call(builder, call)
    differs = operator_name(call) == "not_equal"

    def compare(tensor: te.Tensor) -> te.Tensor:
        def element(*index: tirx.Expr) -> tirx.Expr:
            unknown = tirx.isnan(tensor(*index))
            return unknown if differs else tirx.Not(unknown)

        return te.compute(tensor.shape, element)

    return builder.call_te(
        compare, left, primfunc_name_hint="equality", primfunc_attrs={PATTERN: ELEMENTWISE}
    )


def ordered_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """A call of one of ORDERS; of truth values by bytes, as TVM takes their type for that of floats."""
    if dtype_of(call.args[0]) != "bool":
        return default_call(builder, call)
    widened = [builder.emit(relax.op.astype(operand, "uint8")) for operand in call.args]
    found = builder.emit(with_operands(call, widened))
    return found if dtype_of(found) == dtype_of(call) else relax.op.astype(found, dtype_of(call))


def extremum_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """``maximum`` or ``minimum``; of floats of which one is NaN, NaN.

    That of code for CPUs is the second operand wherever one is NaN.
    """
    left, right = call.args
    if "float" not in dtype_of(left):
        return ordered_call(builder, call)
    known = [operand for operand in (left, right) if isinstance(operand, Constant)]
    if any(constant_array(operand).size == 1 for operand in known):
        # The code generator puts a number first.
        return default_call(builder, call)
    if known and not np.isnan(constant_array(known[0])).any():
        return default_call(builder, with_operands(call, [known[0], right if known[0] is left else left]))
    found = builder.emit(default_call(builder, call))
    return relax.op.where(builder.emit(relax.op.isnan(left)), left, found)


def negative_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """``negative``; of unsigned integers what added to them is zero."""
    if not dtype_of(call).startswith("uint"):
        return default_call(builder, call)
    return _complement(builder, call.args[0])


def difference_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """``subtract``; TVM takes differences of unsigned integers never to wrap, so that 0 - x would be 0."""
    left, right = call.args
    if not dtype_of(call).startswith("uint"):
        return default_call(builder, call)
    return relax.op.add(left, builder.emit(_complement(builder, right)))


def _complement(builder: relax.BlockBuilder, value: Expression) -> Expression:
    """What added to unsigned integers is zero."""
    return relax.op.add(builder.emit(relax.op.bitwise_not(value)), constant(np.array(1, dtype_of(value))))


def sign_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """``sign``, of NaN itself; where nothing is negative TVM looks for a -1 that the type does not have."""
    dtype = dtype_of(call)
    if dtype == "bool":
        return call.args[0]
    none, one = tirx.const(0, dtype), tirx.const(1, dtype)

    def sign(value: tirx.Expr) -> tirx.Expr:
        rest = value if dtype.startswith("uint") else tirx.Select(value < none, -one, value)
        return tirx.Select(value > none, one, rest)

    def signs(tensor: te.Tensor) -> te.Tensor:
        return te.compute(tensor.shape, lambda *index: sign(tensor(*index)))

    return builder.call_te(
        signs, call.args[0], primfunc_name_hint="sign", primfunc_attrs={PATTERN: ELEMENTWISE}
    )


def negation_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """``logical_not`` by bytes, as TVM makes ``x < y`` of the opposite of ``x >= y``, NaN or not."""
    if dtype_of(call.args[0]) != "bool":
        return default_call(builder, call)

    def negated(tensor: te.Tensor) -> te.Tensor:
        return te.compute(tensor.shape, lambda *index: tirx.EQ(tensor(*index).astype("uint8"), _FALSE))

    return builder.call_te(
        negated, call.args[0], primfunc_name_hint="negation", primfunc_attrs={PATTERN: ELEMENTWISE}
    )


_FALSE = tirx.const(0, "uint8")


def power_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """``power``, by products and roots where one known exponent of float32 or float64 allows it."""
    base, exponent = call.args
    rule = None
    if isinstance(exponent, Constant) and dtype_of(call) in ("float32", "float64"):
        numbers = constant_array(exponent)
        is_one = numbers.size == 1 and numbers.ndim <= len(shape_of(base) or ())
        rule = _POWERS.get(numbers.item()) if is_one else None
    if rule is None:
        return _broadcast_call(builder, call, power) if _are_single(call) else default_call(builder, call)

    def raised(tensor: te.Tensor) -> te.Tensor:
        return te.compute(tensor.shape, lambda *index: rule(tensor(*index)))

    return builder.call_te(raised, base, primfunc_name_hint="power", primfunc_attrs={PATTERN: ELEMENTWISE})


def _root(value: tirx.Expr) -> tirx.Expr:
    """The power of one half: of -0 that is 0, and of -inf it is inf, which are no square roots."""
    least, none = (tirx.const(number, value.ty.dtype) for number in (-np.inf, np.nan))
    is_negative = tirx.And(value < tirx.const(0, value.ty.dtype), value > least)
    return tirx.Select(is_negative, none, tirx.sqrt(tirx.abs(value)))


def _reciprocal_root(value: tirx.Expr) -> tirx.Expr:
    return tirx.const(1, value.ty.dtype) / _root(value)


_POWERS: dict[float, Callable[[tirx.Expr], tirx.Expr]] = {
    2: lambda value: value * value,
    3: lambda value: value * value * value,
    4: lambda value: (value * value) * (value * value),
    0.5: _root,
    -0.5: _reciprocal_root,
}
"""By exponent; the library's function takes one element at a time."""

EQUALITIES = "equal", "not_equal"

ORDERS = "less", "less_equal", "greater", "greater_equal"

EXTREMA = "maximum", "minimum"

QUOTIENTS = "divide", "floor_divide", *REMAINDERS
