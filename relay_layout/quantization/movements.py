"""Operators that move numbers without changing them, and what they do to the scales of constants."""

import numpy as np
from tvm import relax

from relay_layout.ir import constant, operator_name, shape_of
from relay_layout.quantization.reals import Real, Term

MOVEMENTS = (
    "expand_dims",
    "flatten",
    "flip",
    "image.resize2d",
    "nn.batch_flatten",
    "nn.max_pool2d",
    "nn.pixel_shuffle",
    "permute_dims",
    "reshape",
    "squeeze",
    "strided_slice",
)
"""Operators whose every result is one of the elements of their first operand; the greatest one is, too."""


REARRANGEMENTS = frozenset(MOVEMENTS) - {"image.resize2d", "nn.max_pool2d", "strided_slice"}
"""Those of them that keep all elements, and each once."""


def picks_pixels(call: relax.Call) -> bool:
    """Whether an image is resized to elements that it has, without new ones between them."""
    return str(call.attrs.method) == "nearest_neighbor"


def moved_constant(call: relax.Call, term: Term) -> Real | None:
    """Integers, scales and zero points of a constant, moved alike; movements of weights and biases only."""
    name, array = operator_name(call), term.array
    assert array is not None
    if name == "permute_dims":
        axes = None if call.attrs.axes is None else [int(axis) for axis in call.attrs.axes]
        parts = [part.transpose(axes) if part.ndim else part for part in (array, *_whole(term, array.ndim))]
    elif name in ("reshape", "expand_dims", "squeeze", "flatten"):
        shape = shape_of(call) or ()
        parts = [
            part.reshape(shape) if part.size == array.size and part.ndim else part
            for part in (array, term.scale, term.zero_point)
        ]
        if any(part.size not in (1, array.size) for part in parts):
            return None
    else:
        return None
    return Real((Term(constant(np.ascontiguousarray(parts[0])), parts[1], parts[2]),))


def _whole(term: Term, rank: int) -> list[np.ndarray]:
    """Scales and zero points with all dimensions of their tensor."""
    return [
        part.reshape((*[1] * (rank - part.ndim), *part.shape)) if part.ndim else part
        for part in (term.scale, term.zero_point)
    ]
