"""Index-set splitting: a loop nest for each range of an axis over which a condition on the index is constant.

A concatenation, and any function that one is inlined into, selects an operand for every element by comparing
its index with constants. A vector across such an edge evaluates both operands under masks, and the cost of
one operand counts for all elements. Split at the edges, each part is a function without these conditions,
which the other rules schedule: as a transpose, for instance, if it is one.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from tvm import tirx
from tvm.s_tir import SBlock, Schedule

from topi_ext.extents import fixed
from topi_ext.ir import holds, loads_of, substitute, uses
from topi_ext.machine.processor import Processor
from topi_ext.schedule.blocks import child_blocks, open_schedule, temporaries
from topi_ext.schedule.conditionals import Part, conditionals, range_of, simplified_in
from topi_ext.schedule.cpu.interleaved import Interleaved
from topi_ext.schedule.cpu.loops import LoopNest
from topi_ext.schedule.cpu.rows import Rows
from topi_ext.schedule.cpu.rule import ProcessorRule
from topi_ext.schedule.cpu.transpose import Transpose
from topi_ext.schedule.inlining import inlined
from topi_ext.schedule.nests import is_plain, nest_of, with_nests

MOST_PARTS = 16
"""Most loop nests that one function may be split into."""

SHORTEST_ROW = 4
"""Least extent of the innermost axis of a part."""

LONG_ROW = 80
"""Elements of a row from which on shorter parts of it cost nothing beside the rest."""

LONG_PART = 8
"""Elements of one tensor in a row from which on shorter parts, of another one, cost less than a choice."""


class IndexSplitting(ProcessorRule):
    """Functions whose result depends on comparisons of indices with constants, such as concatenations."""

    def schedule(self, func: tirx.PrimFunc, processor: Processor) -> Schedule | None:
        """None for other functions, and where parts would read a common intermediate tensor."""
        if not conditionals(func.body):
            return None
        sch = open_schedule(inlined(func))
        left = child_blocks(sch)
        if not all(sch.get_loops(block) for block in left):
            return None
        nests = [_Nest(sch.get(block), sch.get(sch.get_loops(block)[0])) for block in left]
        kept = temporaries(sch)
        ahead = [nest for nest in nests if holds(kept, nest.written[0])]
        results = [nest for nest in nests if nest not in ahead]
        parts = [part for nest in results for part in nest.parts()]
        if not len(results) < len(parts) <= MOST_PARTS:
            return None
        needed = [_needed(ahead, part) for part in parts]
        if sorted(map(id, chain(*needed))) != sorted(map(id, ahead)):
            return None
        functions = [_function(func, [*before, part]) for before, part in zip(needed, parts, strict=True)]
        return open_schedule(_with_body(func, [_scheduled(function, processor) for function in functions]))


class _Nest:
    """The loops of a block, and the buffers that are ``written``."""

    def __init__(self, block: SBlock, loops: Any) -> None:
        self.block, self.loops = block, loops
        self.written = [region.source for region in block.writes]
        self.loads = [
            load for body in (block.body, block.init) if body is not None for load in loads_of(body)
        ]

    def parts(self) -> list["_Nest"]:
        """The nests that compute the same without these conditions; itself where there are none."""
        block, axes = self.block, self.block.iter_vars
        extents = [fixed(axis.dom.extent) for axis in axes]
        if not is_plain(block) or not isinstance(block.body, tirx.BufferStore) or None in extents:
            return [self]
        whole = [(0, extent) for extent in extents if extent is not None]
        found = _parts(block.body.value, [axis.var for axis in axes], whole)
        if len(found) == 1:
            return [self]
        return [_part(block, part, value, place) for place, (part, value) in enumerate(found)]


def _needed(ahead: Sequence[_Nest], part: _Nest) -> list[_Nest]:
    """The nests of ``ahead``, in their order, whose results ``part`` reads, directly or through others."""
    found: list[_Nest] = []
    for nest in reversed(ahead):
        if any(holds(nest.written, load.source) for reader in (part, *found) for load in reader.loads):
            found.insert(0, nest)
    return found


def _parts(value: Any, variables: Sequence[tirx.Var], whole: Part) -> list[tuple[Part, Any]]:
    """The parts of ``whole`` in order, each with ``value`` simplified in it to have no conditional.

    If these would be more than ``MOST_PARTS``, more than that many are returned, not all of them simplified.
    """
    done: list[tuple[Part, Any]] = []
    left = [(whole, value)]
    while left and len(done) + len(left) <= MOST_PARTS:
        part, value = left.pop()
        value = simplified_in(value, variables, part)
        cut = _first_cut(value, variables, part)
        if cut is None:
            done.append((part, value))
            continue
        axis, place = cut
        begin, end = part[axis]
        below, above = list(part), list(part)
        below[axis], above[axis] = (begin, place), (place, end)
        left += [(above, value), (below, value)]
    return [*done, *reversed(left)]


def _first_cut(value: Any, variables: Sequence[tirx.Var], part: Part) -> tuple[int, int] | None:
    """The axis, and the index on it, at which the condition of a conditional changes; None without one."""
    # Outer conditionals first.
    for call in reversed(conditionals(value)):
        if isinstance(call.args[0], tirx.And) and uses(call.args[0], variables[-1]):
            # One mask of a vector for all of it costs less than parts that are shorter than a line.
            continue
        # Of two tensors both would be read for all of a row.
        two = all(map(loads_of, call.args[1:]))
        for chosen_by, place in _edges(call.args[0]):
            for axis, variable in enumerate(variables):
                begin, end = part[axis]
                long = end - begin >= LONG_ROW or (two and max(place - begin, end - place) >= LONG_PART)
                least = 1 if long or axis < len(part) - 1 else SHORTEST_ROW
                if variable.same_as(chosen_by) and begin + least <= place <= end - least:
                    return axis, place
    return None


def _edges(condition: Any) -> list[tuple[tirx.Var, int]]:
    """The variables of comparisons with constants, each with the values from which on an outcome changes."""
    if isinstance(condition, tirx.And):
        return [*_edges(condition.a), *_edges(condition.b)]
    if not isinstance(condition, tirx.LE | tirx.LT | tirx.EQ):
        return []
    left, right = condition.a, condition.b
    turned = isinstance(left, tirx.IntImm)
    number, variable = (left, right) if turned else (right, left)
    if not isinstance(number, tirx.IntImm) or not isinstance(variable, tirx.Var):
        return []
    # "2 <= x" and "x < 2" change at 2, "x <= 2" and "2 < x" at 3, "x == 2" at both.
    exact, behind = (variable, int(number)), (variable, int(number) + 1)
    if isinstance(condition, tirx.EQ):
        return [exact, behind]
    return [exact if turned == isinstance(condition, tirx.LE) else behind]


def _part(block: SBlock, part: Part, value: Any, place: int) -> _Nest:
    """The loop nest of one part, with axes that start from 0."""
    moved, axes = {}, []
    for axis, (begin, end) in zip(block.iter_vars, part, strict=True):
        variable = tirx.Var(axis.var.name, axis.var.ty)
        moved[axis.var] = variable + begin if begin else variable
        axes.append(tirx.IterVar(range_of(variable, 0, end - begin), variable, tirx.IterVar.DataPar))
    extents = [(0, end - begin) for begin, end in part]
    store = block.body
    indices = [substitute(index, moved) for index in store.indices]
    inside = simplified_in(substitute(value, moved), [axis.var for axis in axes], extents)
    body = tirx.BufferStore(store.buffer, inside, indices)
    return _Nest(*nest_of(axes, body, f"{block.name_hint}_part{place}"))


def _function(func: tirx.PrimFunc, nests: Sequence[_Nest]) -> tirx.PrimFunc:
    """``func`` with these nests alone as its body."""
    kept = [
        buffer
        for buffer in func.body.block.alloc_buffers
        if any(holds(nest.written, buffer) for nest in nests)
    ]
    return _with_body(func, [SBlock([], [], [], "", nest.loops) for nest in nests], kept)


def _with_body(func: tirx.PrimFunc, roots: Sequence[SBlock], allocated: Sequence[Any] = ()) -> tirx.PrimFunc:
    """``func`` with the bodies of the root blocks ``roots`` one after the other as its body."""
    temporaries = [*allocated, *(buffer for root in roots for buffer in root.alloc_buffers)]
    return with_nests(func, [root.body for root in roots], temporaries)


def _scheduled(func: tirx.PrimFunc, processor: Processor) -> SBlock:
    """The root block of a part's function, as scheduled by the first rule that takes it."""
    for rule in (Rows(), Transpose(), Interleaved(), LoopNest()):
        sch = rule.schedule(func, processor)
        if sch is not None:
            return sch.mod["main"].body.block
    raise RuntimeError("no rule takes a part of a split function")
