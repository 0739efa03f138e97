"""Floats of 8 bits and less, whose numbers float32 holds: TVM has no conversions to them that CPUs run.

A number keeps its exponent, and as many digits as the narrow float has; below the least normal number the
steps are equal.
"""

from dataclasses import dataclass

import numpy as np
from tvm import relax

from relay_layout.frontend.onnx.node import Node
from relay_layout.ir import Expression, constant


@dataclass(frozen=True)
class _Format:
    """Binary digits behind the point, the exponent of the least normal number, and the largest number.

    ``beyond`` is what numbers larger than ``largest`` become where they do not saturate.
    """

    digits: int
    least_exponent: int
    largest: float
    beyond: float


NARROW = {
    "float4_e2m1fn": _Format(1, 0, 6.0, 6.0),
    "float6_e2m3fn": _Format(3, 0, 7.5, 7.5),
    "float6_e3m2fn": _Format(2, -2, 28.0, 28.0),
    "float8_e4m3fn": _Format(3, -6, 448.0, np.nan),
    "float8_e4m3fnuz": _Format(3, -7, 240.0, np.nan),
    "float8_e5m2": _Format(2, -14, 57344.0, np.inf),
    "float8_e5m2fnuz": _Format(2, -15, 57344.0, np.nan),
}
"""Element types of tensors that are float32 here."""


def rounded_to(node: Node, numbers: Expression, dtype: str) -> Expression:
    """float32 numbers that a narrow float has, halves to even.

    What is beyond the largest becomes that or, where the node's ``saturate`` is 0, as ``dtype`` has it.
    """
    form = NARROW[dtype]
    least, most = form.least_exponent, int(np.log2(form.largest))
    magnitude = node.emit(relax.op.abs(numbers), "magnitude")
    logarithm = node.emit(relax.op.log(magnitude), "logarithm")
    # Next to a power of two both exponents round to the same number.
    exponent = node.emit(relax.op.multiply(logarithm, node.like(1 / np.log(2), numbers)), "exponent")
    held = node.emit(relax.op.clip(node.emit(relax.op.floor(exponent), "floor"), least, most), "held")
    place = node.emit(relax.op.subtract(held, node.like(least, numbers)), "place")
    steps = np.exp2(np.arange(least, most + 1, dtype="float32") - np.float32(form.digits))
    places = node.emit(relax.op.astype(place, "int32"), "places")
    step = node.emit(relax.op.take(constant(steps), places, 0, mode="clip"), "step")
    count = node.emit(relax.op.round(node.emit(relax.op.divide(numbers, step), "quotient")), "count")
    rounded = node.emit(relax.op.multiply(count, step), "rounded")
    size = node.emit(relax.op.abs(rounded), "size")
    is_beyond = node.emit(relax.op.greater(size, node.like(form.largest, numbers)), "is_beyond")
    beyond = form.largest if node.attributes.get("saturate", 1) else form.beyond
    signed = node.emit(relax.op.multiply(relax.op.sign(numbers), node.like(beyond, numbers)), "signed")
    bounded = relax.op.where(is_beyond, signed, rounded)
    if form.beyond != form.largest:
        return bounded
    # A float that has nothing beyond its largest number has nothing that is no number, either.
    is_none = node.emit(relax.op.isnan(numbers), "is_none")
    return relax.op.where(is_none, node.like(0, numbers), node.emit(bounded, "bounded"))
