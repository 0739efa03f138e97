"""Constant weights of bytes less their zero points, as kernels multiply them.

Weights ``w`` less their zero point ``q`` may be beyond int8, as those of uint8 are whose zero point is not in
the middle. They are ``v + r`` then, where ``v`` fits int8, and ``sum(x * (w - q))`` is
``sum(x * v) + r * sum(x)``: one product of bytes, and a sum of the data.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import relax

from relay_layout.ir import Emit, Expression, constant, out_layout, with_attributes
from relay_layout.quantization.reals import SHIFT, fits_int8


@dataclass(frozen=True)
class CentredWeight:
    """Weights less their zero point, as int8 and what is left of the zero point.

    ``integers + rest`` are the weights less their zero point; ``rest`` is int32, one number or one per
    output, or None where it is zero. ``sums`` is int32, over the weights of each output.
    """

    integers: np.ndarray
    rest: np.ndarray | None
    sums: np.ndarray


def centred_weight(weight: np.ndarray, zero_point: np.ndarray, outputs: int) -> CentredWeight:
    """int8 or uint8 weights with a zero point, a scalar or a vector along the axis ``outputs``."""
    along = [-1 if axis == outputs else 1 for axis in range(weight.ndim)]
    points = zero_point.astype("int32")
    centred = weight.astype("int32") - points.reshape(along if points.ndim else ())
    integers, rest = centred, None
    if not fits_int8(centred):
        shift = SHIFT if weight.dtype == "uint8" else 0
        integers, rest = weight.astype("int32") - shift, np.int32(shift) - points
    others = tuple(axis for axis in range(weight.ndim) if axis != outputs)
    return CentredWeight(integers.astype("int8"), rest, centred.sum(axis=others, dtype="int32"))


def product_of_bytes(tensor: Expression, weight: CentredWeight, emit: Emit) -> Expression:
    """Rows of uint8 times a matrix, in int32."""
    total = emit(relax.op.matmul(tensor, constant(weight.integers), out_dtype="int32"))
    if weight.rest is None:
        return total
    wide = emit(relax.op.astype(tensor, "int32"))
    sums = emit(relax.op.sum(wide, [-1], True))
    return emit(relax.op.add(total, emit(relax.op.multiply(sums, constant(weight.rest)))))


def convolution_of_bytes(
    call: relax.Call, tensor: Expression, padding: Sequence[int], weight: CentredWeight, emit: Emit
) -> Expression:
    """A convolution like ``call`` of uint8, whose border is ``padding`` of zeros, in int32."""
    operands = [tensor, constant(weight.integers)]
    total = emit(with_attributes(call, operands, padding=padding, out_dtype="int32"))
    if weight.rest is None:
        return total
    along = [-1 if axis == "C" else 1 for axis in out_layout(call.attrs)] if weight.rest.ndim else ()
    sums = emit(_window_sums(call, tensor, padding, weight.integers.shape, emit))
    return emit(relax.op.add(total, emit(relax.op.multiply(sums, constant(weight.rest.reshape(along))))))


def _window_sums(
    call: relax.Call, tensor: Expression, padding: Sequence[int], kernel: Sequence[int], emit: Emit
) -> Expression:
    """For each output of a convolution the sum of all data that it is computed from, in int32.

    ``tensor`` and ``padding`` take the place of those of ``call``, whose kernel has the shape ``kernel``. One
    channel for all outputs, or where there are groups one for each.
    """
    data, weight = str(call.attrs.data_layout), str(call.attrs.kernel_layout)
    if int(call.attrs.groups) > 1:
        ones = np.ones(kernel, "int8")
        return with_attributes(call, [tensor, constant(ones)], padding=padding, out_dtype="int32")
    wide = emit(relax.op.astype(tensor, "int32"))
    sums = emit(relax.op.sum(wide, [data.index("C")], True))
    window = [1 if axis in "OI" else extent for axis, extent in zip(weight, kernel, strict=True)]
    ones = np.ones(window, "int32")
    return with_attributes(call, [sums, constant(ones)], padding=padding, out_dtype="int32")
