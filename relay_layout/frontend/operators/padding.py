"""Padding of tensors, by numbers and by widths that extents left open decide."""

from collections.abc import Sequence

from tvm import relax

from relay_layout.frontend.extents.arithmetic import same
from relay_layout.ir import Emit, Expression, Extent, dtype_of, scalar, shape_of


def padded(emit: Emit, value: Expression, pads: Sequence[tuple[int, int]], fill: float) -> Expression:
    """``value`` with ``pads`` before and after its last dimensions."""
    rank = len(shape_of(value) or ())
    widths = [0] * (2 * (rank - len(pads))) + [width for pair in pads for width in pair]
    return emit(relax.op.nn.pad(value, widths, pad_value=fill)) if any(widths) else value


def filled_beyond(
    emit: Emit, data: Expression, axis: int, widths: Sequence[Extent], fill: Expression
) -> Expression:
    """``data`` with elements before and behind it along an axis, as many as the two ``widths``, at least 0.

    All of them are ``fill``, without dimensions and of the element type of ``data``.
    """
    shape = list(shape_of(data) or ())
    sides = []
    for width in widths:
        around = relax.ShapeExpr([*shape[:axis], width, *shape[axis + 1 :]])
        sides.append([] if same(width, 0) else [emit(relax.op.full(around, fill, dtype_of(data)))])
    return relax.op.concat([*sides[0], data, *sides[1]], axis)


def read_beyond(emit: Emit, data: Expression, axis: int, bounds: Sequence[Extent], mode: str) -> Expression:
    """``data`` read along an axis between ``bounds``, from before its first element to behind its last.

    ``mode`` is one of ``relax.op.nn.pad``: "circular", "replicate" or "reflect". What is reflected is one of
    the axis' elements, so no bound is an axis away from it.
    """
    extent = (shape_of(data) or ())[axis]
    places = emit(relax.op.arange(*bounds, 1, "int64"))
    zero, count, last = relax.const(0, "int64"), scalar(emit, extent), scalar(emit, extent - 1)
    if mode == "circular":
        inside = relax.op.floor_mod(places, count)
    elif mode == "replicate":
        inside = relax.op.minimum(emit(relax.op.maximum(places, zero)), last)
    else:
        from_last = emit(relax.op.subtract(last, emit(relax.op.abs(places))))
        inside = relax.op.subtract(last, emit(relax.op.abs(from_last)))
    return relax.op.take(data, emit(inside), axis, mode="clip")
