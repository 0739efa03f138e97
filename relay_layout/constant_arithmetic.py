"""Floating-point operators on constants, computed with numpy as they would be at run time.

Elementwise arithmetic rounds as IEEE 754 says, like kernels; reductions and functions such as the exponential
are computed in double precision and rounded once, so that they differ from those of kernels by rounding only.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.ir import dtype_of, operator_name, shape_of

LARGEST_GROWN = 2**20
"""Elements of the largest constant that is made out of fewer elements."""

LARGEST_PRODUCT = 2**32
"""Multiplications of the largest matrix product that is computed."""

Compute = Callable[..., Any]


def computed(call: relax.Call, operands: Sequence[np.ndarray]) -> np.ndarray | None:
    """What ``call`` of constants, of a static shape, gives; None where that is left to run time.

    Left to run time are other operators, other numbers than floats, operands without elements, results that
    are not finite, constants that would take more than :data:`LARGEST_GROWN` elements and more than the
    operands, and matrix products of more than :data:`LARGEST_PRODUCT` multiplications.
    """
    compute, shape = _COMPUTES.get(operator_name(call)), shape_of(call) or ()
    if compute is None or any(operand.size == 0 for operand in operands):
        return None
    if prod(shape) > max(LARGEST_GROWN, sum(operand.size for operand in operands)):
        return None
    if {str(operand.dtype) for operand in operands} != {dtype_of(call)} or operands[0].dtype.kind != "f":
        return None
    with np.errstate(all="ignore"):
        exact = compute(call, *operands)
        if exact is None:
            return None
        result = np.asarray(exact).astype(operands[0].dtype)
    return result.reshape(shape) if np.isfinite(result).all() else None


def plain(function: Callable[..., Any]) -> Compute:
    """``function`` of the operands as they are."""
    return lambda call, *operands: function(*operands)


def in_double(function: Callable[..., Any]) -> Compute:
    """``function`` of the operands in float64, so that the result is rounded once."""
    return lambda call, *operands: function(*(operand.astype("float64") for operand in operands))


def _reduced(function: Callable[..., Any], **options: Any) -> Compute:
    def compute(call: relax.Call, operand: np.ndarray) -> Any:
        axes = call.attrs.axis
        axis = None if axes is None else tuple(int(place) for place in axes)
        return function(operand, axis=axis, keepdims=bool(call.attrs.keepdims), **options)

    return compute


def _clipped(call: relax.Call, operand: np.ndarray) -> Any:
    low, high = (float(bound.value) for bound in call.args[1:])
    return np.clip(operand, low, high)


def _product(call: relax.Call, left: np.ndarray, right: np.ndarray) -> Any:
    if prod(shape_of(call) or ()) * left.shape[-1] > LARGEST_PRODUCT:
        return None
    return left.astype("float64") @ right.astype("float64")


def _softmax(call: relax.Call, operand: np.ndarray) -> Any:
    axis = int(call.attrs.axis)
    exponentials = np.exp(operand.astype("float64") - operand.max(axis=axis, keepdims=True))
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


ELEMENTWISE: Mapping[str, Compute] = {
    "abs": plain(np.abs),
    "add": plain(np.add),
    "clip": _clipped,
    "divide": plain(np.divide),
    "exp": in_double(np.exp),
    "maximum": plain(np.maximum),
    "minimum": plain(np.minimum),
    "multiply": plain(np.multiply),
    "negative": plain(np.negative),
    "nn.relu": plain(lambda operand: np.maximum(operand, 0)),
    "power": in_double(np.power),
    "rsqrt": in_double(lambda operand: 1 / np.sqrt(operand)),
    "sigmoid": in_double(lambda operand: 1 / (1 + np.exp(-operand))),
    "sqrt": plain(np.sqrt),
    "square": plain(np.square),
    "subtract": plain(np.subtract),
    "tanh": in_double(np.tanh),
}
"""What operators that go element by element make of operands, before it is rounded to their dtype."""

_COMPUTES: Mapping[str, Compute] = {
    **ELEMENTWISE,
    "broadcast_to": lambda call, operand: np.broadcast_to(operand, shape_of(call) or ()),
    "matmul": _product,
    "max": _reduced(np.max),
    "mean": _reduced(np.mean, dtype="float64"),
    "min": _reduced(np.min),
    "nn.softmax": _softmax,
    "std": _reduced(np.std, dtype="float64"),
    "sum": _reduced(np.sum, dtype="float64"),
    "variance": _reduced(np.var, dtype="float64"),
}
