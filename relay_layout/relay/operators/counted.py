"""Numbers that the network computes as extents: variables, defined where the numbers are known."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax, tirx

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, Extent, constant, dtype_of, is_static
from relay_layout.relay.operators.axis_arguments import MOST_DIMENSIONS
from relay_layout.relay.operators.known_entries import known_entries
from relay_layout.relay.operators.operator import Scope, extents

WIDE = "int64"
"""The dtype of extents."""


def length_of(tensor: Expression, name: str) -> int:
    """How many numbers a list holds, which is known. ModelError for what is no list of integers."""
    shape = extents(tensor)
    if len(shape) != 1 or not isinstance(shape[0], int) or shape[0] > MOST_DIMENSIONS:
        raise ModelError(f"{name} is a list of a known number of entries, at most {MOST_DIMENSIONS}")
    if not dtype_of(tensor).startswith(("int", "uint")):
        raise ModelError(f"{name} is of integers, not {dtype_of(tensor)}")
    return shape[0]


def counted(
    scope: Scope, tensor: Expression, name: str, known: Mapping[int, Extent] | None = None
) -> list[Extent]:
    """Variables for the numbers of a list, which are computed when the network runs.

    Where a number is ``known``, by its place, it is checked.
    """
    count = length_of(tensor, name)
    shape = scope.emit(relax.op.tensor_to_shape(scope.emit(relax.op.astype(tensor, WIDE))))
    found: dict[int, Extent] = {place: tirx.Var(f"{name}_{place}", WIDE) for place in range(count)}
    scope.equalities.counts.update(found.values())
    found.update(known or {})
    scope.builder.match_cast(shape, relax.ShapeType([wide(found[place]) for place in range(count)]))
    return [found[place] for place in range(count)]


def extents_of(
    scope: Scope, tensor: Expression, name: str, known: Mapping[int, Extent] | None = None
) -> list[Extent]:
    """The extents that a list holds; those that are ``known`` otherwise, where it does not tell them."""
    length_of(tensor, name)
    entries = known_entries(scope.builder, tensor)
    if entries is None:
        return counted(scope, tensor, name, known)
    if any(entry is None for entry in entries):
        told = {place: entry for place, entry in enumerate(entries) if entry is not None}
        return counted(scope, tensor, name, {**(known or {}), **told})
    if any(isinstance(entry, int) and entry < 0 for entry in entries):
        raise ModelError(f"{name} {list(entries)} has a negative entry")
    return list(entries)


def plain(scope: Scope, extent: Extent, name: str) -> Extent:
    """An extent, or a variable for what is computed of counts: TVM does not fuse what has such extents."""
    if isinstance(extent, int | tirx.Var) or not scope.equalities.counts & set(
        tirx.analysis.undefined_vars(extent)
    ):
        return extent
    return counted(scope, as_tensor(scope, [extent]), name)[0]


def as_tensor(scope: Scope, entries: Sequence[Extent]) -> Expression:
    """A list of int64 that holds extents."""
    if is_static(entries):
        return constant(np.array(entries, WIDE))
    return scope.emit(relax.op.shape_to_tensor(relax.ShapeExpr(entries)))


def counting(length: Extent) -> Expression:
    """The numbers from 0 below an extent, in int64."""
    return relax.op.arange(wide(0), wide(length), wide(1), WIDE)


def wide(extent: Extent) -> Any:
    """An extent as an expression of int64."""
    return tirx.IntImm(WIDE, extent) if isinstance(extent, int) else extent
