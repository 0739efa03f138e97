"""Operators of planned memory, as passes that change it meet them."""

from collections.abc import Iterable
from typing import Any

import tvm
from tvm import relax, tirx

from relay_layout.ir import Expression, Extent, as_extent, is_static, operator_name

STORAGE = "memory.alloc_storage"
TENSOR = "memory.alloc_tensor"
RESHAPE = "reshape"
POINTED = "memory.ensure_zero_offset"


def is_known(shape: Expression) -> bool:
    """Is a shape written out, in numbers?"""
    return isinstance(shape, relax.ShapeExpr) and is_static([as_extent(extent) for extent in shape.values])


def may_return_operand(value: Expression) -> bool:
    """May ``value`` return a tensor that goes into it, other than as an alias that :class:`.Aliases`
    knows?
    """
    if isinstance(value, relax.Tuple):
        return True
    if not isinstance(value, relax.Call) or operator_name(value) in (STORAGE, TENSOR, RESHAPE):
        return False
    kind = value.ty
    is_number = isinstance(kind, relax.ShapeType | tvm.ir.PrimType)
    return not is_number and not (isinstance(kind, relax.TupleType) and not kind.fields)


def symbols(kinds: Iterable[Any]) -> set[tirx.Var]:
    """The symbolic variables in the extents of tensor and shape types."""
    found: set[tirx.Var] = set()
    for kind in kinds:
        shape = getattr(kind, "shape", kind)
        for extent in getattr(shape, "values", None) or ():
            found |= symbols_of(as_extent(extent))
    return found


def definitions(function: relax.Function, bindings: Iterable[relax.Binding]) -> dict[tirx.Var, int]:
    """Symbolic extents, and the place of the binding that defines each; -1 for those of parameters."""
    found = dict.fromkeys(symbols(parameter.ty for parameter in function.params), -1)
    for place, binding in enumerate(bindings):
        if isinstance(binding, relax.MatchCast):
            for symbol in symbols([binding.ty]):
                found.setdefault(symbol, place)
    return found


def symbols_of(extent: Extent) -> set[tirx.Var]:
    """The symbolic variables of an extent."""
    return set() if isinstance(extent, int) else set(tirx.analysis.undefined_vars(extent))
