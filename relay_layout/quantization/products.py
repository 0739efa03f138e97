"""Convolutions and matrix products of quantized operands, accumulated in int32."""

import numpy as np
from tvm import relax

from relay_layout.ir import Constant, Emit, Expression, constant, dtype_of, shape_of
from relay_layout.quantization.reals import Real, Term, fits_int8
from relay_layout.quantization.run_time import Bytes, multiplied_bytes
from relay_layout.quantization.weights import (
    CentredWeight,
    centred_weight,
    convolution_of_bytes,
    product_of_bytes,
)

_LARGEST = 255


def convolved(call: relax.Call, data: Real | None, weight: Real | None, emit: Emit) -> Real | None:
    """A convolution of uint8 by constant weights; None where it is none of those.

    The border is made of zero points, so that each sum has the zero point in it as often as it has weights.
    """
    attributes = call.attrs
    layouts = [
        str(text) for text in (attributes.data_layout, attributes.kernel_layout, attributes.out_layout)
    ]
    if not all(text.isupper() for text in layouts if text):
        return None
    outputs = layouts[1].index("O")
    found = _operands(data, weight, outputs)
    if found is None:
        return None
    term, centred, scales = found
    zero_point, tensor, padding = (
        int(term.zero_point),
        term.tensor,
        [int(size) for size in attributes.padding],
    )
    if any(padding) and not 0 <= zero_point <= _LARGEST:
        return None
    if zero_point and any(padding):
        tensor = emit(_bordered(tensor, layouts[0], padding, zero_point))
        padding = [0] * len(padding)
    total = convolution_of_bytes(call, tensor, padding, centred, emit)
    out = layouts[2] or layouts[0]
    shape = [-1 if axis == "C" else 1 for axis in out]
    # One product of scales in float32, as in ONNX Runtime.
    multiplier = np.asarray(term.scale * scales, "float32")
    multiplier = multiplier.reshape(shape) if multiplier.size > 1 else multiplier.reshape(())
    return Real((Term(total, multiplier, (centred.sums * np.int32(zero_point)).reshape(shape)),))


def multiplied(call: relax.Call, data: Real | None, weight: Real | None, emit: Emit) -> Real | None:
    """A product of uint8 by a constant matrix, or by other uint8; None where it is none of those."""
    if data is not None and weight is not None and weight.term is not None and weight.term.array is None:
        return _multiplied_tensors(call, data.term, weight.term, emit)
    found = _operands(data, weight, 1)
    if found is None or found[1].integers.ndim != 2:
        return None
    term, centred, scales = found
    total = product_of_bytes(term.tensor, centred, emit)
    sums = centred.sums * np.int32(term.zero_point)
    return Real((Term(total, np.asarray(term.scale * scales, "float32"), sums),))


def _multiplied_tensors(call: relax.Call, left: Term | None, right: Term, emit: Emit) -> Real | None:
    """The product of two tensors of uint8, each of one scale; None of any others."""
    shapes = [shape_of(operand) or () for operand in call.args]
    if left is None or min(map(len, shapes)) < 2 or not isinstance(shapes[0][-1], int):
        return None
    for term in (left, right):
        if not term.is_per_tensor or term.array is not None or dtype_of(term.tensor) != "uint8":
            return None
    first, second = (Bytes(term.tensor, _point(term)) for term in (left, right))
    total = emit(multiplied_bytes(first, second, emit))
    scale = np.asarray(left.scale * right.scale, "float32").reshape(())
    return Real((Term(total, scale, np.array(0, "int32")),))


def _point(term: Term) -> Constant | None:
    """The zero point of all of a tensor, if it has one."""
    return constant(term.zero_point.reshape(()).astype("int32")) if term.zero_point.any() else None


def _operands(
    data: Real | None, weight: Real | None, outputs: int
) -> tuple[Term, CentredWeight, np.ndarray] | None:
    """The data as bytes of one scale, weights without zero point, and their scales along ``outputs``."""
    if data is None or weight is None or data.term is None or weight.term is None:
        return None
    term, kernel = data.term, weight.term
    if (
        kernel.array is None
        or not term.is_per_tensor
        or dtype_of(term.tensor) != "uint8"
        or term.array is not None
    ):
        return None
    of_bytes = kernel.array.dtype in ("int8", "uint8")
    if not of_bytes and not fits_int8(kernel.array.astype("int32") - kernel.zero_point):
        return None
    rank = kernel.array.ndim
    scales, points = (_per_output(part, outputs, rank) for part in (kernel.scale, kernel.zero_point))
    if scales is None or points is None:
        return None
    return term, centred_weight(kernel.array, points, outputs), scales


def _per_output(scale: np.ndarray, outputs: int, rank: int) -> np.ndarray | None:
    """Scales as a vector along the outputs, or one number; None for scales along another axis."""
    if scale.size == 1:
        return scale.reshape(())
    whole = scale.reshape((*[1] * (rank - scale.ndim), *scale.shape))
    return whole.reshape(-1) if whole.size == whole.shape[outputs] else None


def _bordered(tensor: Expression, layout: str, padding: list[int], value: int) -> Expression:
    """``tensor`` with a border of ``value``; ``padding`` lists all that is before, then all that is after."""
    rank = len(padding) // 2
    spatial = [axis for axis in layout if axis not in "NC"]
    widths = dict(zip(spatial, zip(padding[:rank], padding[rank:], strict=True), strict=True))
    flat = [size for axis in layout for size in widths.get(axis, (0, 0))]
    return relax.op.nn.pad(tensor, flat, "constant", float(value))
