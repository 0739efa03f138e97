"""Quantizing and dequantizing as arithmetic, for scales that are computed."""

import numpy as np
from tvm import relax

from relay_layout.ir import Emit, Expression, shape_of


def expanded_quantize(call: relax.Call, emit: Emit) -> Expression:
    """Quantizing by scales that are computed, as arithmetic."""
    data, scale, zero_point = call.args
    dtype = str(call.attrs.out_dtype)
    limits = np.iinfo(dtype)
    steps = emit(relax.op.round(emit(relax.op.divide(data, _along(scale, call, emit)))))
    shift = emit(relax.op.astype(_along(zero_point, call, emit), "float32"))
    held = emit(relax.op.clip(emit(relax.op.add(steps, shift)), float(limits.min), float(limits.max)))
    return relax.op.astype(held, dtype)


def expanded_dequantize(call: relax.Call, emit: Emit) -> Expression:
    """Dequantizing by scales that are computed, as arithmetic."""
    data, scale, zero_point = call.args
    wide = emit(relax.op.astype(data, "int32"))
    shift = emit(relax.op.astype(_along(zero_point, call, emit), "int32"))
    centred = emit(relax.op.astype(emit(relax.op.subtract(wide, shift)), "float32"))
    return relax.op.multiply(centred, _along(scale, call, emit))


def _along(vector: Expression, call: relax.Call, emit: Emit) -> Expression:
    """A scale or zero point that broadcasts to the tensor."""
    shape, rank = shape_of(vector) or (), len(shape_of(call.args[0]) or ())
    if not shape:
        return vector
    after = rank - 1 - int(call.attrs.axis) % rank
    return emit(relax.op.reshape(vector, [shape[0], *[1] * after]))
