"""Shapes that the network computes of shapes: their entries, as far as extents of tensors tell them."""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np
from tvm import relax, sym, tirx

from relay_layout.ir import Constant, Expression, as_extent, constant_array, dtype_of, is_static, shape_of
from relay_layout.relay.operators.operator import extents, numbers_of
from relay_layout.relay.operators.reshape_codes import prod_of

Entries = np.ndarray
"""An array of dtype object: ints, expressions of extents, and None for what is not known."""

_MOST_ENTRIES = 64
_DEEPEST = 64
"""How many calls deep the operands of an entry are followed."""


def known_entries(builder: relax.BlockBuilder, value: Expression, depth: int = _DEEPEST) -> Entries | None:
    """The entries of a tensor of integers, where they depend on extents alone; None otherwise."""
    if isinstance(value, Constant):
        array = constant_array(value)
        fits = array.dtype.kind in "iu" and array.size <= _MOST_ENTRIES
        return _objects(array) if fits else None
    if isinstance(value, relax.Var):
        value = builder.lookup_binding(value)
    if not isinstance(value, relax.Call) or depth == 0:
        return None
    rule = _RULES.get(str(getattr(value.op, "name", "")))
    if rule is None or not dtype_of(value).startswith(("int", "uint")):
        return None

    def entries(operand: Expression) -> Entries | None:
        return known_entries(builder, operand, depth - 1)

    return rule(value, entries)


def whose_shape(builder: relax.BlockBuilder, value: Expression) -> Expression | None:
    """The tensor of which a list is the whole shape; None where it is something else."""
    while isinstance(value, relax.Var):
        value = builder.lookup_binding(value)
        if isinstance(value, relax.Call) and value.op.name == "relax.astype":
            value = value.args[0]
    if isinstance(value, relax.Call) and value.op.name == "relay.shape_of":
        return value.args[0]
    return None


Rule = Callable[[relax.Call, Callable[[Expression], Entries | None]], Entries | None]


def _objects(array: Any) -> Entries:
    result = np.empty(np.shape(array), dtype=object)
    for place in np.ndindex(result.shape):
        entry = array[place]
        result[place] = int(entry) if isinstance(entry, np.generic) else entry
    return result


def _shape(call: relax.Call, entries: Any) -> Entries | None:
    shape = extents(call.args[0])
    result = np.empty(len(shape), dtype=object)
    result[:] = shape
    return result


def _size(call: relax.Call, entries: Any) -> Entries | None:
    result = np.empty((), dtype=object)
    result[()] = prod_of(extents(call.args[0]))
    return result


def _same(call: relax.Call, entries: Any) -> Entries | None:
    return entries(call.args[0])


def _reshaped(call: relax.Call, entries: Any) -> Entries | None:
    found, shape = entries(call.args[0]), shape_of(call)
    if found is None or shape is None or not is_static(shape):
        return None
    return found.reshape(shape)


def _joined(join: Callable[..., Any]) -> Rule:
    def rule(call: relax.Call, entries: Any) -> Entries | None:
        fields = getattr(call.args[0], "fields", None)
        parts = [part for field in fields or () if (part := _filled(field, entries(field))) is not None]
        if len(parts) < len(fields or [None]) or all(entry is None for part in parts for entry in part.flat):
            return None
        return join(parts, 0 if call.attrs.axis is None else int(call.attrs.axis))

    return rule


def _filled(field: Any, found: Entries | None) -> Entries | None:
    """The entries of a part; None for each, where it is a short list of which nothing else is known."""
    shape = shape_of(field) if found is None and field is not None else None
    if shape is None or not is_static(shape) or prod(shape) > _MOST_ENTRIES:
        return found
    return np.full(shape, None, dtype=object)


def _taken(call: relax.Call, entries: Any) -> Entries | None:
    data, index = entries(call.args[0]), call.args[1]
    if data is None or data.ndim != 1 or not isinstance(index, Constant):
        return None
    places = constant_array(index)
    if places.size and not -len(data) <= places.min() <= places.max() < len(data):
        return None
    return _objects(np.asarray(data[places], dtype=object))


def _sliced(call: relax.Call, entries: Any) -> Entries | None:
    data = entries(call.args[0])
    lists = [numbers_of(argument) for argument in call.args[1:]]
    if data is None or data.ndim != 1 or any(numbers is None or len(numbers) != 1 for numbers in lists):
        return None
    (begin,), (end,) = lists[1], lists[2]  # type: ignore[misc]
    (stride,) = lists[3] if len(lists) > 3 else (1,)  # type: ignore[misc]
    return data[begin:end:stride] if stride > 0 else None


def _product(call: relax.Call, entries: Any) -> Entries | None:
    data = entries(call.args[0])
    if data is None or data.ndim != 1 or any(entry is None for entry in data):
        return None
    result = np.empty((1,) if call.attrs.keepdims else (), dtype=object)
    result[...] = prod_of(data)
    return result


def _pairwise(function: Callable[[Any, Any], Any]) -> Rule:
    def rule(call: relax.Call, entries: Any) -> Entries | None:
        left, right = map(entries, call.args)
        if left is None or right is None:
            return None
        left, right = np.broadcast_arrays(left, right)
        result = np.empty(left.shape, dtype=object)
        for place in np.ndindex(result.shape):
            if left[place] is None or right[place] is None:
                continue
            result[place] = as_extent(
                sym.Analyzer().simplify(tirx.const(0, "int64") + function(left[place], right[place]))
            )
        return result

    return rule


def _quotient(left: Any, right: Any) -> Any:
    return tirx.floordiv(_wide(left), _wide(right))


def _wide(entry: Any) -> Any:
    return tirx.IntImm("int64", entry) if isinstance(entry, int) else entry


_RULES: Mapping[str, Rule] = {
    "relay.shape_of": _shape,
    "relay.ndarray_size": _size,
    "relax.astype": _same,
    "relax.reshape": _reshaped,
    "relax.squeeze": _reshaped,
    "relax.expand_dims": _reshaped,
    "relax.concat": _joined(np.concatenate),
    "relax.stack": _joined(np.stack),
    "relax.take": _taken,
    "relax.strided_slice": _sliced,
    "relax.prod": _product,
    "relax.add": _pairwise(lambda left, right: left + right),
    "relax.subtract": _pairwise(lambda left, right: left - right),
    "relax.multiply": _pairwise(lambda left, right: left * right),
    "relax.divide": _pairwise(_quotient),
    "relax.floor_divide": _pairwise(_quotient),
    "relax.maximum": _pairwise(lambda left, right: tirx.max(_wide(left), _wide(right))),
    "relax.minimum": _pairwise(lambda left, right: tirx.min(_wide(left), _wide(right))),
}
"""What operators compute of known entries. Extents are not negative, so quotients are rounded down."""
