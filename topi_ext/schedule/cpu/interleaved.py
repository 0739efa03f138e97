"""Rows whose neighbours come from different rows: vectors of each of these, interleaved in registers.

Every second channel of a shuffle is of the other operand, every second pixel of an image of twice the size
of the same pixel, or of another channel. Such a row is written ``count`` elements at a time, each of which
reads its neighbours where they lie side by side. :func:`topi_ext.codegen.interleave.interleave_stores` makes
one store of them once they are vectors.
"""

from typing import Any

from tvm import tirx
from tvm.s_tir import SBlock, Schedule

from topi_ext.extents import fixed
from topi_ext.ir import loads_of, nodes_of, strides_along, substitute, uses
from topi_ext.processor import Processor
from topi_ext.schedule.blocks import child_blocks, has_reduction, open_schedule, simplified
from topi_ext.schedule.conditionals import conditionals, range_of, simplified_in
from topi_ext.schedule.cpu.loops import LEAST_VECTOR, LoopNest
from topi_ext.schedule.cpu.rule import ProcessorRule
from topi_ext.schedule.inlining import inlined
from topi_ext.schedule.nests import is_plain, nest_of, with_nests

MOST_ROWS = 4
"""Rows of which one is made."""


class Interleaved(ProcessorRule):
    """Functions of single elements, of which neighbours in a result are of different rows."""

    def schedule(self, func: tirx.PrimFunc, processor: Processor) -> Schedule | None:
        """None for all others."""
        if not _divides(func.body) or has_reduction(func):
            return None
        sch = open_schedule(simplified(inlined(func)))
        if not all(sch.get_loops(block) for block in child_blocks(sch)):
            return None
        nests = [(sch.get(block), sch.get(sch.get_loops(block)[0])) for block in child_blocks(sch)]
        found = [_interleaved(block) for block, _ in nests]
        if not any(found):
            return None
        loops = [new or old for new, (_, old) in zip(found, nests, strict=True)]
        return LoopNest().schedule(with_nests(sch.mod["main"], loops), processor)


def _interleaved(block: SBlock) -> Any | None:
    """The loops of a block that writes several elements of a row at once; None where that gains nothing."""
    axes, store = list(block.iter_vars), block.body
    if not isinstance(store, tirx.BufferStore) or not is_plain(block):
        return None
    last = axes[-1].var
    extent = fixed(axes[-1].dom.extent)
    if extent is None or not store.indices[-1].same_as(last):
        return None
    if strides_along(store, last):
        return None
    known = [axis for axis in axes if fixed(axis.dom.extent) is not None]
    variables = [axis.var for axis in known]
    for count in _divisors(store.value, last):
        if count > MOST_ROWS or extent % count or extent // count < LEAST_VECTOR:
            continue
        part = [(0, fixed(axis.dom.extent) or 0) for axis in known[:-1]]
        part.append((0, extent // count))
        values = [
            simplified_in(substitute(store.value, {last: last * count + place}), variables, part)
            for place in range(count)
        ]
        if all(_reads_rows(value, last) for value in values):
            return _loops(block, values)
    return None


def _divides(body: Any) -> bool:
    """Whether there is any division, without which no row is cut."""
    return bool(nodes_of(body, (tirx.Div, tirx.FloorDiv, tirx.FloorMod)))


def _divisors(value: Any, variable: tirx.Var) -> list[int]:
    """What indices divide a variable by, alone or after something is added to it."""
    found = nodes_of(value, (tirx.FloorDiv, tirx.FloorMod))
    numbers = {fixed(node.b) for node in found if uses(node.a, variable)}
    return sorted(number for number in numbers if number is not None and number > 1)


def _reads_rows(value: Any, variable: tirx.Var) -> bool:
    """Whether neighbours along ``variable`` are read side by side, all of them from the same rows."""
    if any(uses(choice.args[0], variable) for choice in conditionals(value)):
        return False
    return all(
        not strides_along(load, variable)
        and (not uses(load.indices[-1], variable) or _follows(load.indices[-1], variable))
        for load in loads_of(value)
        if load.indices
    )


def _follows(index: Any, variable: tirx.Var) -> bool:
    """Whether an index is ``variable`` and something that does not depend on it."""
    if isinstance(index, tirx.Add | tirx.Sub):
        left, right = index.a, index.b
        if uses(left, variable):
            return not uses(right, variable) and _follows(left, variable)
        return isinstance(index, tirx.Add) and _follows(right, variable)
    return bool(index.same_as(variable))


def _loops(block: SBlock, values: list[Any]) -> Any:
    """Loops over all axes of a block but with a last one that is shorter, for ``values`` side by side."""
    count, store, last = len(values), block.body, block.iter_vars[-1]
    extent = (fixed(last.dom.extent) or 0) // count
    axes = [
        *block.iter_vars[:-1],
        tirx.IterVar(range_of(last.var, 0, extent), last.var, tirx.IterVar.DataPar),
    ]
    body = tirx.SeqStmt(
        [
            tirx.BufferStore(store.buffer, value, [*store.indices[:-1], last.var * count + place])
            for place, value in enumerate(values)
        ]
    )
    return nest_of(axes, body, store.buffer, block.name_hint)[1]
