"""Scaling of integers as Relay lowers it: fixed point in 64 bits, or floating point, and the roundings."""

import math

import numpy as np
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, constant, dtype_of
from relay_layout.relay.operators.operator import scalar, scalar_like

UPWARD = "UPWARD"
TONEAREST = "TONEAREST"

FRACTION_BITS = 31
_LARGEST_SHIFT = 31


def multiplier_and_shift(ratio: float) -> tuple[int, int]:
    """``ratio`` as ``multiplier * 2**(shift - 31)`` with a multiplier of 31 bits.

    A ratio so small that no 32-bit number times it rounds to anything but 0 gives (0, 0).
    ModelError for one that is not finite or that shifts every bit of such a number out.
    """
    if not math.isfinite(ratio):
        raise ModelError(f"the quotient of two scales is {ratio}")
    fraction, shift = math.frexp(ratio)
    multiplier = math.floor(abs(fraction) * 2**FRACTION_BITS + 0.5) * (-1 if fraction < 0 else 1)
    if abs(multiplier) == 2**FRACTION_BITS:
        multiplier, shift = multiplier // 2, shift + 1
    if shift > _LARGEST_SHIFT:
        raise ModelError(f"the quotient of two scales is {ratio:g}, over {2**_LARGEST_SHIFT}")
    return (multiplier, shift) if shift > -_LARGEST_SHIFT - 1 else (0, 0)


def fixed_point_multiply(value: Expression, ratios: np.ndarray, rounding: str = UPWARD) -> Expression:
    """Integers times ``ratios``, rounded to int32.

    ``ratios`` is a number, or an array of it that broadcasts to ``value``. UPWARD rounds halves towards
    positive infinity, TONEAREST away from zero.
    """
    parts = [multiplier_and_shift(float(ratio)) for ratio in ratios.reshape(-1)]
    multipliers = _constant([multiplier for multiplier, _ in parts], ratios)
    left = [max(shift, 0) for _, shift in parts]
    right = [FRACTION_BITS + max(-shift, 0) for _, shift in parts]
    wide = relax.op.astype(value, "int64")
    if any(left):
        wide = relax.op.left_shift(wide, _constant(left, ratios))
    wide = relax.op.multiply(wide, multipliers)
    upward = _constant([1 << (shift - 1) for shift in right], ratios)
    if rounding == UPWARD:
        half = upward
    else:
        below = _constant([(1 << (shift - 1)) - 1 for shift in right], ratios)
        half = relax.op.where(relax.op.greater_equal(wide, scalar(0, "int64")), upward, below)
    return relax.op.astype(relax.op.right_shift(relax.op.add(wide, half), _constant(right, ratios)), "int32")


def round_to_nearest(value: Expression) -> Expression:
    """Floating point rounded to whole numbers, halves away from zero.

    Relax's own round takes halves to the even neighbour.
    """
    whole = relax.op.trunc(value)
    far = relax.op.greater_equal(relax.op.abs(relax.op.subtract(value, whole)), scalar_like(0.5, value))
    return relax.op.where(far, relax.op.add(whole, relax.op.sign(value)), whole)


def round_upward(value: Expression) -> Expression:
    """Floating point rounded to whole numbers, halves towards positive infinity."""
    return relax.op.floor(relax.op.add(value, scalar_like(0.5, value)))


def saturate(value: Expression, dtype: str) -> Expression:
    """``value`` limited to what ``dtype``, an integer type of at most 32 bits, holds, and of that type."""
    limits = np.iinfo(dtype)
    if dtype_of(value).startswith("float"):
        # float32 does not hold the limits of int32.
        value = relax.op.astype(value, "float64")
    return relax.op.astype(relax.op.clip(value, int(limits.min), int(limits.max)), dtype)


def _constant(values: list[int], like: np.ndarray) -> Expression:
    return constant(np.array(values, "int64").reshape(like.shape))
