"""Elements at places that are known at run time: those outside of a tensor are those at its edge.

A place below 0 counts from the end. TVM's own computes read whatever lies where a place points. Of an axis
that has no elements at run time none is read, and the results are zeros.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax, te, tirx

from relay_layout.ir import Expression, is_static, shape_of, with_attributes, with_operands
from relay_layout.lower.fusion.patterns import INJECTIVE, PATTERN
from relay_layout.lower.legalize.default import default_call
from topi_ext.compute.selection import chosen

Gathering = Callable[[te.Tensor, te.Tensor], te.Tensor]
"""The compute of data and places."""


def take_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """TVM's, of places that are all within memory: its mode "fast" would read what lies beyond."""
    if str(call.attrs.mode) not in ("fast", "clip"):
        return default_call(builder, call)
    shape = shape_of(call.args[0])
    if shape is not None and call.attrs.axis is not None:
        axis = int(call.attrs.axis) % len(shape)
        if not isinstance(shape[axis], int):
            return _taken(builder, call, axis)
    return default_call(builder, builder.normalize(with_attributes(call, call.args, mode="clip")))


def _taken(builder: relax.BlockBuilder, call: relax.Call, axis: int) -> Expression:
    """What ``take`` gives along an open axis."""

    def taken(data: te.Tensor, places: te.Tensor) -> te.Tensor:
        inner = axis + len(places.shape)

        def element(*index: tirx.Var) -> Any:
            place = places(*index[axis:inner])
            nearest = _nearest(place, data.shape[axis].astype(place.ty.dtype))
            return _element(data, [*index[:axis], nearest, *index[inner:]], [axis])

        return te.compute([*data.shape[:axis], *places.shape, *data.shape[axis + 1 :]], element, name="taken")

    return builder.call_te(taken, *call.args, primfunc_name_hint="taken", primfunc_attrs={PATTERN: INJECTIVE})


def gather_nd_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """TVM's, of places along several axes that are all within memory."""
    first = int(call.attrs.batch_dims)
    shape, given = shape_of(call.args[0]), shape_of(call.args[1])
    if shape is None or given is None or not isinstance(given[-1], int):
        return default_call(builder, call)
    axes = range(first, first + given[-1])

    def gathered(data: te.Tensor, places: te.Tensor) -> te.Tensor:
        outer = len(places.shape) - 1

        def element(*index: tirx.Var) -> Any:
            found = [places(*index[:outer], place) for place in range(len(axes))]
            return _element(data, [*index[:first], *found, *index[outer:]], axes)

        return te.compute([*places.shape[:outer], *data.shape[axes.stop :]], element, name="gathered")

    return _of_places_within(builder, call, axes, gathered, along_last=True)


def gather_elements_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """TVM's, of places along one axis that are all within memory."""
    shape = shape_of(call.args[0])
    if shape is None:
        return default_call(builder, call)
    axis = int(call.attrs.axis) % len(shape)

    def gathered(data: te.Tensor, places: te.Tensor) -> te.Tensor:
        def element(*index: tirx.Var) -> Any:
            return _element(data, [*index[:axis], places(*index), *index[axis + 1 :]], [axis])

        return te.compute(places.shape, element, name="gathered")

    return _of_places_within(builder, call, range(axis, axis + 1), gathered, along_last=False)


def _of_places_within(
    builder: relax.BlockBuilder, call: relax.Call, axes: range, gathered: Gathering, along_last: bool
) -> Expression:
    """What a call gives for the places within the extents; by ``gathered`` where these are open.

    The places are computed before: a place that is read where others say would be computed again and again.
    """
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
    if is_static((shape_of(data) or ())[axes.start : axes.stop]):
        return default_call(builder, builder.normalize(with_operands(call, [data, known])))
    attributes = {PATTERN: INJECTIVE}
    return builder.call_te(gathered, data, known, primfunc_name_hint="gathered", primfunc_attrs=attributes)


def _element(data: te.Tensor, place: Sequence[Any], axes: Sequence[int]) -> Any:
    """The element at ``place``, which is read only if there are elements along all of ``axes``."""
    element = data(*place)
    for extent in (data.shape[axis] for axis in axes):
        element = tirx.if_then_else(extent > 0, element, tirx.const(0, data.dtype))
    return element


def _within_extent(place: Any, extent: Any) -> Any:
    """A place along an axis of that extent: from the front, and the nearest that there is."""
    return _nearest(tirx.Select(place < 0, place + extent, place), extent)


def _nearest(place: Any, extent: Any) -> Any:
    return te.max(te.min(place, extent - 1), tirx.const(0, place.ty.dtype))
