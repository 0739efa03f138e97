"""Arithmetic, comparisons and mathematical functions, element by element with broadcasting."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax, tirx, topi

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, dtype_of, operator_name
from relay_layout.relay.operators.agreement import broadcast
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.axis_arguments import axes_of
from relay_layout.relay.operators.direct import direct, relax_function
from relay_layout.relay.operators.fixed_point import FRACTION_BITS, round_to_nearest
from relay_layout.relay.operators.operator import (
    Build,
    Exported,
    Operator,
    Scope,
    extents,
    rank_of,
    scalar,
    topi_build,
)
from relay_layout.relay.syntax.data_types import NAMES

_UNARY = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "exp",
    "floor",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "negative",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]

_ARITHMETIC = ("add", "subtract", "divide", "floor_divide", "floor_mod", "mod", "power")
_LOGICAL = ("logical_and", "logical_or", "logical_xor")
_BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor")
_SHIFTS = ("left_shift", "right_shift")
_COMPARISONS = ("equal", "greater", "greater_equal", "less", "less_equal", "not_equal")
_EXTREMA = ("maximum", "minimum")

_WITH_TE = {
    "log2": topi.log2,
    "log10": topi.log10,
    "fast_exp": topi.fast_exp,
    "fast_tanh": topi.fast_tanh,
    "fast_erf": topi.fast_erf,
}
"""Functions that Relax lacks and that no composition gives to the last bit."""

_LARGEST_BFLOAT16 = 3.3895313892515355e38


def _is_float(value: Expression) -> bool:
    return dtype_of(value).startswith(("float", "bfloat"))


def _common_dtype(operands: Sequence[Expression]) -> str:
    dtypes = {dtype_of(operand): None for operand in operands}
    if len(dtypes) != 1:
        raise ModelError(f"takes operands of one data type, not {' and '.join(dtypes)}")
    return next(iter(dtypes))


def _arithmetic(name: str) -> Operator:
    def build(scope: Scope, values: Sequence[Expression], given: Attributes) -> Expression:
        _common_dtype(values)
        return relax_function(name)(*values)

    return Operator(
        name, ("lhs", "rhs"), build, relax_names=(name,), export=lambda call: {}, agreement=broadcast
    )


def _restricted(name: str, operands: str, *, kinds: str) -> Operator:
    """A row for an operator that lowers for some data types only: bool, int and uint, as in ``kinds``."""

    def build(scope: Scope, values: Sequence[Expression], given: Attributes) -> Expression:
        dtype = _common_dtype(values)
        if dtype.rstrip("0123456789") not in kinds.split():
            raise ModelError(f"takes {kinds.replace(' ', ' or ')}, not {dtype}")
        return relax_function(name)(*values)

    return Operator(
        name,
        tuple(operands.split()),
        build,
        relax_names=(name,),
        export=lambda call: {},
        agreement=broadcast,
    )


def _also_of_bool(name: str, *, compares: bool = False) -> Build:
    """A build for a pair, which Relax lowers for numbers only: truths are taken as 0 and 1."""

    def build(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
        function = relax_function(name)
        if _common_dtype(operands) != "bool":
            return function(*operands)
        result = function(*(relax.op.astype(operand, "int8") for operand in operands))
        return result if compares else relax.op.astype(result, "bool")

    return build


def _export_multiply(call: relax.Call) -> Exported:
    square = operator_name(call) == "square"
    return Exported([call.args[0], call.args[0]] if square else list(call.args), {})


def _with_te(function: Callable[..., Any]) -> Build:
    compute = topi_build(function)

    def build(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
        if not _is_float(operands[0]):
            raise ModelError(f"takes floating point, not {dtype_of(operands[0])}")
        return compute(scope, operands, given)

    return build


def _round(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    """Halves away from zero, as Relay's code generation had it; that of Relax takes them to even."""
    return round_to_nearest(operands[0]) if _is_float(operands[0]) else operands[0]


def _trunc_divide(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    _common_dtype(operands)
    quotient = relax.op.divide(*operands)
    return relax.op.trunc(quotient) if _is_float(operands[0]) else quotient


def _trunc_mod(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    left, right = operands
    _common_dtype(operands)
    if not _is_float(left):
        return relax.op.mod(left, right)
    whole = relax.op.trunc(relax.op.divide(left, right))
    return relax.op.subtract(left, relax.op.multiply(whole, right))


def checked_dtype(dtype: str) -> str:
    """The name of a data type that tensors may have."""
    if dtype not in NAMES:
        raise ModelError(f"there is no data type '{dtype[:40]}'")
    return dtype


def _cast(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    return relax.op.astype(operands[0], checked_dtype(given.dtype))


def _cast_like(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    return relax.op.astype(operands[0], dtype_of(operands[1]))


def _reinterpret(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    dtype = checked_dtype(given.dtype)
    if np.dtype(dtype).itemsize != np.dtype(dtype_of(operands[0])).itemsize:
        raise ModelError(f"{dtype} has not as many bits as {dtype_of(operands[0])}")
    return scope.builder.call_te(topi.reinterpret, operands[0], dtype)


def _limit(value: float, dtype: str, name: str) -> Expression:
    """A limit of clip, converted to the data type as Relay does: integers are cut off, the rest is exact."""
    if math.isnan(value):
        raise ModelError(f"{name} is not a number")
    if dtype.startswith(("float", "bfloat")):
        largest = _LARGEST_BFLOAT16 if dtype == "bfloat16" else float(np.finfo(dtype).max)
        return tirx.FloatImm("float64", math.copysign(math.inf, value) if abs(value) > largest else value)
    range_of = np.iinfo(dtype)
    if math.isinf(value):
        return tirx.IntImm("int64", int(range_of.max if value > 0 else range_of.min))
    return tirx.IntImm("int64", max(int(range_of.min), min(int(value), int(range_of.max), 2**63 - 1)))


def _clip(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    data = operands[0]
    dtype = dtype_of(data)
    low, high = (_limit(given[name], dtype, name) for name in ("a_min", "a_max"))
    return relax.op.clip(data, low, high)


def _export_clip(call: relax.Call) -> Exported | None:
    limits = [float(limit.value) for limit in call.args[1:] if isinstance(limit, tirx.IntImm | tirx.FloatImm)]
    if len(limits) != 2:
        return None
    return Exported([call.args[0]], {"a_min": limits[0], "a_max": limits[1]})


def _where(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    condition, x, y = operands
    if dtype_of(x) != dtype_of(y):
        raise ModelError(f"x is {dtype_of(x)} and y {dtype_of(y)}, not the same")
    dtype = dtype_of(condition)
    if dtype != "bool":
        condition = relax.op.not_equal(condition, scalar(0, dtype))
    return relax.op.where(condition, x, y)


def _copy(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    return operands[0]


def _fixed_point_multiply(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    multiplier, shift = given.multiplier, given.shift
    if not -FRACTION_BITS <= shift <= FRACTION_BITS or abs(multiplier) > 2**FRACTION_BITS:
        raise ModelError(f"multiplier {multiplier} and shift {shift} are not a number in fixed point")
    right = FRACTION_BITS + max(-shift, 0)
    wide = relax.op.astype(operands[0], "int64")
    if shift > 0:
        wide = relax.op.left_shift(wide, scalar(shift, "int64"))
    product = relax.op.multiply(wide, scalar(multiplier, "int64"))
    rounded = relax.op.add(product, scalar(1 << (right - 1), "int64"))
    return relax.op.astype(relax.op.right_shift(rounded, scalar(right, "int64")), dtype_of(operands[0]))


def _fixed_point_per_axis(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    data = operands[0]
    rank = rank_of(data)
    axes = axes_of(given.axes, rank, "axes")
    shape = [extents(data)[axis] if axis in axes else 1 for axis in range(rank)]
    multiplier, left, right = (
        relax.op.reshape(relax.op.astype(operand, "int64"), shape) for operand in operands[1:]
    )
    wide = relax.op.astype(data, "int64")
    if given.is_lshift_required:
        wide = relax.op.left_shift(wide, left)
    total = relax.op.add(right, scalar(FRACTION_BITS, "int64"))
    half = relax.op.left_shift(scalar(1, "int64"), relax.op.subtract(total, scalar(1, "int64")))
    rounded = relax.op.add(relax.op.multiply(wide, multiplier), half)
    return relax.op.astype(relax.op.right_shift(rounded, total), dtype_of(data))


def _export_cast(call: relax.Call) -> Mapping[str, Any]:
    return {"dtype": str(call.attrs.dtype)}


ROWS = (
    *(direct(name, "data") for name in _UNARY),
    *(_arithmetic(name) for name in _ARITHMETIC),
    *(_restricted(name, "lhs rhs", kinds="bool") for name in _LOGICAL),
    _restricted("logical_not", "data", kinds="bool"),
    *(_restricted(name, "lhs rhs", kinds="bool int uint") for name in _BITWISE),
    _restricted("bitwise_not", "data", kinds="bool int uint"),
    *(_restricted(name, "lhs rhs", kinds="int uint") for name in _SHIFTS),
    *(
        Operator(
            name,
            ("lhs", "rhs"),
            _also_of_bool(name, compares=True),
            relax_names=(name,),
            export=lambda call: {},
            agreement=broadcast,
        )
        for name in _COMPARISONS
    ),
    *(
        Operator(
            name,
            ("lhs", "rhs"),
            _also_of_bool(name),
            relax_names=(name,),
            export=lambda call: {},
            agreement=broadcast,
        )
        for name in _EXTREMA
    ),
    *(Operator(name, ("data",), _with_te(function), carried=True) for name, function in _WITH_TE.items()),
    Operator(
        "multiply",
        ("lhs", "rhs"),
        _also_of_bool("multiply"),
        relax_names=("multiply", "square"),
        export=_export_multiply,
        agreement=broadcast,
    ),
    Operator("round", ("data",), _round, carried=True),
    Operator("trunc_divide", ("lhs", "rhs"), _trunc_divide, agreement=broadcast),
    Operator("trunc_mod", ("lhs", "rhs"), _trunc_mod, agreement=broadcast),
    Operator("cast", ("data",), _cast, "CastAttrs", relax_names=("astype",), export=_export_cast),
    Operator("cast_like", ("data", "dtype_like"), _cast_like),
    Operator("reinterpret", ("data",), _reinterpret, "CastAttrs", carried=True),
    Operator("clip", ("a",), _clip, "ClipAttrs", relax_names=("clip",), export=_export_clip),
    Operator(
        "where",
        ("condition", "x", "y"),
        _where,
        relax_names=("where",),
        export=lambda call: {},
        agreement=broadcast,
    ),
    Operator("copy", ("data",), _copy),
    Operator(
        "fixed_point_multiply",
        ("data",),
        _fixed_point_multiply,
        "FixedPointMultiplyAttrs",
        carried=True,
    ),
    Operator(
        "fixed_point_multiply_per_axis",
        ("data", "fp_multiplier", "left_shift", "right_shift"),
        _fixed_point_per_axis,
        "FixedPointMultiplyPerAxisAttrs",
        carried=True,
    ),
)
