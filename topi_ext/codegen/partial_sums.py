"""Long sums in parts, each of which starts from zero.

When thousands of products are added to one register, each addition rounds to the precision of the whole sum.
Summed in parts, the error grows with the length of a part plus the number of parts instead (Higham, "The
Accuracy of Floating Point Summation", SIAM J. Sci. Comput. 14, 1993).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from tvm import tirx
from tvm.ir import TensorLoad
from tvm_ffi import structural_equal, structural_map, structural_walk

from topi_ext.codegen.passes import function_pass, replaced
from topi_ext.divisors import largest_divisor
from topi_ext.extents import as_int, fixed
from topi_ext.ir import VOLATILE, changed, loads_of, nodes_of, sequence, uses

PART = 256
"""The most additions in a part; adding up the totals then takes 1% of the time of a register tile."""

_LONGEST_WHOLE = 320
"""Sums of at most so many additions stay whole."""

_MOST_PLACES = 64
"""The most places that one loop adds to, about as many as there are registers."""

_DTYPE = "float32"


class _Place(NamedTuple):
    """Elements of a buffer that are accessed together: ``lanes`` of them, starting at an index."""

    buffer: Any
    index: Any
    lanes: int

    def load(self) -> Any:
        """The value at this place."""
        return tirx.BufferLoad(self.buffer, [self._indices()])

    def store(self, value: Any) -> tirx.BufferStore:
        """A statement that stores ``value`` here."""
        return tirx.BufferStore(self.buffer, value, [self._indices()])

    def clear(self) -> tirx.BufferStore:
        """A statement that stores zero here."""
        zero, lanes = tirx.const(0.0, _DTYPE), self.lanes * self.buffer.dtype.lanes
        return self.store(zero if lanes == 1 else tirx.Broadcast(zero, lanes))

    def _indices(self) -> Any:
        return self.index if self.lanes == 1 else tirx.Ramp(self.index, 1, self.lanes)


@function_pass
def sum_in_parts(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Split loops that add many float32 values to the same places into parts, whose sums are added to totals.

    For functions whose buffers are flat and whose register tiles are unrolled. The totals are kept in memory,
    as each is accessed only once per part.
    """
    reader = _Reader()
    loops = reader.read(func.body).loops
    if not loops:
        return func

    def on_loop(loop: tirx.For) -> Any:
        return _in_parts(loop, reader) if any(map(loop.same_as, loops)) else loop

    return replaced(func, (tirx.For, on_loop))


@dataclass
class _Sums:
    """What a statement does to float32 buffers."""

    added: Counter[_Place] = field(default_factory=Counter)
    """How often it adds to each place; a loop of unknown extent counts as one iteration."""

    stored: set[Any] = field(default_factory=set)
    """Memory that it writes to in any other way."""

    loops: list[tirx.For] = field(default_factory=list)
    """The outermost loops in it that are to be split into parts."""

    is_unbounded: bool = False
    """Does a loop that adds have a symbolic extent?"""

    @property
    def longest(self) -> int:
        """The most additions to one place."""
        return max(self.added.values(), default=0)

    @classmethod
    def of_all(cls, parts: Iterable["_Sums"]) -> "_Sums":
        """What several statements do, one after the other."""
        whole = cls()
        for part in parts:
            whole.added.update(part.added)
            whole.stored |= part.stored
            whole.loops += part.loops
            whole.is_unbounded |= part.is_unbounded
        return whole


def _parts(statement: Any) -> list[Any]:
    """The statements that one consists of, in the order in which they run."""
    if isinstance(statement, tirx.SeqStmt):
        return list(statement.seq)
    if isinstance(statement, tirx.IfThenElse):
        return [case for case in (statement.then_case, statement.else_case) if case is not None]
    return [statement.body] if isinstance(statement, tirx.For | tirx.AttrStmt) else []


class _Reader:
    """Reads a function's statements, and remembers which buffers share memory."""

    def __init__(self) -> None:
        self._views: dict[Any, Any] = {}
        # Loops that are split are read again, with everything in them.
        self._sums: dict[Any, _Sums] = {}

    def read(self, statement: Any) -> _Sums:
        """What a statement does to float32 buffers.

        Not by recursion: the checks of a function's arguments are nested, and there may be hundreds of them.
        """
        waiting = [] if statement in self._sums else [statement]
        while waiting:
            parts = [part for part in _parts(waiting[-1]) if part not in self._sums]
            if parts:
                waiting += reversed(parts)
            else:
                last = waiting.pop()
                self._sums[last] = self._read(last)
        return self._sums[statement]

    def _read(self, statement: Any) -> _Sums:
        if isinstance(statement, tirx.BufferStore):
            return self._store(statement)
        if isinstance(statement, tirx.For):
            return self._loop(statement)
        if isinstance(statement, tirx.DeclBuffer):
            viewed = nodes_of(statement.data, tirx.Var)
            if viewed:
                self._views[statement.buffer] = self._memory(viewed[0])
        return _Sums.of_all(self._sums[part] for part in _parts(statement))

    def _memory(self, buffer: Any) -> Any:
        """The buffer that owns the memory of a buffer: itself, or the one that it is a view of."""
        return self._views.get(buffer, buffer)

    def _store(self, store: tirx.BufferStore) -> _Sums:
        if not str(store.buffer.dtype).startswith(_DTYPE):
            return _Sums()
        place = _added_to(store)
        return _Sums(stored={self._memory(store.buffer)}) if place is None else _Sums(Counter([place]))

    def _loop(self, loop: tirx.For) -> _Sums:
        each = self._sums[loop.body]
        turns = fixed(loop.extent)
        places = [place for place in each.added if self._memory(place.buffer) not in each.stored]
        if loop.kind != tirx.ForKind.SERIAL or turns == 1:
            places = []
        added = Counter({place: each.added[place] * (turns or 1) for place in places})
        is_unbounded = bool(places) and (each.is_unbounded or turns is None)
        loops = each.loops
        if is_unbounded or max(added.values(), default=0) > _LONGEST_WHOLE:
            if self._only_adds(loop, places):
                loops = [loop]
            else:
                added.clear()
        others = {self._memory(place.buffer) for place in each.added if place not in added}
        return _Sums(added, each.stored | others, loops, is_unbounded and bool(added))

    def _only_adds(self, loop: tirx.For, places: Sequence[_Place]) -> bool:
        """Does a loop access the memory of these places only to add to them?"""
        memory = {self._memory(place.buffer): place.buffer for place in places}
        loads: list[Any] = []
        stores: list[Any] = []
        defined: list[Any] = [loop.loop_var]

        def on_load(load: TensorLoad) -> None:
            if self._memory(load.source) in memory:
                loads.append(load)

        def on_store(store: tirx.BufferStore) -> None:
            if self._memory(store.buffer) in memory:
                stores.append(store)

        structural_walk(
            loop.body,
            [
                (TensorLoad, on_load),
                (tirx.BufferStore, on_store),
                (tirx.For, lambda inner: defined.append(inner.loop_var)),
                (tirx.Bind, lambda bind: defined.append(bind.var)),
            ],
        )
        return (
            len(loads) == len(stores)
            and len(places) <= _MOST_PLACES
            and all(memory[self._memory(place.buffer)].same_as(place.buffer) for place in places)
            and all(_is_one(buffer, places, defined) for buffer in memory.values())
        )


def _is_one(buffer: Any, places: Sequence[_Place], defined: Sequence[Any]) -> bool:
    """Are the places in a buffer disjoint, and independent of what an iteration defines?

    What is loaded may be another value in each iteration, as the indices of a scatter are.
    """
    own = [place for place in places if place.buffer.same_as(buffer)]
    if len(own) == 1:
        (index,) = (place.index for place in own)
        return not loads_of(index) and not any(uses(index, variable) for variable in defined)
    starts = [fixed(place.index) for place in own]
    if None in starts:
        return False
    ordered = sorted((int(place.index), place.lanes) for place in own)
    return all(start + lanes <= after for (start, lanes), (after, _) in pairwise(ordered))


def _added_to(store: tirx.BufferStore) -> _Place | None:
    """The place to which a statement adds something; None if it does anything else."""
    if not isinstance(store.value, tirx.Add) or len(store.indices) != 1:
        return None
    loads = [side for side in (store.value.a, store.value.b) if isinstance(side, TensorLoad)]
    own = [load for load in loads if load.source.same_as(store.buffer)]
    if not any(structural_equal(load.indices, store.indices) for load in own):
        return None
    (index,) = store.indices
    if not isinstance(index, tirx.Ramp):
        return _Place(store.buffer, as_int(index), 1)
    lanes = fixed(index.lanes)
    return _Place(store.buffer, as_int(index.base), lanes) if lanes and fixed(index.stride) == 1 else None


def _in_parts(loop: tirx.For, reader: _Reader) -> tirx.SeqStmt:
    """The loop, which only adds to some places, split into parts whose sums are added to totals."""
    totals = _Totals(list(reader.read(loop).added))
    nest, guarded = _nest(loop, reader)
    divided = nest[-1]
    turns = fixed(divided.extent)
    each = reader.read(divided.body)
    # Of a number of turns that is known there have to be two parts.
    part = 1 if turns and each.is_unbounded else _turns_of_part(turns, each.longest)
    parts = (divided.extent + (part - 1)) // part if turns is None else -(-turns // part)
    number = tirx.Var(f"{divided.loop_var.name}_part", divided.loop_var.ty)
    start = divided.min + number * part
    rest = divided.min + divided.extent - start
    whole = turns and turns % part == 0
    inner = changed(divided, min=start, extent=part if whole else tirx.min(part, rest))
    if guarded or any(fixed(other.extent) is None for other in nest):
        before, after = totals.cleared, tirx.SeqStmt(totals.counted + totals.begun)
    else:
        around = [(outer.loop_var - outer.min, int(outer.extent)) for outer in nest[:-1]] + [(number, parts)]
        first = tirx.all(*(turn == 0 for turn, _ in around))
        last = tirx.all(*(turn == extent - 1 for turn, extent in around))
        counted = tirx.IfThenElse(first, sequence(totals.copied), sequence(totals.counted))
        before, after = [], tirx.IfThenElse(tirx.Not(last), tirx.SeqStmt([counted, *totals.begun]), None)
    in_parts = tirx.For(number, 0, parts, tirx.ForKind.SERIAL, tirx.SeqStmt([inner, after]))

    def on_loop(other: tirx.For) -> Any:
        return in_parts if other.same_as(divided) else other

    whole = structural_map(loop, (tirx.For, on_loop))
    return tirx.SeqStmt([*totals.allocated, *before, whole, *totals.added])


def _nest(loop: tirx.For, reader: _Reader) -> tuple[list[tirx.For], bool]:
    """The loops down to the one to split, and whether conditions between them skip iterations."""
    nest, guarded = [loop], False
    while (each := reader.read(nest[-1].body)).longest > PART or each.is_unbounded:
        inner, condition = _inner(nest[-1].body, reader)
        if inner is None:
            break
        nest.append(inner)
        guarded |= condition
    return nest, guarded


def _inner(statement: Any, reader: _Reader) -> tuple[tirx.For | None, bool]:
    """The only loop in a statement that adds, and whether a condition guards it."""
    if isinstance(statement, tirx.For):
        return statement, False
    if isinstance(statement, tirx.AttrStmt):
        return _inner(statement.body, reader)
    if isinstance(statement, tirx.IfThenElse) and statement.else_case is None:
        return _inner(statement.then_case, reader)[0], True
    if isinstance(statement, tirx.SeqStmt):
        adding = [each for each in statement.seq if reader.read(each).added]
        return _inner(adding[0], reader) if len(adding) == 1 else (None, False)
    return None, False


def _turns_of_part(turns: int | None, additions: int) -> int:
    """Iterations of a part, with ``additions`` in each: a divisor of ``turns`` if one is long enough."""
    most = max(1, PART // additions)
    if turns is None:
        return most
    even = largest_divisor(turns, most)
    return even if 2 * even > most else most


class _Totals:
    """Statements that act on some places and on the totals of what was added to them."""

    def __init__(self, places: Sequence[_Place]) -> None:
        totals = _totals_of(places)
        pairs = list(zip(places, totals, strict=True))
        # In registers, totals would take those of the sums.
        mark = {VOLATILE: tirx.const(1, "int32")}
        self.allocated = [
            tirx.AllocBuffer(buffer, mark) for buffer in dict.fromkeys(total.buffer for total in totals)
        ]
        self.cleared = [total.clear() for total in totals]
        self.copied = [total.store(place.load()) for place, total in pairs]
        self.counted = [total.store(total.load() + place.load()) for place, total in pairs]
        self.begun = [place.clear() for place in places]
        self.added = [place.store(total.load() + place.load()) for place, total in pairs]


def _totals_of(places: Sequence[_Place]) -> list[_Place]:
    """A place for the total of each place; those of one dtype lie side by side in one buffer."""
    widths: Counter[str] = Counter()
    starts = []
    for place in places:
        starts.append(widths[str(place.buffer.dtype)])
        widths[str(place.buffer.dtype)] += place.lanes
    buffers = {dtype: tirx.decl_buffer((width,), dtype, "totals") for dtype, width in widths.items()}
    return [
        _Place(buffers[str(place.buffer.dtype)], start, place.lanes)
        for place, start in zip(places, starts, strict=True)
    ]
