"""Operators that change shapes and move elements."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from tvm import relax, tirx

from relay_layout.errors import ModelError
from relay_layout.ir import (
    Expression,
    bindings_of,
    dtype_of,
    is_static,
    operator_name,
    same_extent,
    shape_of,
)
from relay_layout.relay.operators import rearranging
from relay_layout.relay.operators.agreement import alike, alike_but_for_axis, named_extents
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.axis_arguments import (
    MOST_DIMENSIONS,
    axes_of,
    axis_of,
    integer,
    integers,
    one_axis_to_list,
    positive,
)
from relay_layout.relay.operators.carried import CarriedForm, attributes_of
from relay_layout.relay.operators.direct import plain
from relay_layout.relay.operators.operator import (
    MOST_PARTS,
    Exported,
    Operator,
    Scope,
    extents,
    fields_of,
    rank_of,
)
from relay_layout.relay.operators.reshape_codes import codes_of, new_shape, reversed_shape


def _reshaped(data: Expression, shape: Sequence[Any]) -> Expression:
    """Data in a new shape, which Relax cannot be told where it takes an extent of 0 as one to copy."""
    copied = (*extents(data), *(None for _ in shape))
    if any(
        isinstance(extent, int) and extent == 0 != old for extent, old in zip(shape, copied, strict=False)
    ):
        return relax.op.zeros(tuple(shape), dtype_of(data))
    return relax.op.reshape(data, shape)


def _reshape(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    codes = integers(given.newshape, "newshape")
    shape = new_shape(extents(operands[0]), codes, keep_zeros=bool(given.allowzero))
    return _reshaped(operands[0], shape)


def _reverse_reshape(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    codes = integers(given.newshape, "newshape")
    return _reshaped(operands[0], reversed_shape(extents(operands[0]), codes))


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
    if is_static((*data, *result)):
        new_shape(data, result, keep_zeros=True)
    return _reshaped(operands[0], result)


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
        if not is_static(shape):
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
    if axes is None and (shape is None or not is_static(shape)):
        return None
    return {"axis": axes}


def _concatenate(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    return relax.op.concat(operands[0], axis_of(given.axis, _rank_of_fields(operands[0])))


def _rank_of_fields(operand: Expression) -> int:
    """The rank of the tensors of a tuple, which the first has as well."""
    fields_of(operand)
    return len(operand.ty.fields[0].shape.values)


def _export_concatenate(call: relax.Call) -> Mapping[str, Any] | None:
    return None if call.attrs.axis is None else {"axis": int(call.attrs.axis)}


def _stack(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    return relax.op.stack(operands[0], axis_of(given.axis, _rank_of_fields(operands[0]) + 1))


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
    if sections > 1 and not isinstance(shape[axis], int):
        return _SYMBOLIC_SPLIT(operands, {"indices_or_sections": sections, "axis": axis})
    if sections > 1 and shape[axis] % sections:
        raise ModelError(f"axis {axis} of extent {shape[axis]} is not divided evenly into {sections}")
    return relax.op.split(data, sections, axis) if sections > 1 else relax.Tuple([data])


def _split_evenly(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    """Parts of an extent that is known when the network runs, and then is a multiple of their number."""
    data, axis, sections = operands[0], given.axis, given.indices_or_sections
    size = tirx.floordiv(extents(data)[axis], sections)
    parts = [
        scope.emit(
            relax.op.strided_slice(data, [axis], [size * place], [size * (place + 1)], assume_inbound=True)
        )
        for place in range(sections)
    ]
    return relax.Tuple(parts)


_SYMBOLIC_SPLIT = CarriedForm("split", "data", "SplitAttrs", _split_evenly)


def split_conditions(function: relax.Function) -> list[str]:
    """What the extents of a function's parameters have to be for all that it splits."""
    named = named_extents(function)
    found: dict[str, None] = {}
    for binding in bindings_of(function):
        if operator_name(binding.value) != "relay.split":
            continue
        shape, given = shape_of(binding.value.args[0]) or (), attributes_of(binding.value)
        size = next((text for extent, text in named if same_extent(extent, shape[given.axis])), None)
        if size is not None:
            found[f"{size} % {given.indices_or_sections} == 0"] = None
    return list(found)


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


def _prepare_reshape(data: Any, newshape: Any, allowzero: bool = False) -> tuple[list[Any], dict[str, Any]]:
    return [data], {
        "newshape": (newshape,) if isinstance(newshape, int) else newshape,
        "allowzero": allowzero,
    }


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
        agreement=alike_but_for_axis,
    ),
    Operator(
        "stack",
        ("*data",),
        _stack,
        "StackAttrs",
        signature="data, axis",
        relax_names=("stack",),
        export=_export_stack,
        agreement=alike,
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
    *rearranging.ROWS,
)
