"""Loops and branches that are taken as the data say: bodies are functions of their own.

What a body carries is found by reading it more than once: a value that a trip leaves as it is belongs to the
function around, one that changes is a tensor, and of its extents those that change are open.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from tvm import relax, tirx

from relay_layout.bodies import BRANCH, JOIN, OTHERWISE, STATES, STEP, join_name
from relay_layout.frontend.body_building import Bodies, Body
from relay_layout.frontend.extents.arithmetic import same
from relay_layout.frontend.identifiers import identifier
from relay_layout.frontend.values import (
    TensorSequence,
    Unsupported,
    Value,
    described,
    dtype_of,
    extents,
    same_value,
    shape_of,
    written_type,
)
from relay_layout.ir import Extent, as_extent, erased

_NUMBER = relax.TensorType([], "int64")
_ALIVE = relax.TensorType([], "bool")


class Writer(Protocol):
    """What takes the expressions around a loop or a choice, which ``label`` names."""

    @property
    def label(self) -> str: ...

    @property
    def builder(self) -> Any: ...

    def expression(self, value: Value) -> Any:
        """Any tensor value as a Relax expression."""
        ...

    def emit(self, expression: Any, part: str = "") -> Any:
        """Bind an expression to a variable, ``part`` of its name."""
        ...


@dataclass(frozen=True)
class Trip:
    """What one trip gives: whether another follows, what is carried on, and a row for each collection."""

    goes_on: Value
    carried: Sequence[Value]
    rows: Sequence[Value]


Step = Callable[[Any, Sequence[Value]], Trip]
"""A trip, from its number, an int64 without dimensions, and what is carried into it."""


@dataclass(frozen=True)
class Limit:
    """How many trips there are at most: a tensor of one int64 without dimensions, and an extent if known."""

    number: Any
    extent: Extent | None = None


def run_loop(
    node: Writer, bodies: Bodies, carried: Sequence[Value], step: Step, limit: Limit | None, alive: Value
) -> tuple[list[Value], list[Value]]:
    """What is carried after the last trip, and the rows of all trips, stacked along a first axis.

    ``alive`` says whether there is a first trip: True, or a tensor of one bool without dimensions.
    Unsupported where what is carried changes its rank or its element type.
    """
    name = bodies.name(identifier(f"{node.label}_loop"))
    loop = _Loop(node, bodies, carried, name)
    trip, body = loop.settled(step, limit)
    captured = body.captured()
    states = [kind for kind in loop.kinds if kind is not None]
    if limit is None and isinstance(trip.goes_on, np.ndarray) and trip.goes_on.item():
        raise Unsupported("goes on for ever, once it has begun: give it a number of trips or a condition")
    results = list(body.result.ty.fields)
    rows = results[2 + len(states) :]
    bodies.add(name, STEP, body, captured, {STATES: len(states)})
    known = frozenset([*captured[1], *_symbols(carried)])
    if limit is not None and limit.extent is not None:
        known |= frozenset(tirx.analysis.undefined_vars(limit.extent))
    endless = isinstance(alive, np.ndarray) and isinstance(trip.goes_on, np.ndarray)
    count = limit.extent if endless and limit is not None and limit.extent is not None else None
    if rows:
        _add_join(bodies, join_name(name), rows)
        if count is None:
            most = None if limit is None else limit.extent
            count = bodies.counts.opened(identifier(f"{name}_trips"), most)
    found = [
        *(_outside(bodies, kind, known, f"{name}_state_{place}") for place, kind in enumerate(states)),
        *(_outside(bodies, kind, known, f"{name}_row_{place}", [count]) for place, kind in enumerate(rows)),
    ]
    empty = [
        node.emit(relax.op.zeros(_empty(kind, known), kind.dtype), "none") for kind in found[len(states) :]
    ]
    given = [value for value, kind in zip(carried, loop.kinds, strict=True) if kind is not None]
    arguments = [
        _first(node, limit, alive),
        *empty,
        relax.const(0, "int64"),
        *map(node.expression, given),
        *bodies.arguments(captured),
    ]
    outcome = _called(node, name, arguments, [_ALIVE, _NUMBER, *found], known)
    changed, collected = iter(outcome[2 : 2 + len(states)]), outcome[2 + len(states) :]
    left = [value if kind is None else next(changed) for value, kind in zip(carried, loop.kinds, strict=True)]
    return left, collected


def run_scan(
    node: Writer,
    bodies: Bodies,
    carried: Sequence[Value],
    step: Callable[[Any, Sequence[Value]], tuple[Sequence[Value], Sequence[Value]]],
    trips: Extent,
) -> tuple[list[Value], list[Value]]:
    """What :func:`run_loop` gives of ``trips`` trips: steps of a trip's number and what is carried into it.

    ``step`` gives what is carried on, and a row for each collection.
    """
    number = node.expression(extents(trips))
    number = node.emit(number, "trips") if isinstance(number, relax.Call) else number

    def trip(place: Any, states: Sequence[Value]) -> Trip:
        return Trip(np.array(True), *step(place, states))

    return run_loop(node, bodies, carried, trip, Limit(number, trips), np.array(True))


def run_branch(
    node: Writer, bodies: Bodies, condition: Any, sides: Sequence[Callable[[], Sequence[Value]]]
) -> list[Value]:
    """What the first of two ``sides`` gives where ``condition``, one bool, holds, and else the second.

    Unsupported where they differ in rank or element type.
    """
    name = bodies.name(identifier(f"{node.label}_choice"))
    ended: list[Body] = []
    for side in sides:
        with bodies.inside([]) as body:
            values = [_tensor(node, value, "gives") for value in side()]
            body.result = bodies.give(values)
        ended.append(body)
    both = [each.captured() for each in ended]
    captured = (
        list(dict.fromkeys([*both[0][0], *both[1][0]])),
        list(dict.fromkeys([*both[0][1], *both[1][1]])),
    )
    other = f"{name}_otherwise"
    bodies.add(name, BRANCH, ended[0], captured, {OTHERWISE: other})
    bodies.add(other, BRANCH, ended[1], captured)
    known = frozenset(captured[1])
    found = []
    for place, (one, two) in enumerate(zip(*(each.result.ty.fields for each in ended), strict=True)):
        if one.dtype != two.dtype or one.ndim != two.ndim:
            raise Unsupported(
                f"chooses at run time between {_written(one)} and {_written(two)}, which is not supported: "
                "let both branches give the same rank and element type"
            )
        shape = [
            left if same(left, right) and _is_known(left, known) else None
            for left, right in zip(_shape(one), _shape(two), strict=True)
        ]
        label = identifier(f"{name}_{place}")
        found.append(relax.TensorType(_opened(bodies, shape, label), one.dtype))
    return _called(node, name, [condition, *bodies.arguments(captured)], found, known)


class _Loop:
    """What a loop carries, as far as it is known: ``kinds`` has a type for each value that changes."""

    def __init__(self, node: Writer, bodies: Bodies, carried: Sequence[Value], name: str) -> None:
        self.kinds: list[Any] = [None] * len(carried)
        self._open: set[tirx.Var] = set()
        self._node = node
        self._bodies = bodies
        self._carried = carried
        self._name = name

    def settled(self, step: Step, limit: Limit | None) -> tuple[Trip, Body]:
        """A trip that leaves what is carried as it was told to be, and its function."""
        node = self._node
        while True:
            number = relax.Var("number", _NUMBER)
            states = [
                None if kind is None else relax.Var(f"state_{place}", kind)
                for place, kind in enumerate(self.kinds)
            ]
            own = [state for state in states if state is not None]
            with self._bodies.inside([number, *own]) as body:
                given = [
                    value if state is None else state
                    for value, state in zip(self._carried, states, strict=True)
                ]
                trip = step(number, given)
                if self._widened(given, trip.carried):
                    continue
                following = node.emit(relax.op.add(number, relax.const(1, "int64")), "following")
                changed = [
                    node.expression(value)
                    for value, state in zip(trip.carried, states, strict=True)
                    if state is not None
                ]
                rows = [
                    node.emit(relax.op.expand_dims(_tensor(node, row, "collects"), 0), "row")
                    for row in trip.rows
                ]
                alive = _alive(node, trip.goes_on, following, limit)
                body.result = self._bodies.give([alive, following, *map(_bound(node), [*changed, *rows])])
            return trip, body

    def _widened(self, given: Sequence[Value], left: Sequence[Value]) -> bool:
        """Whether a trip leaves other kinds of values than those that it was given; they are noted."""
        widened = False
        for place, (before, after) in enumerate(zip(given, left, strict=True)):
            if same_value(before, after):
                continue
            if self.kinds[place] is None:
                before = _tensor(self._node, before, "carries")
                self.kinds[place] = relax.TensorType(shape_of(before), dtype_of(before))
                widened = True
            kind = self.kinds[place]
            after = _tensor(self._node, after, "carries")
            shape, result = _shape(kind), shape_of(after)
            if dtype_of(after) != kind.dtype or len(result) != len(shape):
                raise Unsupported(
                    f"carries {_written(kind)} into a trip that leaves {described(after)}, "
                    "which is not supported: let each trip leave tensors of the rank and type that it takes"
                )
            kept = [
                old if same(old, new) or old in self._open else None
                for old, new in zip(shape, result, strict=True)
            ]
            if None in kept:
                widest = _opened(self._bodies, kept, identifier(f"{self._name}_carried_{place}"))
                self._open |= {extent for extent, old in zip(widest, kept, strict=True) if old is None}
                self.kinds[place] = relax.TensorType(widest, kind.dtype)
                widened = True
        return widened


def _tensor(node: Writer, value: Value, does: str) -> Any:
    """A value as a tensor that a body can take or give."""
    if value is None or isinstance(value, TensorSequence):
        what = "an optional value" if value is None else "a sequence"
        raise Unsupported(
            f"{does} {what} where the data say how often it runs, which is not supported: use a tensor"
        )
    return _bound(node)(node.expression(value))


def _bound(node: Writer) -> Callable[[Any], Any]:
    return lambda value: node.emit(value) if isinstance(value, relax.Call) else value


def _alive(node: Writer, goes_on: Value, following: Any, limit: Limit | None) -> Any:
    """Whether a trip of the number ``following`` is due."""
    due = None if isinstance(goes_on, np.ndarray) and goes_on.item() else node.expression(goes_on)
    if due is not None:
        due = node.emit(relax.op.reshape(due, []), "due") if len(shape_of(due)) else due
    if limit is None:
        return relax.const(True) if due is None else _bound(node)(due)
    within = node.emit(relax.op.less(following, limit.number), "within")
    return within if due is None else node.emit(relax.op.logical_and(due, within), "alive")


def _first(node: Writer, limit: Limit | None, alive: Value) -> Any:
    return _alive(node, alive, relax.const(0, "int64"), limit)


def _called(node: Writer, name: str, arguments: Sequence[Any], kinds: Sequence[Any], known: Any) -> list[Any]:
    """The tensors that a loop or a choice gives, which have the types ``kinds``."""
    promised = [
        kind if all(_is_known(extent, known) for extent in _shape(kind)) else erased(kind) for kind in kinds
    ]
    call = relax.op.call_pure_packed(relax.ExternFunc(name), *arguments, ty_args=[relax.TupleType(promised)])
    outcome = node.builder.emit(call, name_hint=name)
    results = []
    for place, (kind, given) in enumerate(zip(kinds, promised, strict=True)):
        value = node.builder.emit(relax.TupleGetItem(outcome, place), name_hint=f"{name}_{place}")
        results.append(value if kind is given else node.builder.match_cast(value, kind, f"{name}_{place}"))
    return results


def _add_join(bodies: Bodies, name: str, rows: Sequence[Any]) -> None:
    """Keep a body that puts the rows of some trips before those of others."""
    counts = [bodies.counts.opened(f"rows_{place}") for place in range(2)]
    before: list[relax.Var] = []
    after: list[relax.Var] = []
    for place, kind in enumerate(rows):
        shape = _opened(
            bodies,
            [extent if isinstance(extent, int) else None for extent in _shape(kind)[1:]],
            f"extent_{place}",
        )
        for which, (count, found) in enumerate(zip(counts, (before, after), strict=True)):
            found.append(relax.Var(f"rows_{which}_{place}", relax.TensorType([count, *shape], kind.dtype)))
    with bodies.inside([*before, *after]) as body:
        whole = [
            bodies.builder.emit(relax.op.concat([one, two], axis=0))
            for one, two in zip(before, after, strict=True)
        ]
        body.result = bodies.give(whole)
    bodies.add(name, JOIN, body, ([], []))


def _outside(
    bodies: Bodies, kind: Any, known: frozenset[tirx.Var], label: str, leading: Sequence[Extent] = ()
) -> Any:
    """The type of what a body gives as it is known outside of it, with ``leading`` extents for its first."""
    shape = [extent if _is_known(extent, known) else None for extent in _shape(kind)[len(leading) :]]
    return relax.TensorType([*leading, *_opened(bodies, shape, identifier(label))], kind.dtype)


def _opened(bodies: Bodies, shape: Sequence[Extent | None], label: str) -> list[Extent]:
    """A shape with a variable of its own for each extent that is None."""
    return [
        bodies.counts.opened(f"{label}_{axis}") if extent is None else extent
        for axis, extent in enumerate(shape)
    ]


def _empty(kind: Any, known: frozenset[tirx.Var]) -> relax.ShapeExpr:
    """The shape of no rows; extents that only rows would tell are 0."""
    return relax.ShapeExpr([0, *(extent if _is_known(extent, known) else 0 for extent in _shape(kind)[1:])])


def _shape(kind: Any) -> list[Extent]:
    return list(map(as_extent, kind.shape.values))


def _written(kind: Any) -> str:
    return written_type(kind.dtype, _shape(kind))


def _symbols(values: Sequence[Value]) -> list[tirx.Var]:
    """The variables in the extents of tensors."""
    return [
        variable
        for value in values
        if value is not None and not isinstance(value, TensorSequence)
        for extent in shape_of(value)
        if not isinstance(extent, int)
        for variable in tirx.analysis.undefined_vars(extent)
    ]


def _is_known(extent: Extent, known: Any) -> bool:
    return isinstance(extent, int) or all(each in known for each in tirx.analysis.undefined_vars(extent))
