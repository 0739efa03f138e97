"""Products of bytes whose zero point is only known at run time, by constant bytes or by others of these.

Data ``x`` have the zero point ``p``, weights less theirs are ``v + r`` (:mod:`.weights`). Then
``sum((x - p) * (v + r))`` is ``sum(x * v) + r * sum(x) - p * sum(v + r)``. Of two tensors of data ``r`` is
known at run time, too.
"""

from dataclasses import dataclass

import numpy as np
from tvm import relax

from relay_layout.ir import Constant, Emit, Expression, constant, constant_array, dtype_of, shape_of
from relay_layout.quantization.reals import SHIFT, shifted, unshifted
from relay_layout.quantization.weights import CentredWeight, convolution_of_bytes, product_of_bytes


@dataclass(frozen=True)
class Bytes:
    """``tensor - zero_point``: uint8, and a scalar or a tensor of int32 that broadcasts, or None for zero."""

    tensor: Expression
    zero_point: Expression | None


def bytes_of(tensor: Expression, zero_point: Expression | None, emit: Emit) -> Bytes:
    """int8 or uint8 less numbers of the same type."""
    point = None if zero_point is None else emit(relax.op.astype(zero_point, "int32"))
    if dtype_of(tensor) == "uint8":
        return Bytes(tensor, point)
    moved = _shift() if point is None else emit(relax.op.add(point, _shift()))
    return Bytes(emit(shifted(tensor, emit)), moved)


def multiplied_at_run_time(data: Bytes, weight: CentredWeight, emit: Emit) -> Expression:
    """Rows of bytes times a matrix, in int32."""
    total = product_of_bytes(data.tensor, weight, emit)
    return _less_zero_point(total, data, weight.sums, emit)


def multiplied_bytes(left: Bytes, right: Bytes, emit: Emit) -> Expression:
    """The product of two tensors, of matrices of a fixed depth, in int32.

    Zero points broadcast to their tensor.
    """
    factors, rest = emit(unshifted(right.tensor, emit)), _rest(right.zero_point, emit)
    total = emit(relax.op.matmul(left.tensor, factors, out_dtype="int32"))
    if rest is not None:
        total = emit(relax.op.add(total, emit(relax.op.multiply(rest, _sums(left.tensor, -1, emit)))))
    if left.zero_point is None:
        return total
    sums = _sums(factors, -2, emit)
    if rest is not None:
        depth = constant(np.array((shape_of(left.tensor) or ())[-1], "int32"))
        sums = emit(relax.op.add(sums, emit(relax.op.multiply(rest, depth))))
    return relax.op.subtract(total, emit(relax.op.multiply(left.zero_point, sums)))


def _rest(zero_point: Expression | None, emit: Emit) -> Expression | None:
    """What is added to uint8 as int8 so that they are less their zero point; None where that is zero."""
    if zero_point is None:
        return _shift()
    if not isinstance(zero_point, Constant):
        return emit(relax.op.subtract(_shift(), zero_point))
    rest = np.int32(SHIFT) - constant_array(zero_point)
    return constant(rest) if rest.any() else None


def _sums(tensor: Expression, axis: int, emit: Emit) -> Expression:
    return emit(relax.op.sum(emit(relax.op.astype(tensor, "int32")), [axis], True))


def _shift() -> Expression:
    return constant(np.array(SHIFT, "int32"))


def convolved_at_run_time(call: relax.Call, data: Bytes, weight: CentredWeight, emit: Emit) -> Expression:
    """A 2-D convolution like ``call``, NCHW and OIHW, in int32.

    The border holds the zero point, so that each sum has it as often as it has weights.
    """
    tensor = data.tensor
    padding = [int(size) for size in call.attrs.padding]
    if any(padding) and data.zero_point is not None:
        tensor = emit(_bordered(tensor, padding, data.zero_point, emit))
        padding = [0] * len(padding)
    total = convolution_of_bytes(call, tensor, padding, weight, emit)
    return _less_zero_point(total, data, weight.sums.reshape(-1, 1, 1), emit)


def _less_zero_point(total: Expression, data: Bytes, sums: np.ndarray, emit: Emit) -> Expression:
    if data.zero_point is None:
        return total
    return relax.op.subtract(total, emit(relax.op.multiply(data.zero_point, constant(sums))))


def _bordered(tensor: Expression, padding: list[int], value: Expression, emit: Emit) -> Expression:
    """NCHW with a border of ``value``: zeros, to which an image of ``value`` around zeros is added."""
    top, left, bottom, right = padding
    widths = [0, 0, 0, 0, top, bottom, left, right]
    height, width = (shape_of(tensor) or ())[2:]
    if isinstance(height, int) and isinstance(width, int):
        around = ((0, 0), (0, 0), (top, bottom), (left, right))
        ones = constant(np.pad(np.zeros((1, 1, height, width), "uint8"), around, constant_values=1))
    else:
        inside = emit(relax.op.zeros((1, 1, height, width), "uint8"))
        ones = emit(relax.op.nn.pad(inside, widths, "constant", 1.0))
    border = emit(relax.op.multiply(ones, emit(relax.op.astype(value, "uint8"))))
    return relax.op.add(emit(relax.op.nn.pad(tensor, widths, "constant", 0.0)), border)
