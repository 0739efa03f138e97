"""What a name in a graph can stand for while the graph is imported.

A value is a numpy array (a constant), :class:`Extents` (integers that depend on symbolic extents only), a
Relax expression (computed at run time), :class:`TensorSequence` (several of those in order), or None (an
optional input left out, or an empty optional). Constants stay numpy arrays until a Relax operator needs them,
so that whatever is computed from constants alone is folded on the way.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ml_dtypes import finfo
from numpy.typing import NDArray
from tvm import relax

from relay_layout.frontend.extents.arithmetic import same, simplify
from relay_layout.ir import Extent, as_extent
from relay_layout.long_expressions import cut

Array = NDArray[Any]

FAR = 10**9
"""Where ONNX files write "to the end" they use this, as TensorFlow's, or more; no extent is that large."""

_LETTERS = 60
"""The most letters that a message shows of an extent."""

_INTEGER = re.compile(r"T\.int\d+\((-?\d+)\)")


class Unsupported(Exception):
    """A node that cannot be converted; the message is a clause to follow the node's name."""


@dataclass(frozen=True, eq=False)
class Extents:
    """An integer tensor known up to symbolic extents, such as the shape of a tensor.

    ``array`` is an object array of :data:`Extent`, of which at least one is symbolic; ``dtype`` is the
    ONNX tensor's own, "int64" or "int32".
    """

    array: Array
    dtype: str = "int64"


@dataclass(frozen=True, eq=False)
class TensorSequence:
    """A sequence of ONNX: tensors of one element type, in a number that is known now.

    ``tensors`` are numpy arrays, :class:`Extents` or Relax expressions that the builder has taken; ``dtype``
    is their element type in numpy's name.
    """

    tensors: tuple["Value", ...]
    dtype: str


Value = Any
"""A numpy array, Extents, TensorSequence, a Relax expression, or None."""


def extents(elements: Any, dtype: str = "int64") -> Array | Extents:
    """An integer tensor from nested lists or an object array of :data:`Extent`."""
    array = np.array(elements, dtype=object)
    simplified = np.empty(array.shape, dtype=object)
    for index, element in np.ndenumerate(array):
        simplified[index] = simplify(element)
    if all(isinstance(element, int) for element in simplified.flat):
        return simplified.astype(dtype)
    return Extents(simplified, dtype)


def shape_of(value: Value) -> list[Extent]:
    """The shape of a tensor; Unsupported where only its run-time value tells."""
    if isinstance(value, np.ndarray):
        return list(value.shape)
    if isinstance(value, Extents):
        return list(value.array.shape)
    tensor = getattr(value, "ty", None)
    if not isinstance(tensor, relax.TensorType):
        raise Unsupported("needs a tensor where it is given none")
    if not isinstance(tensor.shape, relax.ShapeExpr):
        raise Unsupported(
            "needs the shape of a tensor whose shape is known only at run time: "
            "give the model's inputs fixed shapes (--input-shape)"
        )
    return list(map(as_extent, tensor.shape))


def tensors_of(value: Value) -> tuple[Value, ...]:
    """The tensors that an input brings: those of a sequence, none where it is left out."""
    if isinstance(value, TensorSequence):
        return value.tensors
    return () if value is None else (value,)


def dtype_of(value: Value) -> str:
    """The element type of a tensor, in numpy's name."""
    if isinstance(value, np.ndarray):
        return str(value.dtype)
    if isinstance(value, Extents):
        return value.dtype
    if not isinstance(getattr(value, "ty", None), relax.TensorType):
        raise Unsupported("needs a tensor where it is given none")
    return str(value.ty.dtype)


def of_one_type(one: Value, other: Value) -> bool:
    """Whether two tensors have the same element type and, as is proven, the same shape."""
    left, right = shape_of(one), shape_of(other)
    return dtype_of(one) == dtype_of(other) and len(left) == len(right) and all(map(same, left, right))


def same_value(one: Value, other: Value) -> bool:
    """Whether two values are known to be the same: to the bit, or one that is computed."""
    if one is other:
        return True
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, Extents) and isinstance(other, Extents):
        return of_one_type(one, other) and all(map(same, one.array.flat, other.array.flat))
    if isinstance(one, TensorSequence) and isinstance(other, TensorSequence):
        alike = one.dtype == other.dtype and len(one.tensors) == len(other.tensors)
        return alike and all(map(same_value, one.tensors, other.tensors))
    return isinstance(one, relax.Var) and isinstance(other, relax.Var) and one.same_as(other)


def described(value: Value) -> str:
    """A tensor's type as messages show it: ``float32[N,3]``."""
    return written_type(dtype_of(value), shape_of(value))


def written_type(dtype: str, shape: Sequence[Extent]) -> str:
    """What :func:`described` says of a tensor of that type."""
    return f"{dtype}{written(shape)}"


def written(shape: Sequence[Extent]) -> str:
    """A shape as messages show it: ``[N,3,224,224]``, of what is long a part alone."""
    return "[" + ",".join(cut(_INTEGER.sub(r"\1", str(extent)), _LETTERS) for extent in shape) + "]"


def float_limits(dtype: str) -> Any:
    """What numpy's ``finfo`` tells, of bfloat16 too."""
    return finfo(dtype)  # type: ignore[no-untyped-call]
