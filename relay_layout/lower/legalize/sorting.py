"""Sorts: few of many floats without sorting all of them, and integers that TVM's sort does not take."""

from functools import partial

import numpy as np
from tvm import relax

from relay_layout.ir import Expression, constant, dtype_of, operator_name, shape_of
from relay_layout.lower.legalize.default import default_call
from topi_ext.compute.ranking import ranks_faster, top_of_rows

_WIDER = {**dict.fromkeys(("bool", "int8", "uint8", "int16", "uint16"), "int32"), "uint32": "int64"}
"""Types that hold the numbers of those that TVM does not sort, or not by all four operators."""

_LEAST = np.array(-(1 << 63))


def topk_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """Few of many floats along the last axis are found before they are sorted; others are all sorted."""
    (data,), attributes = call.args, call.attrs
    shape, count = shape_of(data) or (), int(attributes.k)
    last = bool(shape) and int(attributes.axis) in (-1, len(shape) - 1)
    is_few = last and isinstance(shape[-1], int) and ranks_faster(count, shape[-1])
    if not is_few or dtype_of(data) != "float32":
        return sort_call(builder, call)
    top = partial(
        top_of_rows, count=count, largest=bool(attributes.largest), index_dtype=str(attributes.dtype)
    )
    found = builder.call_te(top, data, primfunc_name_hint="topk")
    wanted = str(attributes.ret_type)
    if wanted == "both":
        return found
    return relax.TupleGetItem(builder.emit(found), ("values", "indices").index(wanted))


def sort_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """A call of ``sort``, ``argsort``, ``topk`` or ``median``, of numbers in that order that TVM sorts."""
    (data,), dtype = call.args, dtype_of(call.args[0])
    if dtype not in _WIDER and dtype != "uint64":
        return call

    def signed(value: Expression) -> Expression:
        """Integers without a sign in the order of those with one, which is its own inverse."""
        return builder.emit(relax.op.bitwise_xor(value, constant(_LEAST)))

    def restored(value: Expression) -> Expression:
        return builder.emit(relax.op.astype(signed(value) if dtype == "uint64" else value, dtype))

    wider = builder.emit(relax.op.astype(data, _WIDER.get(dtype, "int64")))
    ordered = builder.emit(relax.Call(call.op, [signed(wider) if dtype == "uint64" else wider], call.attrs))
    if isinstance(ordered.ty, relax.TupleType):
        values, places = (builder.emit(relax.TupleGetItem(ordered, index)) for index in range(2))
        return relax.Tuple([restored(values), places])
    wanted = str(getattr(call.attrs, "ret_type", ""))
    gives_values = operator_name(call) in ("sort", "median") or wanted == "values"
    return restored(ordered) if gives_values else ordered


def median_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """``median``, of numbers that TVM sorts."""
    found = sort_call(builder, call)
    return default_call(builder, call) if found is call else found
