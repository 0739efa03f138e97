"""Sorts: of rows in linear time, and of integers that TVM's sort does not take."""

import numpy as np
from tvm import relax, te

from relay_layout.ir import Expression, constant, dtype_of, operator_name, shape_of
from relay_layout.lower.legalize.default import default_call
from topi_ext.compute.ranking import top_of_rows
from topi_ext.compute.sorting import KEYED

_WIDER = {**dict.fromkeys(("bool", "int8", "uint8", "int16", "uint16"), "int32"), "uint32": "int64"}
"""Types that hold the numbers of those that TVM does not sort, or not by all four operators."""

_LEAST = np.array(-(1 << 63))


def sort_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """A call of ``sort``, ``argsort``, ``topk`` or ``median``: of floats or integers by a kernel of ours for
    rows, of others after a cast, or as it is where TVM sorts them.
    """
    (data,), dtype = call.args, dtype_of(call.args[0])
    if dtype in KEYED and _is_along_rows(call):
        return _sorted_rows(builder, call)
    if dtype in KEYED and operator_name(call) != "median" and shape_of(data):
        return _sorted_across_rows(builder, call)
    if dtype not in _WIDER and dtype != "uint64":
        return call

    def signed(value: Expression) -> Expression:
        """Integers without a sign in the order of those with one, which is its own inverse."""
        return builder.emit(relax.op.bitwise_xor(value, constant(_LEAST)))

    def restored(value: Expression) -> Expression:
        return builder.emit(relax.op.astype(signed(value) if dtype == "uint64" else value, dtype))

    wider = builder.emit(relax.op.astype(data, _WIDER.get(dtype, "int64")))
    wider = signed(wider) if dtype == "uint64" else wider
    ordered = builder.emit(sort_call(builder, builder.normalize(relax.Call(call.op, [wider], call.attrs))))
    if isinstance(ordered.ty, relax.TupleType):
        values, places = (builder.emit(relax.TupleGetItem(ordered, index)) for index in range(2))
        return relax.Tuple([restored(values), places])
    wanted = str(getattr(call.attrs, "ret_type", ""))
    gives_values = operator_name(call) in ("sort", "median") or wanted == "values"
    return restored(ordered) if gives_values else ordered


def _is_along_rows(call: relax.Call) -> bool:
    """Whether what it gives is in order along the last axis."""
    rank = len(shape_of(call.args[0]) or ())
    return rank > 0 and operator_name(call) != "median" and int(call.attrs.axis) in (-1, rank - 1)


def _sorted_rows(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    (data,), attributes, operator = call.args, call.attrs, operator_name(call)
    if operator == "topk":
        count, largest, wanted = int(attributes.k), bool(attributes.largest), str(attributes.ret_type)
    else:
        count, largest = -1, bool(attributes.descending)
        wanted = "values" if operator == "sort" else "indices"
    dtype = "int32" if operator == "sort" else str(attributes.dtype)

    def ordered(rows: te.Tensor) -> list[te.Tensor]:
        first = count if count > 0 else rows.shape[-1]
        return top_of_rows(rows, first, largest=largest, index_dtype=dtype)

    found = builder.call_te(ordered, data, primfunc_name_hint=operator)
    if wanted == "both":
        return found
    return relax.TupleGetItem(builder.emit(found), ("values", "indices").index(wanted))


def _sorted_across_rows(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """What is in order along another axis than the last one, by rows of the transposed tensor."""
    (data,), attributes, operator = call.args, call.attrs, operator_name(call)
    rank = len(shape_of(data) or ())
    axis = int(attributes.axis) % rank
    last = [*(place for place in range(rank) if place != axis), axis]
    back = [last.index(place) for place in range(rank)]
    rows = builder.emit(relax.op.permute_dims(data, last))
    if operator == "topk":
        count, wanted = int(attributes.k), str(attributes.ret_type)
        ordered = relax.op.topk(rows, count, -1, wanted, bool(attributes.largest), str(attributes.dtype))
    elif operator == "sort":
        ordered = relax.op.sort(rows, -1, bool(attributes.descending))
    else:
        ordered = relax.op.argsort(rows, -1, bool(attributes.descending), str(attributes.dtype))
    found = builder.emit(_sorted_rows(builder, builder.normalize(ordered)))
    if not isinstance(found.ty, relax.TupleType):
        return relax.op.permute_dims(found, back)
    parts = [builder.emit(relax.TupleGetItem(found, index)) for index in range(len(found.ty.fields))]
    return relax.Tuple([builder.emit(relax.op.permute_dims(part, back)) for part in parts])


def median_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """``median``, of numbers that TVM sorts."""
    found = sort_call(builder, call)
    return default_call(builder, call) if found is call else found
