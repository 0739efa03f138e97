"""Symbolic extents of a result that no operand has, such as the size of a slice or of a ``full``.

``FuseTIR`` passes such an extent to a fused function as a scalar parameter after the result, whose shape has
defined the same variable already, and then fails. Scalar parameters that are no extent of an operand it
passes once for each fused function that takes them.
"""

from collections.abc import Iterable

import tvm
from tvm import relax, tirx

from relay_layout.lower.fusion.function_calls import function_calls
from relay_layout.lower.fusion.patterns import OPAQUE, with_pattern


def prevent_fusion_of_new_extents(module: tvm.IRModule) -> tvm.IRModule:
    """Mark the calls of "main" whose result has a new symbolic extent as opaque, so that they are not fused.

    Expects ``call_tir`` of functions with their patterns.
    """
    calls = function_calls(module["main"])
    introducing = {variable: call for variable, call in calls.items() if _introduces(call)}
    return with_pattern(module, introducing, OPAQUE)


def _introduces(call: relax.Call) -> bool:
    operands = call.args[1].fields
    numbers = [number for number in operands if isinstance(number.ty, tvm.ir.PrimType)]
    needed = _symbols(call.ty_args) | _within(numbers)
    return not needed <= _symbols([operand.ty for operand in operands])


def _symbols(kinds: Iterable[tvm.ir.Type]) -> set[tirx.Var]:
    return _within(extent for kind in kinds for extent in _extents(kind))


def _within(extents: Iterable[tvm.ir.Expr]) -> set[tirx.Var]:
    """The symbolic variables in ``extents``."""
    symbolic = [extent for extent in extents if not isinstance(extent, tirx.IntImm)]
    return {symbol for extent in symbolic for symbol in tirx.analysis.undefined_vars(extent)}


def _extents(kind: tvm.ir.Type) -> list[tvm.ir.Expr]:
    if isinstance(kind, relax.TupleType):
        return [extent for field in kind.fields for extent in _extents(field)]
    shape = getattr(kind, "shape", None)
    return list(shape.values) if isinstance(shape, relax.ShapeExpr) else []
