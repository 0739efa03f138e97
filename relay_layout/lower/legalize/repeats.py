"""Repeated tensors, whose rows are copied in vectors.

TVM takes a remainder for each element to find out where it comes from. Written as conditions on the index, a
few repeats can be cut into one loop for each. Short rows are repeated alone, before ranges of those are.
"""

from typing import Any

from tvm import relax, te, tirx

from relay_layout.ir import Expression, ints, shape_of
from relay_layout.lower.fusion.patterns import OPAQUE, PATTERN
from relay_layout.lower.legalize.default import default_call
from topi_ext.extents import fixed

_MOST_REPEATS = 8
"""With more repeats each is short."""

_SHORT_ROW = 16
"""Elements of a row that take longer than what is copied of longer ones."""


def tile_call(builder: relax.BlockBuilder, call: relax.Call, *, whole: bool = False) -> Expression:
    """A call of ``tile``: a remainder for each place along an axis that is repeated, conditions along the
    last one if it is repeated a few times. If ``whole``, it is computed before any element is read.
    """
    source, repeats = shape_of(call.args[0]), ints(call.attrs.repeats)
    if not source:
        return default_call(builder, call)
    extent, times = fixed(source[-1]) or 1, repeats[-1] if repeats else 1
    few = extent > 1 and 1 < times <= _MOST_REPEATS
    shape = list(call.ty.shape.values)
    new = len(shape) - len(source)
    counts = [*[1] * (len(shape) - len(repeats)), *repeats][new:]
    outer = zip(counts[:-1], source[:-1], strict=True)
    if few and extent < _SHORT_ROW and any(count > 1 and length != 1 for count, length in outer):
        along = relax.op.tile(call.args[0], [*[1] * (len(source) - 1), times])
        rows = builder.emit(tile_call(builder, builder.normalize(along), whole=True))
        rest = [*repeats[:-1], 1]
        return tile_call(builder, builder.normalize(relax.op.tile(rows, rest)))
    attributes = {PATTERN: OPAQUE} if whole else {}

    def tiled(data: te.Tensor) -> te.Tensor:
        def element(*index: Any) -> Any:
            each = zip(index[new:], data.shape, counts, strict=True)
            places = [place if count == 1 else tirx.indexmod(place, size) for place, size, count in each]
            return data(*places[:-1], _in_one_of(index[-1], extent, times) if few else places[-1])

        return te.compute(shape, element, name="tile", tag="injective")

    return builder.call_te(tiled, call.args[0], primfunc_name_hint="tile", primfunc_attrs=attributes)


def _in_one_of(place: Any, extent: int, count: int) -> Any:
    """``place`` modulo ``extent``, of which it is below ``count`` times."""
    inside = place - (count - 1) * extent
    for number in range(count - 1, 0, -1):
        inside = tirx.if_then_else(place < number * extent, place - (number - 1) * extent, inside)
    return inside
