"""Elements at places that are known at run time: those outside of a tensor are those at its edge.

TVM's own computes read whatever lies where a place points. Of an axis that has no elements at run time none
is read, and the results are zeros.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import relax, te, tirx

from relay_layout.ir import Expression, shape_of, with_attributes
from relay_layout.lower.fusion.patterns import INJECTIVE, PATTERN
from relay_layout.lower.legalize.default import default_call


def take_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """Places are counted from the front; TVM's own compute, where there are elements in any case."""
    shape, mode = shape_of(call.args[0]), str(call.attrs.mode)
    if mode not in ("fast", "clip") or shape is None or call.attrs.axis is None:
        return default_call(builder, call)
    axis = int(call.attrs.axis) % len(shape)
    if isinstance(shape[axis], int):
        clipped = call if mode == "clip" else builder.normalize(with_attributes(call, call.args, mode="clip"))
        return default_call(builder, clipped)

    def taken(data: te.Tensor, places: te.Tensor) -> te.Tensor:
        inner = axis + len(places.shape)

        def element(*index: tirx.Var) -> Any:
            place = _nearest(places(*index[axis:inner]), data.shape[axis])
            return _element(data, [*index[:axis], place, *index[inner:]], [axis])

        return te.compute([*data.shape[:axis], *places.shape, *data.shape[axis + 1 :]], element, name="taken")

    return _lowered(builder, call, taken)


def gather_nd_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """The last dimension of places counts axes behind the batch; a place below 0 counts from the end."""
    first = int(call.attrs.batch_dims)
    shape, given = shape_of(call.args[0]), shape_of(call.args[1])
    if shape is None or given is None or not isinstance(given[-1], int):
        return default_call(builder, call)
    axes = range(first, first + given[-1])

    def gathered(data: te.Tensor, places: te.Tensor) -> te.Tensor:
        outer = places.shape[:-1]

        def element(*index: tirx.Var) -> Any:
            here = index[: len(outer)]
            found = [
                _within_extent(places(*here, place), data.shape[axis]) for place, axis in enumerate(axes)
            ]
            return _element(data, [*index[:first], *found, *index[len(outer) :]], axes)

        return te.compute([*outer, *data.shape[axes.stop :]], element, name="gathered")

    return _lowered(builder, call, gathered)


def gather_elements_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """Places along one axis, one for each result; a place below 0 counts from the end."""
    shape = shape_of(call.args[0])
    if shape is None:
        return default_call(builder, call)
    axis = int(call.attrs.axis) % len(shape)

    def gathered(data: te.Tensor, places: te.Tensor) -> te.Tensor:
        def element(*index: tirx.Var) -> Any:
            place = _within_extent(places(*index), data.shape[axis])
            return _element(data, [*index[:axis], place, *index[axis + 1 :]], [axis])

        return te.compute(places.shape, element, name="gathered")

    return _lowered(builder, call, gathered)


def _lowered(
    builder: relax.BlockBuilder, call: relax.Call, compute: Callable[[te.Tensor, te.Tensor], te.Tensor]
) -> Expression:
    attributes: Mapping[str, Any] = {PATTERN: INJECTIVE}
    return builder.call_te(
        compute, *call.args, primfunc_name_hint=compute.__name__, primfunc_attrs=attributes
    )


def _element(data: te.Tensor, place: Sequence[Any], axes: Sequence[int]) -> Any:
    """The element at ``place``, which is read only if there are elements along all of ``axes``."""
    known = [data.shape[axis] for axis in axes if not isinstance(data.shape[axis], tirx.IntImm)]
    element = data(*place)
    for extent in known:
        element = tirx.if_then_else(extent > 0, element, tirx.const(0, data.dtype))
    return element


def _within_extent(place: Any, extent: Any) -> Any:
    """A place along an axis of that extent, from the front, and the nearest that there is."""
    end = extent.astype(place.ty.dtype)
    return _nearest(tirx.Select(place < 0, place + end, place), extent)


def _nearest(place: Any, extent: Any) -> Any:
    dtype = place.ty.dtype
    return te.max(te.min(place, extent.astype(dtype) - 1), tirx.const(0, dtype))
