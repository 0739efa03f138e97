"""Extents that a function's result has and none of its operands: where a slice or a fill gets its size.

TVM passes such an extent to a fused function as a number behind the result, by whose shape the function has
defined it by then, and refuses that.
"""

from collections.abc import Iterable

import tvm
from tvm import relax, tirx

from relay_layout.ir import operator_name
from relay_layout.lower.patterns import OPAQUE, with_pattern


def keep_introducing_apart(module: tvm.IRModule) -> tvm.IRModule:
    """Mark the functions of "main" that introduce an extent as none to be fused.

    Expects ``call_tir`` of functions with their patterns.
    """
    apart = {
        binding.value.args[0]
        for block in module["main"].body.blocks
        for binding in block.bindings
        if operator_name(binding.value) == "call_tir" and _introduces(binding.value)
    }
    return with_pattern(module, apart, OPAQUE)


def _introduces(call: relax.Call) -> bool:
    operands = [operand.ty for operand in call.args[1].fields]
    return not _symbols(call.ty_args) <= _symbols(operands)


def _symbols(kinds: Iterable[tvm.ir.Type]) -> set[tirx.Var]:
    extents = [extent for kind in kinds for extent in _extents(kind) if not isinstance(extent, tirx.IntImm)]
    return {symbol for extent in extents for symbol in tirx.analysis.undefined_vars(extent)}


def _extents(kind: tvm.ir.Type) -> list[tvm.ir.Expr]:
    if isinstance(kind, relax.TupleType):
        return [extent for field in kind.fields for extent in _extents(field)]
    shape = getattr(kind, "shape", None)
    return list(shape.values) if isinstance(shape, relax.ShapeExpr) else []


__all__ = ["keep_introducing_apart"]
