"""What an element of a result is computed from, where that depends on its place."""

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import Range
from tvm_ffi import structural_map

from topi_ext.ir import IF_THEN_ELSE, nodes_of

Part = list[tuple[int, int]]
"""Where a part of a tensor begins and ends along every axis."""


def choices(body: Any) -> list[Any]:
    """The choices of a statement or an expression, inner ones first."""
    return [call for call in nodes_of(body, tvm.ir.Call) if call.op.name == IF_THEN_ELSE]


def within(value: Any, variables: Sequence[tirx.Var], part: Part) -> Any:
    """``value`` without the divisions and the choices that the extents of ``part`` decide."""
    analyzer = tvm.sym.Analyzer()
    for variable, (begin, end) in zip(variables, part, strict=True):
        analyzer.bind(variable, range_of(variable, begin, end))

    def either(call: tvm.ir.Call) -> Any:
        if call.op.name != IF_THEN_ELSE or not isinstance(call.args[0], tirx.IntImm):
            return call
        return call.args[1] if int(call.args[0]) else call.args[2]

    plain = (tirx.FloorDiv, tirx.FloorMod, tirx.LT, tirx.LE, tirx.EQ)
    return structural_map(value, [(plain, analyzer.simplify), (tvm.ir.Call, either)])


def range_of(variable: tirx.Var, begin: int, end: int) -> Range:
    """The numbers from ``begin`` to before ``end``, as what ``variable`` may be."""
    first, last = (tirx.IntImm(str(variable.ty), number) for number in (begin, end))
    return Range(first, last)


__all__ = ["Part", "choices", "range_of", "within"]
