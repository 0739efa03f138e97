"""The first of ordered elements, of which the number is open."""

from functools import partial
from typing import Any

from tvm import relax

from relay_layout.ir import Extent, dtype_of, shape_of
from topi_ext.compute.ranking import top_of_rows
from topi_ext.compute.sorting import KEYED


def first_elements(builder: Any, tensor: Any, axis: int, number: Extent) -> Any:
    """The first ``number`` elements of ``tensor`` along ``axis``, as a Relax expression."""
    ends = [relax.prim_value(0)], [relax.prim_value(number)]
    return builder.emit(relax.op.strided_slice(tensor, [axis], *ends, assume_inbound=True))


def best_elements(builder: Any, data: Any, number: Extent, axis: int, *, largest: bool) -> list[Any]:
    """The best ``number`` elements along ``axis`` and their places, int64, as Relax expressions, in order."""
    if axis == len(shape_of(data) or ()) - 1 and dtype_of(data) in KEYED:
        top = partial(top_of_rows, largest=largest)
        found = builder.emit(builder.call_te(top, data, number, primfunc_name_hint="topk"))
        return [relax.TupleGetItem(found, index) for index in range(2)]
    ordered = builder.emit(relax.op.topk(data, -1, axis, "both", largest, "int64"))
    return [first_elements(builder, relax.TupleGetItem(ordered, index), axis, number) for index in range(2)]
