"""Operators that change shapes and move elements."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from tvm import relax, topi

from relay_layout.errors import ModelError
from relay_layout.ir import Constant, Expression, constant_array, dtype_of, shape_of
from relay_layout.layout import Layout
from relay_layout.layout_transform import index_map
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.axis_arguments import (
    MOST_DIMENSIONS,
    MOST_PARTS,
    CarriedForm,
    axes_of,
    axis_of,
    fields_of,
    integer,
    integers,
    one_axis_to_list,
    positive,
)
from relay_layout.relay.operators.direct import plain
from relay_layout.relay.operators.layout_texts import layouts_of, map_between
from relay_layout.relay.operators.operator import (
    Exported,
    Operator,
    Scope,
    extents,
    rank_of,
)
from relay_layout.relay.operators.reshape_codes import codes_of, new_shape, reversed_shape


def _reshape(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    codes = integers(given.newshape, "newshape")
    return relax.op.reshape(
        operands[0], new_shape(extents(operands[0]), codes, keep_zeros=bool(given.allowzero))
    )


def _reverse_reshape(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    codes = integers(given.newshape, "newshape")
    return relax.op.reshape(operands[0], reversed_shape(extents(operands[0]), codes))


def _export_reshape(call: relax.Call) -> Exported | None:
    """Reshape, and what Relax has besides that adds or drops dimensions in ways that Relay does not."""
    shape, result = shape_of(call.args[0]), shape_of(call)
    codes = None if shape is None or result is None else codes_of(shape, result)
    return codes and Exported([call.args[0]], {"newshape": codes[0], "allowzero": codes[1]})


def _reshape_like(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    data, like = (extents(operand) for operand in operands)
    limits = {}
    for side, shape in (("lhs", data), ("rhs", like)):
        for end in ("begin", "end"):
            name = f"{side}_{end}"
            value = len(shape) if given[name] is None else integer(given[name], name)
            if not -len(shape) <= value <= len(shape):
                raise ModelError(f"{name} {value} is not a place among {len(shape)} dimensions")
            limits[name] = value + len(shape) if value < 0 else value
    result = [
        *data[: limits["lhs_begin"]],
        *like[limits["rhs_begin"] : limits["rhs_end"]],
        *data[limits["lhs_end"] :],
    ]
    if all(isinstance(extent, int) for extent in (*data, *result)):
        new_shape(data, result, keep_zeros=True)
    return relax.op.reshape(operands[0], result)


def _transpose(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    if given.axes is None:
        return relax.op.permute_dims(operands[0])
    rank = rank_of(operands[0])
    axes = axes_of(given.axes, rank, "axes")
    if len(axes) != rank:
        raise ModelError(f"axes {list(axes)} are not as many as the {rank} dimensions")
    return relax.op.permute_dims(operands[0], list(axes))


def _export_transpose(call: relax.Call) -> Mapping[str, Any]:
    return {"axes": plain(call.attrs.axes)}


def _expand_dims(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    rank = rank_of(operands[0])
    first = axis_of(given.axis, rank + 1)
    count = given.num_newaxis
    if not 0 <= count <= MOST_DIMENSIONS - rank:
        raise ModelError(f"num_newaxis is {count}; it is from 0 to {MOST_DIMENSIONS - rank}")
    return relax.op.expand_dims(operands[0], list(range(first, first + count))) if count else operands[0]


def _export_expand_dims(call: relax.Call) -> Mapping[str, Any] | None:
    shape = shape_of(call)
    if shape is None:
        return None
    axes = sorted(int(axis) % len(shape) for axis in call.attrs.axis)
    if not axes or axes != list(range(axes[0], axes[0] + len(axes))):
        return None
    return {"axis": axes[0], "num_newaxis": len(axes)}


def _squeeze(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    data = operands[0]
    shape = extents(data)
    if given.axis is None:
        if not all(isinstance(extent, int) for extent in shape):
            raise ModelError("needs an axis where an extent is not known")
        axes = tuple(axis for axis, extent in enumerate(shape) if extent == 1)
    else:
        axes = axes_of(given.axis, len(shape))
    for axis in axes:
        if isinstance(shape[axis], int) and shape[axis] != 1:
            raise ModelError(f"axis {axis} has extent {shape[axis]}, not 1")
    return relax.op.squeeze(data, list(axes)) if axes else data


def _export_squeeze(call: relax.Call) -> Mapping[str, Any] | None:
    axes = plain(call.attrs.axis)
    shape = shape_of(call.args[0])
    if axes is None and (shape is None or not all(isinstance(extent, int) for extent in shape)):
        return None
    return {"axis": axes}


def _concatenate(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    fields = fields_of(operands[0])
    data = fields[0] if isinstance(operands[0], relax.Tuple) else None
    rank = rank_of(data) if data is not None else len(operands[0].ty.fields[0].shape.values)
    return relax.op.concat(operands[0], axis_of(given.axis, rank))


def _export_concatenate(call: relax.Call) -> Mapping[str, Any] | None:
    return None if call.attrs.axis is None else {"axis": int(call.attrs.axis)}


def _stack(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    fields_of(operands[0])
    rank = len(operands[0].ty.fields[0].shape.values)
    return relax.op.stack(operands[0], axis_of(given.axis, rank + 1))


def _export_stack(call: relax.Call) -> Mapping[str, Any]:
    return {"axis": 0 if call.attrs.axis is None else int(call.attrs.axis)}


def _split(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    data = operands[0]
    shape = extents(data)
    axis = axis_of(given.axis, len(shape))
    parts = given.indices_or_sections
    if isinstance(parts, tuple):
        indices = integers(parts, "indices_or_sections")
        _check_indices(indices, shape[axis])
        return relax.op.split(data, list(indices), axis) if indices else relax.Tuple([data])
    sections = positive(parts, "indices_or_sections", MOST_PARTS)
    if not isinstance(shape[axis], int):
        raise ModelError(f"needs the extent of axis {axis} to divide it into {sections}")
    if shape[axis] % sections:
        raise ModelError(f"axis {axis} of extent {shape[axis]} is not divided evenly into {sections}")
    return relax.op.split(data, sections, axis) if sections > 1 else relax.Tuple([data])


def _check_indices(indices: tuple[int, ...], extent: Any) -> None:
    if len(indices) >= MOST_PARTS:
        raise ModelError(f"gives {len(indices) + 1} tensors, over {MOST_PARTS}")
    limits = (0, *indices, *((extent,) if isinstance(extent, int) else ()))
    if any(low >= high for low, high in pairwise(limits)):
        raise ModelError(f"indices_or_sections {list(indices)[:20]} do not ascend within extent {extent}")


def _export_split(call: relax.Call) -> Mapping[str, Any] | None:
    parts = plain(call.attrs.indices_or_sections)
    axis = int(call.attrs.axis)
    shape = shape_of(call.args[0])
    if isinstance(parts, int):
        extent = None if shape is None else shape[axis]
        if not isinstance(extent, int):
            return None
        if extent % parts:
            step = -(-extent // parts)
            parts = tuple(range(step, extent, step))
    return {"indices_or_sections": parts, "axis": axis}


def _split_results(operands: Sequence[Any], attributes: Mapping[str, Any]) -> int:
    parts = attributes["indices_or_sections"]
    return parts if isinstance(parts, int) else len(parts) + 1


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
    return relax.op.reverse_sequence(*operands, *axes)


def _export_reverse_sequence(call: relax.Call) -> Mapping[str, Any]:
    return {"seq_axis": int(call.attrs.seq_axis), "batch_axis": int(call.attrs.batch_axis)}


def _broadcast_to(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    return relax.op.broadcast_to(operands[0], integers(given.shape, "shape"))


def _export_broadcast_to(call: relax.Call) -> Exported | None:
    shape = shape_of(call)
    if shape is None or not all(isinstance(extent, int) for extent in shape):
        return None
    return Exported([call.args[0]], {"shape": shape, "dtype": None})


def _to_shape_of(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    return relax.op.broadcast_to(operands[0], extents(operands[1]))


_SYMBOLIC_BROADCAST = CarriedForm("broadcast_to_like", "data broadcast_type", None, _to_shape_of)


def _broadcast_to_like(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    if all(isinstance(extent, int) for extent in extents(operands[1])):
        return _to_shape_of(scope, operands, given)
    return _SYMBOLIC_BROADCAST(operands, given)


def _collapse_sum_like(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    return relax.op.collapse_sum_like(*operands)


def _collapse_sum_to(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    if not isinstance(operands[1], Constant):
        raise ModelError("needs a constant shape")
    shape = constant_array(operands[1])
    return relax.op.collapse_sum_to(operands[0], [int(extent) for extent in shape.reshape(-1)])


def _export_collapse_sum_to(call: relax.Call) -> Exported | None:
    shape = shape_of(call)
    if shape is None or not all(isinstance(extent, int) for extent in shape):
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
        return relax.op.permute_dims(data, list(moves.permutation))
    dtype = dtype_of(data)
    zero = 0.0 if dtype.startswith(("float", "bfloat")) else 0
    function = map_between(source, target)
    return relax.op.layout_transform(data, function, None if dtype == "bool" else zero)


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


def _prepare_reshape(data: Any, newshape: Any, allowzero: bool = False) -> tuple[list[Any], dict[str, Any]]:
    return [data], {
        "newshape": (newshape,) if isinstance(newshape, int) else newshape,
        "allowzero": allowzero,
    }


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
    Operator(
        "expand_dims",
        ("data",),
        _expand_dims,
        "ExpandDimsAttrs",
        relax_names=("expand_dims",),
        export=_export_expand_dims,
    ),
    Operator(
        "squeeze",
        ("data",),
        _squeeze,
        "SqueezeAttrs",
        signature="data, axis=None",
        prepare=one_axis_to_list,
        relax_names=("squeeze",),
        export=_export_squeeze,
    ),
    Operator(
        "reshape",
        ("data",),
        _reshape,
        "ReshapeAttrs",
        signature="data, newshape, allowzero=False",
        prepare=_prepare_reshape,
        relax_names=("reshape", "flatten", "expand_dims", "squeeze"),
        export=_export_reshape,
    ),
    Operator("reshape_like", ("data", "shape_like"), _reshape_like, "ReshapeLikeAttrs"),
    Operator(
        "contrib_reverse_reshape",
        ("data",),
        _reverse_reshape,
        "ReshapeAttrs",
        signature="data, newshape",
        prepare=_prepare_reshape,
    ),
    Operator(
        "transpose",
        ("data",),
        _transpose,
        "TransposeAttrs",
        signature="data, axes=None",
        relax_names=("permute_dims",),
        export=_export_transpose,
    ),
    Operator(
        "concatenate",
        ("*data",),
        _concatenate,
        "ConcatenateAttrs",
        signature="data, axis",
        relax_names=("concat",),
        export=_export_concatenate,
    ),
    Operator(
        "stack",
        ("*data",),
        _stack,
        "StackAttrs",
        signature="data, axis",
        relax_names=("stack",),
        export=_export_stack,
    ),
    Operator(
        "split",
        ("data",),
        _split,
        "SplitAttrs",
        results=_split_results,
        relax_names=("split",),
        export=_export_split,
    ),
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
