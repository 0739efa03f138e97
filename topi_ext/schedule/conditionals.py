"""Conditional values: ``if_then_else`` in what an element of a result is computed from."""

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import Range
from tvm_ffi import structural_map

from topi_ext.extents import fixed
from topi_ext.ir import IF_THEN_ELSE, nodes_of

Part = list[tuple[int, int]]
"""A box of an index space: (begin, end) along each axis, the end excluded."""


def conditionals(body: Any) -> list[Any]:
    """The ``if_then_else`` calls in a statement or an expression, inner ones first."""
    return [call for call in nodes_of(body, tvm.ir.Call) if call.op.name == IF_THEN_ELSE]


def simplified_in(value: Any, variables: Sequence[tirx.Var], part: Part) -> Any:
    """``value`` with divisions, comparisons and conditionals simplified, where ``variables`` are in
    ``part``.
    """
    analyzer = tvm.sym.Analyzer()
    for variable, (begin, end) in zip(variables, part, strict=True):
        analyzer.bind(variable, range_of(variable, begin, end))
    plain = (tirx.FloorDiv, tirx.FloorMod, tirx.LT, tirx.LE, tirx.EQ, tirx.And)
    return structural_map(value, [(plain, analyzer.simplify), (tvm.ir.Call, _decided)])


def without_settled(value: Any) -> Any:
    """``value`` with the outcome in the place of each comparison of two numbers, and of what depends on it
    alone: inlining leaves some behind, as where it is known which of two tensors an element comes from.
    """
    return structural_map(
        value,
        [
            ((tirx.LT, tirx.LE, tirx.EQ), _outcome),
            (tirx.Select, lambda node: _chosen(node, node.condition, node.true_value, node.false_value)),
            (tvm.ir.Call, _decided),
        ],
    )


def _outcome(comparison: Any) -> Any:
    if fixed(comparison.a) is None or fixed(comparison.b) is None:
        return comparison
    return tvm.sym.Analyzer().simplify(comparison)


def _decided(call: tvm.ir.Call) -> Any:
    return _chosen(call, *call.args) if call.op.name == IF_THEN_ELSE else call


def _chosen(conditional: Any, condition: Any, positive: Any, negative: Any) -> Any:
    settled = fixed(condition)
    return conditional if settled is None else positive if settled else negative


def range_of(variable: tirx.Var, begin: int, end: int) -> Range:
    """The range from ``begin`` to ``end``, which is excluded, in the dtype of ``variable``."""
    first, last = (tirx.IntImm(str(variable.ty), number) for number in (begin, end))
    return Range(first, last)
