"""Repeated tensors, whose rows are copied in vectors.

TVM takes a remainder for each element to find out where it comes from. Written as conditions on the index, a
few repeats can be cut into one loop for each.
"""

from typing import Any

from tvm import relax, te, tirx

from relay_layout.ir import Expression, ints, shape_of
from relay_layout.lower.legalize.default import default_call
from topi_ext.extents import fixed

_MOST_REPEATS = 8
"""With more repeats each is short."""


def tile_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """A call of ``tile``; TVM's own unless it repeats the last axis, of known extent, a few times."""
    source, repeats = shape_of(call.args[0]), ints(call.attrs.repeats)
    extent = fixed(source[-1]) if source else None
    times = repeats[-1] if repeats else 1
    if not source or extent in (None, 1) or not 1 < times <= _MOST_REPEATS:
        return default_call(builder, call)
    shape = list(call.ty.shape.values)
    new = len(shape) - len(source)
    counts = [*[1] * (len(shape) - len(repeats)), *repeats][new:]

    def tiled(data: te.Tensor) -> te.Tensor:
        def element(*index: Any) -> Any:
            each = zip(index[new:], data.shape, counts, strict=True)
            places = [place if count == 1 else tirx.indexmod(place, size) for place, size, count in each]
            return data(*places[:-1], _in_one_of(index[-1], extent, times))

        return te.compute(shape, element, name="tile", tag="injective")

    return builder.call_te(tiled, call.args[0], primfunc_name_hint="tile")


def _in_one_of(place: Any, extent: int, count: int) -> Any:
    """``place`` modulo ``extent``, of which it is below ``count`` times."""
    inside = place - (count - 1) * extent
    for number in range(count - 1, 0, -1):
        inside = tirx.if_then_else(place < number * extent, place - (number - 1) * extent, inside)
    return inside
