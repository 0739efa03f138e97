"""Operators that make tensors from numbers and shapes."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax, tirx, topi

from relay_layout.errors import ModelError
from relay_layout.ir import Constant, Expression, constant, constant_array, dtype_of, is_one, is_static
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.axis_arguments import MOST_DIMENSIONS, axis_of, integers
from relay_layout.relay.operators.carried import CarriedForm
from relay_layout.relay.operators.counted import WIDE, counted, counting
from relay_layout.relay.operators.direct import relax_function
from relay_layout.relay.operators.elementwise import checked_dtype
from relay_layout.relay.operators.known_entries import known_entries
from relay_layout.relay.operators.operator import (
    Exported,
    Operator,
    Scope,
    extents,
    fields_of,
    numbers_of,
    rank_of,
    scalar,
)
from relay_layout.relay.operators.reshape_codes import prod_of
from relay_layout.relay.syntax.tree import Constant as RelayConstant

_MOST_NUMBERS = 2**24
"""How many numbers arange may give."""


def _shape(given: Attributes) -> tuple[int, ...]:
    shape = integers(given.shape, "shape")
    if len(shape) > MOST_DIMENSIONS or any(extent < 0 for extent in shape):
        raise ModelError(f"shape {list(shape)[:20]} is no shape")
    return shape


def _filled(name: str) -> Operator:
    """zeros or ones."""

    def build(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
        if given.dtype is None:
            raise ModelError("needs a dtype")
        return relax_function(name)(_shape(given), checked_dtype(given.dtype))

    def export(call: relax.Call) -> Exported | None:
        shape = numbers_of(call.args[0])
        return None if shape is None else Exported([], {"shape": shape, "dtype": dtype_of(call)})

    return Operator(
        name, (), build, "InitOpAttrs", signature="shape, dtype", relax_names=(name,), export=export
    )


def _filled_like(name: str) -> Operator:
    """zeros_like or ones_like."""

    def build(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
        return relax_function(name)(operands[0])

    def export(call: relax.Call) -> Mapping[str, Any] | None:
        return {} if dtype_of(call) == dtype_of(call.args[0]) else None

    return Operator(name, ("data",), build, relax_names=(name,), export=export)


def _full(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    value = operands[0]
    if rank_of(value) != 0:
        raise ModelError(f"the value has {rank_of(value)} dimensions; it is a scalar")
    return relax.op.full(_shape(given), value, checked_dtype(given.dtype or dtype_of(value)))


def _export_full(call: relax.Call) -> Exported | None:
    shape = numbers_of(call.args[0])
    return None if shape is None else Exported([call.args[1]], {"shape": shape, "dtype": dtype_of(call)})


def _full_like(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    if rank_of(operands[1]) != 0:
        raise ModelError(f"the value has {rank_of(operands[1])} dimensions; it is a scalar")
    return relax.op.full_like(*operands)


def _export_full_like(call: relax.Call) -> Mapping[str, Any] | None:
    return {} if dtype_of(call) == dtype_of(call.args[0]) else None


def _arange(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    dtype = checked_dtype(given.dtype)
    if any(rank_of(operand) != 0 for operand in operands):
        raise ModelError("start, stop and step are scalars")
    if not all(isinstance(operand, Constant) for operand in operands):
        return _counted_range(scope, operands, dtype)
    start, stop, step = (constant_array(operand).astype(dtype) for operand in operands)
    if step == 0 or not all(np.isfinite(number) for number in (start, stop, step)):
        raise ModelError(f"does not get from {start} to {stop} in steps of {step}")
    count = math.ceil((float(stop) - float(start)) / float(step))
    if not 1 <= count <= _MOST_NUMBERS:
        raise ModelError(
            f"gives {count} numbers from {start} to {stop}; from 1 to {_MOST_NUMBERS} can be given"
        )
    exact = (start + step * np.arange(count).astype(dtype)).astype(dtype)
    # Relax counts with the rounding of numpy, which is not that of Relay for every floating point step.
    numpys = np.arange(start.item(), stop.item(), step.item(), dtype=dtype)
    if not np.array_equal(exact, numpys):
        return constant(exact)
    return relax.op.arange(*(_immediate(number, dtype) for number in (start, stop, step)), dtype)


def _counted_range(scope: Scope, operands: Sequence[Expression], dtype: str) -> Expression:
    """Numbers whose count is computed when the network runs, or follows from extents."""
    entries = [known_entries(scope.builder, operand) for operand in operands]
    start, stop, step = (None if entry is None else entry[()] for entry in entries)
    count = stop
    if stop is None or not (isinstance(start, int) and start == 0 and is_one(step)):
        first, last, by = (scope.emit(relax.op.astype(operand, "float64")) for operand in operands)
        number = relax.op.ceil(relax.op.divide(relax.op.subtract(last, first), by))
        least = relax.op.astype(relax.op.maximum(number, scalar(0, "float64")), WIDE)
        (count,) = counted(scope, scope.emit(relax.op.reshape(least, [1])), "count")
    first, _, by = (scope.emit(relax.op.astype(operand, dtype)) for operand in operands)
    places = scope.emit(relax.op.astype(scope.emit(counting(count)), dtype))
    return relax.op.add(scope.emit(relax.op.multiply(places, by)), first)


def _immediate(number: Any, dtype: str) -> Expression:
    if np.dtype(dtype).kind == "f":
        return tirx.FloatImm(dtype, float(number))
    return tirx.IntImm(dtype if np.dtype(dtype).kind == "i" else "int64", int(number))


def _export_arange(call: relax.Call) -> Exported | None:
    limits = [getattr(limit, "value", None) for limit in call.args]
    dtype = dtype_of(call)
    if not all(isinstance(limit, int | float) for limit in limits):
        return None
    arrays = [np.array(limit, dtype) for limit in limits]
    return Exported(arrays, _arange_attributes(arrays, dtype))


def _arange_attributes(limits: Sequence[np.ndarray], dtype: str) -> dict[str, Any]:
    """Relay has the operands of arange in its attributes as well."""
    named = zip(("start", "stop", "step"), limits, strict=True)
    return {**{name: RelayConstant(limit) for name, limit in named}, "dtype": dtype}


def _prepare_arange(
    start: Any, stop: Any = None, step: Any = None, dtype: str = "float32"
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    if stop is None:
        start, stop = 0, start
    limits = [
        RelayConstant(np.array(limit, dtype)) if isinstance(limit, int | float | np.generic) else limit
        for limit in (start, stop, 1 if step is None else step)
    ]
    return limits, {**dict(zip(("start", "stop", "step"), limits, strict=True)), "dtype": dtype}


def _meshgrid(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    if given.indexing not in ("ij", "xy"):
        raise ModelError(f"indexing is 'ij' or 'xy', not '{given.indexing[:20]}'")
    fields = [scope.emit(field) for field in fields_of(operands[0])]
    if len(fields) > MOST_DIMENSIONS:
        raise ModelError(f"{len(fields)} tensors give over {MOST_DIMENSIONS} dimensions")
    vectors = [relax.op.expand_dims(field, [0]) if rank_of(field) == 0 else field for field in fields]
    return relax.op.meshgrid(relax.Tuple(vectors), given.indexing)


def _export_meshgrid(call: relax.Call) -> Mapping[str, Any]:
    return {"indexing": str(call.attrs.indexing or "ij")}


def _one_hot_with_te(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    dtype = checked_dtype(given.dtype or dtype_of(operands[1]))

    def compute(indices: Any, on_value: Any, off_value: Any) -> Any:
        return topi.one_hot(indices, on_value(), off_value(), given.depth, given.axis, dtype)

    return scope.builder.call_te(compute, *operands)


_GENERAL_ONE_HOT = CarriedForm("one_hot", "indices on_value off_value", "OneHotAttrs", _one_hot_with_te)


def _one_hot(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    indices, *values = operands
    if given.depth < 1:
        raise ModelError(f"depth is {given.depth}; it is at least 1")
    if given.axis != -1:
        axis_of(given.axis if given.axis >= 0 else None, rank_of(indices) + 1)
    if any(rank_of(value) != 0 for value in values):
        raise ModelError("on_value and off_value are scalars")
    dtype = checked_dtype(given.dtype or dtype_of(values[0]))
    if np.dtype(dtype).kind not in "if" or not all(isinstance(value, Constant) for value in values):
        return _GENERAL_ONE_HOT(operands, given)
    on, off = (_immediate(constant_array(value).astype(dtype), dtype) for value in values)
    return relax.op.one_hot(indices, on, off, given.depth, given.axis)


def _export_one_hot(call: relax.Call) -> Exported | None:
    values = [getattr(value, "value", None) for value in call.args[1:]]
    if not all(isinstance(value, int | float) for value in values):
        return None
    dtype = dtype_of(call)
    attributes = {"depth": int(call.attrs.depth), "axis": int(call.attrs.axis), "dtype": dtype}
    return Exported([call.args[0], *(np.array(value, dtype) for value in values)], attributes)


def _from_shape(
    name: str, attributes: str, value: Callable[[Sequence[int]], Any], dynamic: Callable[..., Expression]
) -> Operator:
    """A row that tells something of a shape: a constant where the shape is known."""

    def carried_build(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
        dtype = checked_dtype(given.dtype or "int32")
        shape = scope.emit(relax.op.shape_to_tensor(scope.emit(relax.op.shape_of(operands[0]))))
        return relax.op.astype(scope.emit(dynamic(shape)), dtype)

    carried_form = CarriedForm(name, "data", attributes, carried_build)

    def build(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
        shape = extents(operands[0])
        if is_static(shape):
            return constant(np.array(value(shape), checked_dtype(given.dtype or "int32")))
        return carried_form(operands, given)

    return Operator(name, ("data",), build, attributes, signature="data, dtype='int32'")


ROWS = (
    _filled("zeros"),
    _filled("ones"),
    _filled_like("zeros_like"),
    _filled_like("ones_like"),
    Operator(
        "full",
        ("fill_value",),
        _full,
        "InitOpAttrs",
        signature="fill_value, shape=(), dtype=''",
        relax_names=("full",),
        export=_export_full,
    ),
    Operator(
        "full_like",
        ("data", "fill_value"),
        _full_like,
        relax_names=("full_like",),
        export=_export_full_like,
    ),
    Operator(
        "arange",
        ("start", "stop", "step"),
        _arange,
        "ArangeAttrs",
        signature="start, stop=None, step=None, dtype='float32'",
        prepare=_prepare_arange,
        relax_names=("arange",),
        export=_export_arange,
    ),
    Operator(
        "meshgrid",
        ("*data",),
        _meshgrid,
        "MeshgridAttrs",
        results=lambda operands, attributes: len(operands[0]),
        relax_names=("meshgrid",),
        export=_export_meshgrid,
    ),
    Operator(
        "one_hot",
        ("indices", "on_value", "off_value"),
        _one_hot,
        "OneHotAttrs",
        signature="indices, on_value, off_value, depth, axis, dtype",
        relax_names=("one_hot",),
        export=_export_one_hot,
    ),
    _from_shape("shape_of", "ShapeOfAttrs", lambda shape: shape, lambda shape: shape),
    _from_shape("ndarray_size", "NdarraySizeAttrs", prod_of, relax.op.prod),
)
