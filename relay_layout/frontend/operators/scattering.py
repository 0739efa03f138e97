"""Scattering to a part of a tensor, which Relax takes for the whole of it."""

from collections.abc import Sequence
from typing import Any

from tvm import relax

from relay_layout.frontend.extents.arithmetic import same
from relay_layout.ir import Emit, Expression, shape_of


def scattered(
    emit: Emit, data: Expression, index: Expression, source: Expression, axis: int, reduction: str
) -> Expression:
    """``data`` with ``source`` written to where ``index`` says along ``axis``; the index is of a known shape.

    The source may be larger than the index, and so may the data, as PyTorch and ONNX have it. Relax writes to
    the right places only where index and data have the same extents beside the axis.
    """
    shape, extents = shape_of(data) or (), shape_of(index) or ()
    ends = [full if place == axis else extents[place] for place, full in enumerate(shape)]
    part = block(emit, data, [0] * len(shape), ends)
    source = block(emit, source, [0] * len(shape), extents)
    found = emit(relax.op.scatter_elements(part, index, source, axis=axis, reduction=reduction))
    for place, full in enumerate(shape):
        if not same(ends[place], full):
            begins: list[Any] = [0] * len(shape)
            begins[place] = ends[place]
            rest = block(emit, data, begins, [*shape[: place + 1], *ends[place + 1 :]])
            found = emit(relax.op.concat([found, rest], axis=place))
    return found


def cut_axes(shape: Sequence[Any], begins: Sequence[Any], ends: Sequence[Any]) -> list[int]:
    """The axes along which ``begins`` and ``ends`` are not known to leave all of a tensor."""
    sides = enumerate(zip(begins, ends, shape, strict=True))
    return [axis for axis, (begin, end, extent) in sides if not (same(begin, 0) and same(end, extent))]


def block(emit: Emit, data: Expression, begins: Sequence[Any], ends: Sequence[Any]) -> Expression:
    """The part of ``data`` from ``begins`` to ``ends``; ValueError where it may be smaller than that."""
    shape = shape_of(data) or ()
    axes = cut_axes(shape, begins, ends)
    if not axes:
        return data
    first, last = [begins[axis] for axis in axes], [ends[axis] for axis in axes]
    for axis in axes:
        if not isinstance(shape[axis], int) and isinstance(ends[axis], int) and ends[axis] > 1:
            # Nothing would keep it from reading what lies behind a smaller one.
            raise ValueError(
                f"needs {ends[axis]} elements along the open extent '{shape[axis]}' of the data: "
                "give the model's inputs fixed shapes (--input-shape)"
            )
    return emit(relax.op.strided_slice(data, axes, first, last, assume_inbound=True))
