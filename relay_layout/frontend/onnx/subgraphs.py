"""ONNX's branches and loops, inlined into the graph around them where that is possible.

Of a branch whose condition is known one side is taken; of one that is decided at run time both are computed,
and their results selected if their shapes agree. Trips of a loop are written out one after another where
their number is known: what each computes of its number is a constant, and what does not depend on the trip is
computed once. Where such a loop may end early at run time, all its trips are computed, and its results stay
as they are from the end on. All other branches and loops stay what they are (:mod:`.run_time_loops`).
"""

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.frontend.bodies import Bodies
from relay_layout.frontend.counts import Counts
from relay_layout.frontend.extent_arithmetic import product, same
from relay_layout.frontend.identity import ByIdentity
from relay_layout.frontend.onnx.graphs import dependent, needed, read_tensors
from relay_layout.frontend.onnx.node import Node
from relay_layout.frontend.onnx.operators.sequences import stacked, unstacked
from relay_layout.frontend.onnx.run_time_loops import Limit, Trip, run_branch, run_loop
from relay_layout.frontend.onnx.values import (
    FAR,
    Extents,
    TensorSequence,
    Unsupported,
    Value,
    dtype_of,
    extents,
    shape_of,
    written,
)
from relay_layout.ir import Extent

if TYPE_CHECKING:
    import onnx

_MOST_NODES = 20_000
"""Nodes that all trips of the loops of one model are written out to at most."""

_SEARCHED = 2_000
"""The same of one loop for which no number of trips is known, and which may end by itself before."""

_REFUSED = "which is not supported"
_BOUNDED = "export the model with a number that is a constant"
_ALIKE = "let both branches give the same shape and element type"


class _TooMany(ModelError):
    """More nodes than there may be."""


@dataclass
class Surroundings:
    """The graphs that others are inlined into.

    ``values`` holds what names stand for, those of the innermost graph first; ``run`` converts nodes and adds
    theirs. ``bodies`` takes functions for what runs as often as the data say. ``empty_extent`` gives the
    extent which a condition tests for being 0. ``written_out`` counts the nodes of trips that were inlined so
    far, of which there may be ``most_nodes``.
    """

    label: str
    values: ChainMap[str, Value]
    run: Callable[[Iterable["onnx.NodeProto"]], None]
    counts: Counts
    bodies: Bodies
    empty_extent: Callable[[Value], Any]
    written_out: int = 0
    most_nodes: int = _MOST_NODES
    _tensors: ByIdentity["onnx.GraphProto", Mapping[str, Value]] = field(default_factory=ByIdentity)

    @property
    def is_inside(self) -> bool:
        """Whether nodes are those of a graph that another holds."""
        return len(self.values.maps) > 1

    @contextmanager
    def inside(self, names: dict[str, Value]) -> Iterator[None]:
        """Nodes are those of a graph that knows ``names`` besides, and add theirs to them."""
        self.values = self.values.new_child(names)
        try:
            yield
        finally:
            self.values = self.values.parents

    @contextmanager
    def at_most(self, nodes: int) -> Iterator[None]:
        """So many nodes may be written out more; what was, is forgotten where that is too few."""
        most, begun = self.most_nodes, self.written_out
        self.most_nodes = min(most, begun + nodes)
        try:
            yield
        except _TooMany:
            self.written_out = begun
            raise
        finally:
            self.most_nodes = most

    def write_out(self, nodes: int) -> None:
        """Count nodes of a trip."""
        self.written_out += nodes
        if self.written_out > self.most_nodes:
            raise _TooMany(f"{self.label}: more than {self.most_nodes} nodes of trips")

    def tensors(self, graph: "onnx.GraphProto") -> Mapping[str, Value]:
        """The initializers of a graph, the same ones each time."""
        return self._tensors.kept(graph, lambda graph: read_tensors(graph, self.label))


class _Body:
    """A graph whose nodes are converted each time it is called; those that read no input of it, once."""

    def __init__(self, graph: "onnx.GraphProto", around: Surroundings) -> None:
        self.inputs = list(graph.input)
        self.outputs = list(graph.output)
        self._graph = graph
        self._around = around
        self._names: dict[str, Value] = {}
        nodes = needed(graph.node, [value.name for value in self.outputs])
        self._repeated, self._once = dependent(nodes, [value.name for value in self.inputs])

    @property
    def size(self) -> int:
        """How many nodes each call converts."""
        return max(len(self._repeated), 1)

    def prepare(self) -> None:
        """Convert what reads no input, where that has not been done."""
        once, self._once = self._once, []
        with self._around.inside(self._names):
            self._names.update(self._around.tensors(self._graph))
            self._around.run(once)

    def __call__(self, *given: Value) -> list[Value]:
        """The outputs, for the inputs in order."""
        self.prepare()
        with self._around.inside(self._names):
            self._names.update(zip((value.name for value in self.inputs), given, strict=True))
            self._around.run(self._repeated)
            return [self._around.values[value.name] for value in self.outputs]


def _branch(node: Node, around: Surroundings) -> list[Value]:
    condition = node.input(0)
    if isinstance(condition, np.ndarray):
        wanted = "then_branch" if _single(condition).item() else "else_branch"
        return _Body(node.attributes[wanted], around)()
    sides = [_Body(node.attributes[name], around) for name in ("then_branch", "else_branch")]
    results = [side() for side in sides]
    extent = around.empty_extent(condition)
    # A tensor without elements needs a branch of its own in other runtimes alone.
    if extent is not None and all(
        _agree_where_empty(around.counts, empty, other, extent) for empty, other in zip(*results, strict=True)
    ):
        return results[1]
    chosen = _scalar(node, condition)
    pairs = list(zip(*results, strict=True))
    if all(_is_selectable(one, other) for one, other in pairs):
        return [_selected(node, chosen, one, other) for one, other in pairs]
    return run_branch(node, around.bodies, chosen, sides)


def _agree_where_empty(counts: Counts, one: Value, other: Value, extent: Any) -> bool:
    """Whether two values are tensors of the same type without elements where the variable ``extent`` is 0."""
    if any(isinstance(value, TensorSequence) for value in (one, other)):
        return False
    if dtype_of(one) != dtype_of(other) or len(shape_of(one)) != len(shape_of(other)):
        return False
    left, right = (
        [counts.most_where_empty(size, extent) for size in shape_of(value)] for value in (one, other)
    )
    return left == right and 0 in left


def _loop(node: Node, around: Surroundings) -> list[Value]:
    body = _Body(node.attributes["body"], around)
    carried = list(node.inputs[2:])
    if len(body.inputs) != len(carried) + 2 or len(body.outputs) <= len(carried):
        raise Unsupported(
            f"gives {len(body.inputs)} inputs to and takes {len(body.outputs)} outputs from a body "
            f"that carries {len(carried)} values"
        )
    trips, given = node.optional(0), node.optional(1)
    alive = np.array(True) if given is None else given
    if trips is None or isinstance(trips, np.ndarray):
        known = None if trips is None else int(_single(trips).item())
        try:
            with around.at_most(_SEARCHED if known is None or known >= FAR else _MOST_NODES):
                return _written_out(node, around, body, known, alive)
        except _TooMany:
            pass
    return _loop_at_run_time(node, around, body, alive)


def _written_out(
    node: Node, around: Surroundings, body: _Body, trips: int | None, alive: Value
) -> list[Value]:
    """The results of a loop of at most so many trips, one after another."""
    carried = list(node.inputs[2:])
    rows: list[list[Value]] = [[] for _ in body.outputs[len(carried) + 1 :]]
    ending = _Ending(node, alive)
    # A trip that is not due may compute anything: it is given what it would be if it were, so that what is
    # known of that stays known.
    results = carried
    for trip in count() if trips is None else range(trips):
        if ending.is_over:
            break
        around.write_out(body.size)
        number, due = _head(node, body, np.array(trip))
        try:
            goes_on, *given = body(number, due, *results)
        except _TooMany:
            raise
        except ModelError as error:
            if not ending.is_open:
                raise
            raise ModelError(f"{error} (in trip {trip} of a loop that may end before, from 0)") from None
        results = given[: len(carried)]
        for known, row in zip(rows, given[len(carried) :], strict=True):
            known.append(row)
        carried = [ending.kept(new, old) for new, old in zip(results, carried, strict=True)]
        ending.after_trip(goes_on)
    declared = body.outputs[len(carried) + 1 :]
    found = [_rows(node, known, 0, kind) for known, kind in zip(rows, declared, strict=True)]
    return [*carried, *ending.shortened(found)]


def _loop_at_run_time(node: Node, around: Surroundings, body: _Body, alive: Value) -> list[Value]:
    """The results of a loop whose trips the data, or sizes of inputs, count."""
    body.prepare()
    number = len(node.inputs) - 2

    def step(trip: Any, carried: Sequence[Value]) -> Trip:
        goes_on, *given = body(*_head(node, body, trip), *carried)
        return Trip(_single(goes_on), given[:number], given[number:])

    alive = alive if isinstance(alive, np.ndarray) else _scalar(node, alive)
    carried, rows = run_loop(node, around.bodies, node.inputs[2:], step, _limit(node), alive)
    return [*carried, *rows]


def _head(node: Node, body: _Body, trip: Value) -> list[Value]:
    """A trip's number and that it is due, each without dimensions or in one, as the body declares it."""
    given = []
    for value, declared in zip((trip, np.array(True)), body.inputs, strict=False):
        value = node.reshaped(value, [1] * len(declared.type.tensor_type.shape.dim))
        given.append(node.emit(value, "trip") if isinstance(value, relax.Call) else value)
    return given


def _limit(node: Node) -> Limit | None:
    """How many trips a loop takes at most; None where nothing limits them."""
    value = node.optional(0)
    if value is None:
        return None
    extent = _single(value).array.item() if isinstance(value, Extents) else None
    return Limit(_scalar(node, node.cast(value, "int64")), extent)


class _Ending:
    """Whether a loop goes on: as the condition says, which is a constant or computed at run time."""

    def __init__(self, node: Node, alive: Value) -> None:
        self.alive = alive if isinstance(alive, np.ndarray) else _scalar(node, alive)
        self._node = node
        self._taken: Any = np.array([0])

    @property
    def is_over(self) -> bool:
        """Whether it is known that no trip follows."""
        return isinstance(self.alive, np.ndarray) and not _single(self.alive).item()

    @property
    def is_open(self) -> bool:
        """Whether only the run tells if a trip follows."""
        return not isinstance(self.alive, np.ndarray)

    def kept(self, new: Value, old: Value) -> Value:
        """What is carried on: ``new`` if the trip was due."""
        return _selected(self._node, self.alive, new, old) if self.is_open else new

    def after_trip(self, goes_on: Value) -> None:
        """Count the trip, and go on if ``goes_on`` says so."""
        node = self._node
        if self.is_open:
            due = node.cast(node.emit(node.expression(node.reshaped(self.alive, [1])), "due"), "int64")
            self._taken = node.emit(relax.op.add(node.expression(self._taken), due), "trips")
        else:
            self._taken = self._taken + 1
        if isinstance(goes_on, np.ndarray):
            if not self.is_open or not _single(goes_on).item():
                self.alive = goes_on
        elif self.is_open:
            both = relax.op.logical_and(self.alive, _scalar(node, goes_on))
            self.alive = node.emit(both, "alive")
        else:
            self.alive = _scalar(node, goes_on)

    def shortened(self, rows: Sequence[Value]) -> list[Value]:
        """Tensors of one row for each trip written out, as those of trips that were due."""
        if isinstance(self._taken, np.ndarray) or not rows:
            return list(rows)
        due = self._node.count(self._taken, shape_of(rows[0])[0])
        first, last, step = (relax.prim_value(bound) for bound in (0, due, 1))
        return [
            relax.op.strided_slice(
                self._node.expression(row), [0], [first], [last], [step], assume_inbound=True
            )
            for row in rows
        ]


def _scan(node: Node, around: Surroundings) -> list[Value]:
    if node.opset < 9:
        raise Unsupported(f"is that of opset 8, {_REFUSED}: export the model with opset 9 or newer")
    body = _Body(node.attributes["body"], around)
    number = node.attributes["num_scan_inputs"]
    states = len(node.inputs) - number
    carried = list(node.inputs[:states])
    declared = body.outputs[states:]
    if len(body.inputs) != len(node.inputs) or states < 0 or len(body.outputs) < states or number < 1:
        raise Unsupported(
            f"has {len(node.inputs)} inputs, {number} of them scanned, "
            f"for a body of {len(body.inputs)} inputs and {len(body.outputs)} outputs"
        )
    read = _Scanned(
        node, node.inputs[states:], *(_for_each(node, f"scan_input_{name}", number) for name in _HOW)
    )
    axes, directions = (_for_each(node, f"scan_output_{name}", len(declared)) for name in _HOW)
    if isinstance(read.trips, int):
        try:
            with around.at_most(_MOST_NODES):
                return _scan_written_out(node, around, body, carried, read, (axes, directions))
        except _TooMany:
            pass
    body.prepare()

    def step(trip: Any, carried: Sequence[Value]) -> Trip:
        results = body(*carried, *read.at(trip))
        return Trip(np.array(True), results[:states], results[states:])

    number = read.trips
    limit = Limit(_scalar(node, node.expression(extents(number))), number)
    carried, found = run_loop(node, around.bodies, carried, step, limit, np.array(True))
    return carried + [
        _turned(node, row, axis, backwards)
        for row, axis, backwards in zip(found, axes, directions, strict=True)
    ]


_HOW = "axes", "directions"


def _scan_written_out(
    node: Node,
    around: Surroundings,
    body: _Body,
    carried: list[Value],
    read: "_Scanned",
    how: tuple[list[int], list[int]],
) -> list[Value]:
    """The results of a scan of a known number of elements, one trip after another."""
    states = len(carried)
    declared = body.outputs[states:]
    rows: list[list[Value]] = [[] for _ in declared]
    for scanned in zip(*read.steps(), strict=True):
        around.write_out(body.size)
        results = body(*carried, *scanned)
        carried = results[:states]
        for known, row in zip(rows, results[states:], strict=True):
            known.append(row)
    return carried + [
        _rows(node, known[::-1] if backwards else known, axis, kind)
        for known, axis, backwards, kind in zip(rows, *how, declared, strict=True)
    ]


def _turned(node: Node, rows: Any, axis: int, backwards: int) -> Any:
    """The rows of all trips along ``axis``, the last one first where they are written backwards."""
    rank = len(shape_of(rows))
    rows = node.emit(relax.op.flip(rows, 0), "backwards") if backwards else rows
    axis = node.axis(axis, rank)
    order = [*range(1, axis + 1), 0, *range(axis + 1, rank)]
    return rows if axis == 0 else node.emit(relax.op.permute_dims(rows, order), "rows")


class _Scanned:
    """The inputs that a scan reads element by element, each along an axis, from its begin or its end."""

    def __init__(self, node: Node, values: Sequence[Value], axes: list[int], directions: list[int]) -> None:
        self._node = node
        self._inputs = [
            (value, node.axis(axis, len(shape_of(value))), backwards)
            for value, axis, backwards in zip(values, axes, directions, strict=True)
        ]
        numbers = [shape_of(value)[axis] for value, axis, _ in self._inputs]
        if not all(same(number, numbers[0]) for number in numbers):
            raise Unsupported(f"scans {' and '.join(str(number) for number in numbers)} elements at once")
        self.trips: Extent = numbers[0]

    def steps(self) -> list[list[Value]]:
        """The parts of each input, in the order of the trips, whose number is known."""
        found = []
        for value, axis, backwards in self._inputs:
            parts = unstacked(self._node, value, axis)
            found.append(parts[::-1] if backwards else parts)
        return found

    def at(self, trip: Any) -> list[Value]:
        """The parts that a trip reads."""
        node = self._node
        found = []
        for value, axis, backwards in self._inputs:
            place = trip
            if backwards:
                last = node.expression(extents(self.trips - 1))
                place = node.emit(relax.op.subtract(last, trip), "place")
            found.append(node.emit(relax.op.take(node.expression(value), place, axis), "scanned"))
        return found


def _for_each(node: Node, attribute: str, number: int) -> list[int]:
    """An attribute with an integer for each of ``number`` tensors, zeros if left out."""
    given = list(node.attributes.get(attribute, [0] * number))
    if len(given) != number:
        raise Unsupported(f"has {attribute} {given} for {number} tensors")
    return given


def _rows(node: Node, rows: Sequence[Value], axis: int, declared: "onnx.ValueInfoProto") -> Value:
    """What the trips of a loop gave, as one tensor with an axis for the trips."""
    if not rows:
        return _no_rows(node, axis, declared)
    first = rows[0]
    for row in rows:
        if not _of_one_type(row, first):
            raise Unsupported(
                f"joins results of {_kind(first)} and of {_kind(row)} of its trips, {_REFUSED}: "
                "let each trip give a tensor of one shape"
            )
    whole = stacked(node, rows, node.axis(axis, len(shape_of(first)) + 1))
    return whole if isinstance(whole, np.ndarray | Extents) else node.emit(whole, "rows")


def _no_rows(node: Node, axis: int, declared: "onnx.ValueInfoProto") -> Value:
    from onnx import helper

    tensor = declared.type.tensor_type
    shape = [extent.dim_value for extent in tensor.shape.dim]
    if not tensor.HasField("shape"):
        raise Unsupported(f"takes no trip, and the file does not say what '{declared.name}' would be")
    shape.insert(node.axis(axis, len(shape) + 1), 0)
    return np.zeros(shape, helper.tensor_dtype_to_np_dtype(tensor.elem_type))


def _is_selectable(one: Value, other: Value) -> bool:
    """Whether both can be computed, and one of them taken."""
    tensors = [value for value in (one, other) if not isinstance(value, TensorSequence)]
    return one is other or len(tensors) != 2 or _of_one_type(one, other)


def _selected(node: Node, condition: Value, one: Value, other: Value) -> Value:
    """``one`` where ``condition``, a boolean of no dimension, holds, and ``other`` where it does not."""
    if one is other:
        return one
    if isinstance(one, TensorSequence) and isinstance(other, TensorSequence):
        if len(one.tensors) != len(other.tensors) or one.dtype != other.dtype:
            raise Unsupported(
                f"chooses at run time between sequences that differ in length, {_REFUSED}: {_ALIKE}"
            )
        pairs = zip(one.tensors, other.tensors, strict=True)
        return TensorSequence(tuple(_selected(node, condition, *pair) for pair in pairs), one.dtype)
    if not _of_one_type(one, other):
        raise Unsupported(
            f"chooses at run time between {_kind(one)} and {_kind(other)}, {_REFUSED}: {_ALIKE}"
        )
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and one.tobytes() == other.tobytes():
        return one
    shapes = isinstance(one, Extents) and isinstance(other, Extents)
    if shapes and all(map(same, one.array.flat, other.array.flat)):
        return one
    chosen = relax.op.where(condition, node.expression(one), node.expression(other))
    return node.emit(chosen, "chosen")


def _of_one_type(one: Value, other: Value) -> bool:
    left, right = shape_of(one), shape_of(other)
    return dtype_of(one) == dtype_of(other) and len(left) == len(right) and all(map(same, left, right))


def _kind(value: Value) -> str:
    return f"{dtype_of(value)}{written(shape_of(value))}"


def _scalar(node: Node, condition: Value) -> Any:
    """A condition, one element of any rank, as a variable without dimensions."""
    value = node.reshaped(_single(condition), [])
    return value if isinstance(value, relax.Var) else node.emit(node.expression(value), "condition")


def _single(condition: Value) -> Value:
    """The condition; Unsupported if it has not one element."""
    if product(shape_of(condition)) != 1:
        raise Unsupported(
            f"has a condition of shape {written(shape_of(condition))}, where one element is due"
        )
    return condition


SUBGRAPHS: Mapping[str, Callable[[Node, Surroundings], list[Value]]] = {
    "If": _branch,
    "Loop": _loop,
    "Scan": _scan,
}
"""What a node that holds graphs gives, by its operator."""

__all__ = ["SUBGRAPHS", "Surroundings"]
