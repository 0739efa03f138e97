"""Operators that mask elements, set diagonals, and compute with indices."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax, topi

from relay_layout.errors import ModelError
from relay_layout.ir import Constant, Expression, constant, constant_array, dtype_of
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.axis_arguments import integers, positive
from relay_layout.relay.operators.carried import CarriedForm
from relay_layout.relay.operators.operator import (
    Exported,
    Operator,
    Scope,
    extents,
    rank_of,
    static_extents,
    topi_build,
)

_MOST_PLACES = 2**24
"""How long a permutation may be."""


def _sequence_mask(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    if given.axis not in (0, 1) or rank_of(operands[0]) < 2:
        raise ModelError(f"axis is 0 or 1 of at least two dimensions, not {given.axis}")
    return scope.builder.call_te(topi.sequence_mask, *operands, given.mask_value, given.axis)


def _matrix_set_diag(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    data, diagonal = operands
    shape, lines = extents(data), extents(diagonal)
    low, high = given.k1, given.k2
    if len(shape) < 2 or low > high or not lines:
        raise ModelError(f"diagonals {low} to {high} do not fit {len(shape)} dimensions")
    rows, columns = shape[-2:]
    if isinstance(rows, int) and isinstance(columns, int):
        length = min(rows + min(high, 0), columns - max(low, 0))
        if low <= -rows or high >= columns or lines[-1] != length:
            raise ModelError(f"diagonals {low} to {high} of {rows} by {columns} are not {lines[-1]} long")
    if low != high and (len(lines) < 2 or lines[-2] != high - low + 1):
        raise ModelError(f"gives {lines[-2] if len(lines) > 1 else 1} diagonals, not {high - low + 1}")
    if len(lines) != len(shape) - (low == high):
        raise ModelError(f"diagonals have {len(lines)} dimensions for data of {len(shape)}")
    align = "_".join(
        "RIGHT" if right else "LEFT" for right in (given.super_diag_right_align, given.sub_diag_right_align)
    )
    return scope.builder.call_te(topi.matrix_set_diag, data, diagonal, (low, high), align)


def _prepare_matrix_set_diag(
    data: Any, diagonal: Any, k: Any = 0, align: str = "RIGHT_LEFT"
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    limits = tuple(k) if isinstance(k, list | tuple) else (k,)
    return [data, diagonal], {
        "k1": limits[0],
        "k2": limits[-1],
        "super_diag_right_align": align.startswith("RIGHT"),
        "sub_diag_right_align": align.endswith("RIGHT"),
    }


def _triangle(data: Any, k: Any, upper: bool) -> Any:
    return topi.trilu(data, k(), upper)


_VARIABLE_TRILU = CarriedForm("trilu", "data k", "TriluAttrs", topi_build(_triangle, "upper"))


def _trilu(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    data, k = operands
    if rank_of(k) != 0 or rank_of(data) < 2:
        raise ModelError("takes a matrix and a scalar")
    if not isinstance(k, Constant):
        return _VARIABLE_TRILU(operands, given)
    return (relax.op.triu if given.upper else relax.op.tril)(data, int(constant_array(k)))


def _export_trilu(call: relax.Call) -> Exported | None:
    diagonal = getattr(call.args[1], "value", None)
    if not isinstance(diagonal, int):
        return None
    upper = str(call.op.name) == "relax.triu"
    return Exported([call.args[0], np.array(diagonal, "int32")], {"upper": upper})


def _unravel_index(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    if rank_of(operands[0]) > 1 or rank_of(operands[1]) != 1:
        raise ModelError("takes one index or a list of them, and a list of extents")
    return scope.builder.call_te(topi.unravel_index, *operands)


def _sparse_to_dense(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    indices, values, default = operands
    shape = integers(given.output_shape, "output_shape")
    rank = rank_of(indices)
    coordinates = extents(indices)[1] if rank == 2 else 1
    if rank > 2 or rank_of(values) > 1 or rank_of(default) or coordinates != len(shape) or min(shape) < 1:
        raise ModelError(f"output_shape {list(shape)[:20]} does not fit indices of {coordinates} coordinates")

    def dense(places: Any, entries: Any, filler: Any) -> Any:
        return topi.sparse_to_dense(places, list(shape), entries, filler())

    return scope.builder.call_te(dense, indices, values, default)


def _invert_permutation(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    data = operands[0]
    if rank_of(data) != 1:
        raise ModelError("takes a list")
    count = positive(static_extents(data)[0], "the length of the data", _MOST_PLACES)
    places = constant(np.arange(count, dtype=dtype_of(data)))
    return relax.op.scatter_elements(relax.op.zeros_like(data), data, places)


ROWS = (
    Operator("sequence_mask", ("data", "valid_length"), _sequence_mask, "SequenceMaskAttrs", carried=True),
    Operator(
        "matrix_set_diag",
        ("data", "diagonal"),
        _matrix_set_diag,
        "MatrixSetDiagAttrs",
        signature="data, diagonal, k=0, align='RIGHT_LEFT'",
        prepare=_prepare_matrix_set_diag,
        carried=True,
    ),
    Operator(
        "trilu",
        ("data", "k"),
        _trilu,
        "TriluAttrs",
        relax_names=("triu", "tril"),
        export=_export_trilu,
    ),
    Operator("unravel_index", ("indices", "shape"), _unravel_index, carried=True),
    Operator(
        "sparse_to_dense",
        ("sparse_indices", "sparse_values", "default_value"),
        _sparse_to_dense,
        "SparseToDenseAttrs",
        signature="sparse_indices, output_shape, sparse_values, default_value=0",
        carried=True,
    ),
    Operator("invert_permutation", ("data",), _invert_permutation),
)
