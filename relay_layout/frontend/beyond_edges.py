"""Padding by elements of the tensor itself, of widths that are known at run time."""

from collections.abc import Sequence

from tvm import relax

from relay_layout.ir import Emit, Expression, Extent, scalar, shape_of


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


__all__ = ["read_beyond"]
