"""Floats of 8 bits, whose numbers float32 holds: TVM has no conversions to them that CPUs run.

A number keeps its exponent, and as many digits as the narrow float has; below the least normal number the
steps are equal.
"""

import numpy as np
from ml_dtypes import finfo
from tvm import relax

from relay_layout.frontend.onnx.node import Node
from relay_layout.ir import Expression, constant

NARROW = frozenset({"float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"})
"""Element types of tensors that are float32 here."""


def rounded_to(node: Node, numbers: Expression, dtype: str) -> Expression:
    """float32 numbers that a narrow float has, halves to even.

    What is beyond the largest becomes that or, where the node's ``saturate`` is 0, as ``dtype`` has it.
    """
    limits = finfo(dtype)
    least, most = int(limits.minexp), int(np.floor(np.log2(float(limits.max))))
    magnitude = node.emit(relax.op.abs(numbers), "magnitude")
    logarithm = node.emit(relax.op.log(magnitude), "logarithm")
    # Next to a power of two both exponents round to the same number.
    exponent = node.emit(relax.op.multiply(logarithm, node.like(1 / np.log(2), numbers)), "exponent")
    held = node.emit(relax.op.clip(node.emit(relax.op.floor(exponent), "floor"), least, most), "held")
    place = node.emit(relax.op.subtract(held, node.like(least, numbers)), "place")
    steps = np.exp2(np.arange(least, most + 1, dtype="float32") - np.float32(limits.nmant))
    places = node.emit(relax.op.astype(place, "int32"), "places")
    step = node.emit(relax.op.take(constant(steps), places, 0, mode="clip"), "step")
    count = node.emit(relax.op.round(node.emit(relax.op.divide(numbers, step), "quotient")), "count")
    rounded = node.emit(relax.op.multiply(count, step), "rounded")
    size = node.emit(relax.op.abs(rounded), "size")
    is_beyond = node.emit(relax.op.greater(size, node.like(float(limits.max), numbers)), "is_beyond")
    if node.attributes.get("saturate", 1):
        beyond = float(limits.max)
    else:
        with np.errstate(over="ignore"):
            beyond = float(np.array(np.inf, dtype))
    signed = node.emit(relax.op.multiply(relax.op.sign(numbers), node.like(beyond, numbers)), "signed")
    return relax.op.where(is_beyond, signed, rounded)


__all__ = ["NARROW", "rounded_to"]
