"""Partial vectors: the valid lanes of the last vector along an axis are stored as one shorter vector.

A condition on each lane would turn the vector into scalars. The last vector always has the same number of
valid lanes, so that one condition on the whole vector selects between two lengths.
"""

from typing import Any

from tvm import tirx
from tvm.s_tir import SBlockRealize

from topi_ext.ir import changed, conjunction, conjuncts, substitute, uses, with_loops
from topi_ext.schedule.overlap import PADDED_LANES


def apply_partial_vectors(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Rewrite the vectorised loops around blocks that are annotated with :data:`PADDED_LANES`."""

    def on_loop(loop: tirx.For) -> Any:
        realize = loop.body
        if loop.kind != tirx.ForKind.VECTORIZED or not isinstance(realize, SBlockRealize):
            return loop
        if PADDED_LANES not in realize.block.annotations:
            return loop
        conditions = conjuncts(realize.predicate)
        trimmed = next((condition for condition in conditions if uses(condition, loop.loop_var)), None)
        if trimmed is None:
            return loop
        others = [condition for condition in conditions if condition is not trimmed]
        last = {loop.loop_var: loop.extent - 1}
        whole = shortened(loop, loop.extent, others)
        left = shortened(loop, trimmed.b % loop.extent, others)
        return tirx.IfThenElse(tirx.likely(substitute(trimmed, last)), whole, left)

    return with_loops(func, on_loop)


def shortened(loop: tirx.For, lanes: Any, conditions: list[Any]) -> Any:
    """The vectorized loop around a block with so many lanes; the block alone for one lane."""
    realize = loop.body
    values = realize.iter_values
    if int(lanes) == 1:
        values = [substitute(value, {loop.loop_var: loop.min}) for value in values]
    body = SBlockRealize(values, conjunction(conditions), realize.block)
    if int(lanes) == 1:
        return body
    return changed(loop, extent=lanes, body=body)
