"""Elements at places that are known at run time: those outside of a tensor are those at its edge.

A place below 0 counts from the end. TVM's own computes read whatever lies where a place points.
"""

from collections.abc import Sequence
from typing import Any

from tvm import relax, te, tirx

from relay_layout.ir import Expression, shape_of, with_attributes, with_operands
from relay_layout.lower.fusion.patterns import INJECTIVE, PATTERN
from relay_layout.lower.legalize.default import default_call
from topi_ext.compute.selection import chosen


def take_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """TVM's, of places that are all within memory: its mode "fast" would read what lies beyond."""
    if str(call.attrs.mode) == "fast":
        call = builder.normalize(with_attributes(call, call.args, mode="clip"))
    return default_call(builder, call)


def gather_nd_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """TVM's, of places along several axes that are all within memory."""
    first = int(call.attrs.batch_dims)
    shape, places = shape_of(call.args[0]), shape_of(call.args[1])
    if shape is None or places is None or not isinstance(places[-1], int):
        return default_call(builder, call)
    return _of_places_within(builder, call, range(first, first + places[-1]), along_last=True)


def gather_elements_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """TVM's, of places along one axis that are all within memory."""
    shape = shape_of(call.args[0])
    if shape is None:
        return default_call(builder, call)
    axis = int(call.attrs.axis) % len(shape)
    return _of_places_within(builder, call, range(axis, axis + 1), along_last=False)


def _of_places_within(
    builder: relax.BlockBuilder, call: relax.Call, axes: Sequence[int], along_last: bool
) -> Expression:
    data, places = call.args

    def within(tensor: te.Tensor, positions: te.Tensor) -> te.Tensor:
        """The places along ``axes`` of the tensor, which the last dimension counts if ``along_last``."""

        def element(*index: tirx.Var) -> Any:
            extents = [tensor.shape[axis].astype(positions.dtype) for axis in axes]
            extent = chosen(index[-1], extents) if along_last else extents[0]
            return _within_extent(positions(*index), extent)

        return te.compute(positions.shape, element, name="places_within")

    known = builder.emit(
        builder.call_te(
            within, data, places, primfunc_name_hint="places_within", primfunc_attrs={PATTERN: INJECTIVE}
        )
    )
    return default_call(builder, builder.normalize(with_operands(call, [data, known])))


def _within_extent(place: Any, extent: Any) -> Any:
    """A place along an axis of that extent: from the front, and the nearest that there is."""
    from_front = tirx.Select(place < 0, place + extent, place)
    return te.max(te.min(from_front, extent - 1), tirx.const(0, place.ty.dtype))
