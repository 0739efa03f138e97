"""Operators that repeat, reverse and rearrange the elements of a tensor."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from tvm import relax, topi

from relay_layout.errors import ModelError
from relay_layout.ir import (
    Constant,
    Expression,
    as_layout_change,
    constant_array,
    dtype_of,
    is_static,
    known_to_differ,
    shape_of,
)
from relay_layout.layout import Layout
from relay_layout.layout.transform import index_map
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.axis_arguments import MOST_DIMENSIONS, axis_of, integers, positive
from relay_layout.relay.operators.carried import CarriedForm
from relay_layout.relay.operators.direct import plain
from relay_layout.relay.operators.layout_texts import layouts_of, map_between
from relay_layout.relay.operators.operator import Exported, Operator, Scope, extents, rank_of


def _tile(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    counts = [positive(count, "every entry of reps") for count in integers(given.reps, "reps")]
    if len(counts) > MOST_DIMENSIONS:
        raise ModelError(f"reps has {len(counts)} entries, over {MOST_DIMENSIONS}")
    return relax.op.tile(operands[0], counts)


def _export_tile(call: relax.Call) -> Mapping[str, Any]:
    return {"reps": plain(call.attrs.repeats)}


def _repeat(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    if given.axis is None:
        raise ModelError("needs an axis")
    axis = axis_of(given.axis, rank_of(operands[0]))
    return relax.op.repeat(operands[0], positive(given.repeats, "repeats"), axis)


def _export_repeat(call: relax.Call) -> Mapping[str, Any] | None:
    if call.attrs.axis is None:
        return None
    return {"repeats": int(call.attrs.repeats), "axis": int(call.attrs.axis)}


def _reverse(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    return relax.op.flip(operands[0], axis_of(given.axis, rank_of(operands[0])))


def _reverse_sequence(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    rank = rank_of(operands[0])
    axes = [axis_of(given[name], rank, name) for name in ("seq_axis", "batch_axis")]
    length, batch = extents(operands[1])[0], extents(operands[0])[axes[1]]
    if known_to_differ(length, batch):
        raise ModelError(f"has {length} lengths for a batch of {batch}")
    return relax.op.reverse_sequence(*operands, *axes)


def _export_reverse_sequence(call: relax.Call) -> Mapping[str, Any]:
    return {"seq_axis": int(call.attrs.seq_axis), "batch_axis": int(call.attrs.batch_axis)}


def _broadcast_to(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    return relax.op.broadcast_to(operands[0], integers(given.shape, "shape"))


def _export_broadcast_to(call: relax.Call) -> Exported | None:
    shape = shape_of(call)
    if shape is None or not is_static(shape):
        return None
    return Exported([call.args[0]], {"shape": shape, "dtype": None})


def _to_shape_of(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    return relax.op.broadcast_to(operands[0], extents(operands[1]))


SYMBOLIC_BROADCAST = CarriedForm("broadcast_to_like", "data broadcast_type", None, _to_shape_of)
"""To the shape of a tensor whose extents are not known."""


def _broadcast_to_like(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    if is_static(extents(operands[1])):
        return _to_shape_of(scope, operands, given)
    return SYMBOLIC_BROADCAST(operands, given)


def _collapse_sum_like(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    data, like = operands
    _check_collapse(extents(data), extents(like))
    return relax.op.collapse_sum_like(data, like)


def _check_collapse(shape: Sequence[Any], target: Sequence[Any]) -> None:
    tail = shape[len(shape) - len(target) :] if len(target) <= len(shape) else None
    if tail is None or any(
        isinstance(old, int) and isinstance(new, int) and new not in (1, old)
        for old, new in zip(tail, target, strict=True)
    ):
        raise ModelError(f"a tensor of {list(shape)} does not come of one of {list(target)[:20]}")


def _collapse_sum_to(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    if not isinstance(operands[1], Constant):
        raise ModelError("needs a constant shape")
    shape = constant_array(operands[1])
    target = [int(extent) for extent in shape.reshape(-1)[: MOST_DIMENSIONS + 1]]
    _check_collapse(extents(operands[0]), target)
    return relax.op.collapse_sum_to(operands[0], target)


def _export_collapse_sum_to(call: relax.Call) -> Exported | None:
    shape = shape_of(call)
    if shape is None or not is_static(shape):
        return None
    return Exported([call.args[0], np.array(shape, "int32")], {})


def _layout_transform(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    data = operands[0]
    source, target = Layout.parse(given.src_layout), Layout.parse(given.dst_layout)
    shape = extents(data)
    _check_layout(source, shape)
    moves = index_map(source, target)
    if moves.is_identity:
        return data
    if moves.is_permutation:
        return as_layout_change(relax.op.permute_dims(data, list(moves.permutation)))
    return relax.op.layout_transform(data, map_between(source, target), _filler(data, source, target))


def _filler(data: Expression, source: Layout, target: Layout) -> float | int | None:
    """The zero that fills up blocks; None where they are full, as of the transforms that passes put in."""
    shape, dtype = extents(data), dtype_of(data)
    if dtype == "bool":
        return None
    if is_static(shape):
        order = source.primal_layout
        moved = target.shape(source.logical_shape(shape, order), order)
        if prod(moved) == prod(shape):
            return None
    return 0.0 if dtype.startswith(("float", "bfloat")) else 0


def _check_layout(layout: Layout, shape: Sequence[Any]) -> None:
    if not layout.is_plain and layout.alignments:
        raise ModelError(f"layout '{layout}' has an alignment, which Relay does not have")
    if layout.rank != len(shape):
        raise ModelError(f"layout '{layout}' has {layout.rank} dimensions, the data {len(shape)}")
    for axis, extent in zip(layout.axes, shape, strict=True):
        if axis.factor is not None and extent != axis.factor:
            raise ModelError(f"layout '{layout}' has a block of {axis.factor} where the data has {extent}")


def _export_layout_transform(call: relax.Call) -> Mapping[str, Any] | None:
    shape, result = shape_of(call.args[0]), shape_of(call)
    if shape is None or result is None:
        return None
    found = layouts_of(call.attrs.index_map, shape, result)
    return found and {"src_layout": found[0], "dst_layout": found[1]}


def _sliding_window(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    data = operands[0]
    shape = extents(data)
    axis = axis_of(given.axis, len(shape))
    window = [positive(extent, "every entry of window_shape") for extent in given.window_shape]
    strides = [positive(stride, "every entry of strides") for stride in given.strides]
    if len(window) != len(shape) - axis or len(strides) != len(window):
        raise ModelError(f"needs {len(shape) - axis} entries in window_shape and strides")
    for extent, width in zip(shape[axis:], window, strict=True):
        if isinstance(extent, int) and width > extent:
            raise ModelError(f"a window of {width} does not fit an extent of {extent}")
    return scope.builder.call_te(topi.sliding_window, data, axis, window, strides)


ROWS = (
    Operator("tile", ("data",), _tile, "TileAttrs", relax_names=("tile",), export=_export_tile),
    Operator(
        "repeat",
        ("data",),
        _repeat,
        "RepeatAttrs",
        signature="data, repeats, axis",
        relax_names=("repeat",),
        export=_export_repeat,
    ),
    Operator(
        "reverse",
        ("data",),
        _reverse,
        "ReverseAttrs",
        signature="data, axis",
        relax_names=("flip",),
        export=lambda call: {"axis": int(call.attrs.axis)},
    ),
    Operator(
        "reverse_sequence",
        ("data", "seq_lengths"),
        _reverse_sequence,
        "ReverseSequenceAttrs",
        relax_names=("reverse_sequence",),
        export=_export_reverse_sequence,
    ),
    Operator(
        "broadcast_to",
        ("data",),
        _broadcast_to,
        "InitOpAttrs",
        signature="data, shape",
        relax_names=("broadcast_to",),
        export=_export_broadcast_to,
    ),
    Operator("broadcast_to_like", ("data", "broadcast_type"), _broadcast_to_like),
    Operator(
        "collapse_sum_like",
        ("data", "collapse_type"),
        _collapse_sum_like,
        relax_names=("collapse_sum_like",),
        export=lambda call: {},
    ),
    Operator(
        "collapse_sum_to",
        ("data", "shape"),
        _collapse_sum_to,
        relax_names=("collapse_sum_to",),
        export=_export_collapse_sum_to,
    ),
    Operator(
        "layout_transform",
        ("data",),
        _layout_transform,
        "LayoutTransformAttrs",
        relax_names=("layout_transform",),
        export=_export_layout_transform,
    ),
    Operator("sliding_window", ("data",), _sliding_window, "SlidingWindowAttrs", carried=True),
)
