"""Extents that a function's result has and none of its operands: where a slice or a fill gets its size.

TVM passes such an extent to a fused function as a number behind the result, by whose shape the function has
defined it by then, and refuses that. Numbers that are computed with, and are no operand's extents either, it
passes once for each function that takes them.
"""

from collections.abc import Iterable

import tvm
from tvm import relax, tirx

from relay_layout.lower.fusion.function_calls import function_calls
from relay_layout.lower.fusion.patterns import OPAQUE, with_pattern


def keep_introducing_apart(module: tvm.IRModule) -> tvm.IRModule:
    """Mark the calls of "main" that introduce an extent as none to be fused.

    Expects ``call_tir`` of functions with their patterns.
    """
    calls = function_calls(module["main"])
    apart = {variable: call for variable, call in calls.items() if _introduces(call)}
    return with_pattern(module, apart, OPAQUE)


def _introduces(call: relax.Call) -> bool:
    operands = call.args[1].fields
    numbers = [number for number in operands if isinstance(number.ty, tvm.ir.PrimType)]
    needed = _symbols(call.ty_args) | _within(numbers)
    return not needed <= _symbols([operand.ty for operand in operands])


def _symbols(kinds: Iterable[tvm.ir.Type]) -> set[tirx.Var]:
    return _within(extent for kind in kinds for extent in _extents(kind))


def _within(extents: Iterable[tvm.ir.Expr]) -> set[tirx.Var]:
    """The symbols that extents are made of."""
    symbolic = [extent for extent in extents if not isinstance(extent, tirx.IntImm)]
    return {symbol for extent in symbolic for symbol in tirx.analysis.undefined_vars(extent)}


def _extents(kind: tvm.ir.Type) -> list[tvm.ir.Expr]:
    if isinstance(kind, relax.TupleType):
        return [extent for field in kind.fields for extent in _extents(field)]
    shape = getattr(kind, "shape", None)
    return list(shape.values) if isinstance(shape, relax.ShapeExpr) else []


__all__ = ["keep_introducing_apart"]
