"""Rows whose neighbours come from different rows: vectors of each of these, interleaved in registers.

Every second channel of a shuffle is of the other operand, every second pixel of an image of twice the size
of the same pixel, or of another channel; channels of three planes that become pixels lie as every third
element. Such a row is written ``count`` elements at a time, each of which
reads its neighbours where they lie side by side. :func:`topi_ext.codegen.interleave.interleave_stores` makes
one store of them once they are vectors.
"""

from typing import Any

from tvm import tirx
from tvm.s_tir import SBlock, Schedule

from topi_ext.extents import fixed, is_one
from topi_ext.ir import loads_of, nodes_of, stored_by, strides_along, substitute, uses
from topi_ext.machine.processor import Processor
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
        if has_reduction(func) or not (_divides(func.body) or _has_pixels(func.body)):
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
    if 1 < extent <= MOST_ROWS:
        return _pixels(block, extent)
    for count in _divisors(store.value, last):
        if count > MOST_ROWS or extent % count or extent // count < LEAST_VECTOR:
            continue
        row = tirx.IterVar(range_of(last, 0, extent // count), last, tirx.IterVar.DataPar)
        found = _loops(block, [*axes[:-1], row], [last * count + place for place in range(count)])
        if found is not None:
            return found
    return None


def _pixels(block: SBlock, count: int) -> Any | None:
    """The loops of a block whose rows are as short as the channels of a pixel: of vectors of pixels."""
    *axes, channel = block.iter_vars
    # Vectors lie along the last one.
    axes.sort(key=lambda axis: not is_one(axis.dom.extent))
    if not axes or (fixed(axes[-1].dom.extent) or 0) < LEAST_VECTOR:
        return None
    pixel, store = axes[-1].var, block.body
    indexed = zip(store.indices, store.buffer.shape, strict=True)
    *others, row, _ = [index for index, extent in indexed if not is_one(extent)]
    if not row.same_as(pixel) or any(uses(index, pixel) for index in others):
        return None
    return _loops(block, axes, [tirx.const(place, str(channel.var.ty)) for place in range(count)])


def _divides(body: Any) -> bool:
    """Whether there is any division, without which no row is cut."""
    return bool(nodes_of(body, (tirx.Div, tirx.FloorDiv, tirx.FloorMod)))


def _has_pixels(body: Any) -> bool:
    """Whether any result has rows as short as the channels of a pixel."""
    return any(
        1 < (fixed(buffer.shape[-1]) or 0) <= MOST_ROWS for buffer in stored_by(body) if len(buffer.shape) > 1
    )


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


def _loops(block: SBlock, axes: list[Any], places: list[Any]) -> Any | None:
    """Loops over ``axes`` of stores to ``places`` side by side, which are in the place of the last axis.

    Vectors lie along the last one of ``axes``. None where any of the stores is not of rows.
    """
    store, last = block.body, block.iter_vars[-1].var
    known = [axis for axis in axes if fixed(axis.dom.extent) is not None]
    variables, part = [axis.var for axis in known], [(0, fixed(axis.dom.extent) or 0) for axis in known]
    values = [simplified_in(substitute(store.value, {last: place}), variables, part) for place in places]
    if not all(_reads_rows(value, axes[-1].var) for value in values):
        return None
    stores = [
        tirx.BufferStore(store.buffer, value, [*store.indices[:-1], place])
        for value, place in zip(values, places, strict=True)
    ]
    return nest_of(axes, tirx.SeqStmt(stores), block.name_hint)[1]
