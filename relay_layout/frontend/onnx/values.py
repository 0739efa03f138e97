"""What a name in an ONNX graph can stand for while the graph is imported.

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
from numpy.typing import NDArray
from tvm import relax, sym, tirx
from tvm_ffi import structural_map

from relay_layout.frontend.residues import never_more

Array = NDArray[Any]

Extent = Any
"""One extent of a shape: a Python integer, or a scalar TVM expression over symbolic extents."""


FAR = 2**31 - 1
"""Where ONNX files write "to the end" they use this or more; no extent is that large."""

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


def simplify(extent: Extent) -> Extent:
    """A Python integer where the extent is known, and the simplest expression TVM finds otherwise."""
    if isinstance(extent, int | np.integer):
        return int(extent)
    analyzer = sym.Analyzer()
    simplest = analyzer.simplify(structural_map(analyzer.simplify(extent), (tirx.FloorMod, _missing)))
    return int(simplest) if isinstance(simplest, tirx.IntImm) else simplest


def _missing(remainder: tirx.FloorMod) -> Extent:
    """A remainder by a number below zero, as TVM writes what is missing to a multiple, by quotients."""
    divisor = remainder.b
    if not isinstance(divisor, tirx.IntImm) or int(divisor) >= 0:
        return remainder
    above = -int(divisor)
    return remainder.a - (remainder.a + (above - 1)) // above * above


def same(left: Extent, right: Extent) -> bool:
    """Whether two extents are proven equal."""
    difference = simplify(left - right)
    return isinstance(difference, int) and difference == 0


def least(left: Extent, right: Extent) -> Extent:
    """The smaller of two extents."""
    for one, other in ((left, right), (right, left)):
        if never_more(one, other):
            return one
    return simplify(tirx.min(_expression(left), _expression(right)))


def greatest(left: Extent, right: Extent) -> Extent:
    """The larger of two extents."""
    for one, other in ((left, right), (right, left)):
        if never_more(one, other):
            return other
    return simplify(tirx.max(_expression(left), _expression(right)))


def clamped(extent: Extent, limit: Extent) -> Extent:
    """``extent`` kept between 0 and ``limit``."""
    return greatest(least(extent, limit), 0)


def _expression(extent: Extent) -> Any:
    return tirx.const(extent, "int64") if isinstance(extent, int) else extent


def product(shape: Sequence[Extent]) -> Extent:
    """The number of elements of ``shape``."""
    total: Extent = 1
    for extent in shape:
        total = total * extent
    return simplify(total)


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
    return [int(extent) if isinstance(extent, tirx.IntImm) else extent for extent in tensor.shape]


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


def written(shape: Sequence[Extent]) -> str:
    """A shape as messages show it: ``[N,3,224,224]``."""
    return _INTEGER.sub(r"\1", "[" + ",".join(str(extent) for extent in shape) + "]")
