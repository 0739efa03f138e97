"""ONNX's branches and loops, inlined into the graph around them.

Nothing of either is left at run time. Of a branch whose condition is known one side is taken; of one that is
decided at run time both are computed, and their results selected. Trips of a loop are written out one after
another: what each computes of its number is a constant, and what does not depend on the trip is computed
once. Where a loop may end early at run time, all its trips are computed, and its results stay as they are
from the end on.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax

from relay_layout.frontend.onnx_counts import Counts
from relay_layout.frontend.onnx_graphs import dependent, needed, read_tensors
from relay_layout.frontend.onnx_node import Node
from relay_layout.frontend.onnx_operators.sequences import stacked, unstacked
from relay_layout.frontend.onnx_values import (
    Extents,
    TensorSequence,
    Unsupported,
    Value,
    dtype_of,
    same,
    shape_of,
    written,
)

if TYPE_CHECKING:
    import onnx

_MOST_NODES = 20_000
"""Nodes that all trips of the loops of one model are written out to at most."""

_REFUSED = "which is not supported"


@dataclass
class Surroundings:
    """The graph that others are inlined into.

    ``values`` holds what names stand for, and ``run`` converts nodes and adds theirs. ``empty_extent`` gives
    the extent which a condition tests for being 0. ``written_out`` counts the nodes of all trips so far.
    """

    label: str
    values: dict[str, Value]
    run: Callable[[Iterable["onnx.NodeProto"]], None]
    counts: Counts
    empty_extent: Callable[[Value], Any]
    written_out: int = 0


class _Body:
    """A graph whose nodes are converted each time it is called; those that read no input of it, once."""

    def __init__(self, graph: "onnx.GraphProto", around: Surroundings) -> None:
        self.inputs = [value.name for value in graph.input]
        self.outputs = list(graph.output)
        self._names = [value.name for value in graph.output]
        self._around = around
        self._tensors = graph.initializer
        self._repeated, self._once = dependent(needed(graph.node, self._names), self.inputs)
        self._called = False

    def __call__(self, *given: Value) -> list[Value]:
        """The outputs, for the inputs in order."""
        if not self._called:
            self._around.values.update(read_tensors(self._tensors, self._around.label))
            self._around.run(self._once)
            self._called = True
        self._around.values.update(zip(self.inputs, given, strict=True))
        self._around.run(self._repeated)
        return [self._around.values[name] for name in self._names]

    def trip(self, *given: Value) -> list[Value]:
        """As a call; Unsupported where loops of the model take too many nodes already."""
        self._around.written_out += max(len(self._repeated), 1)
        if self._around.written_out > _MOST_NODES:
            raise Unsupported(
                f"takes more than {_MOST_NODES} nodes when its trips are written out, which is not supported"
            )
        return self(*given)


def _branch(node: Node, around: Surroundings) -> list[Value]:
    condition = node.input(0)
    if isinstance(condition, np.ndarray):
        wanted = "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"
        return _Body(node.attributes[wanted], around)()
    results = [_Body(node.attributes[name], around)() for name in ("then_branch", "else_branch")]
    extent = around.empty_extent(condition)
    # A tensor without elements needs a branch of its own in other runtimes alone.
    if extent is not None and all(
        around.counts.agree_where_empty(empty, other, extent) for empty, other in zip(*results, strict=True)
    ):
        return results[1]
    chosen = _scalar(node, condition)
    return [_selected(node, chosen, one, other) for one, other in zip(*results, strict=True)]


def _loop(node: Node, around: Surroundings) -> list[Value]:
    body = _Body(node.attributes["body"], around)
    trips, alive = _trips(node), node.optional(1)
    carried = list(node.inputs[2:])
    if len(body.inputs) != len(carried) + 2 or len(body.outputs) <= len(carried):
        raise Unsupported(
            f"gives {len(body.inputs)} inputs to and takes {len(body.outputs)} outputs from a body "
            f"that carries {len(carried)} values"
        )
    rows: list[list[Value]] = [[] for _ in body.outputs[len(carried) + 1 :]]
    ending = _Ending(node, np.array(True) if alive is None else alive)
    # A trip that is not due may compute anything: it is given what it would be if it were, so that what is
    # known of that stays known.
    results = carried
    for trip in count() if trips is None else range(trips):
        if ending.is_over:
            break
        if trips is None and ending.is_open:
            raise Unsupported(
                "goes on for as long as a tensor computed at run time says, without a number of trips "
                f"that it takes at most, {_REFUSED}"
            )
        goes_on, *given = body.trip(np.array(trip), np.array(True), *results)
        results = given[: len(carried)]
        for known, row in zip(rows, given[len(carried) :], strict=True):
            known.append(row)
        carried = [ending.kept(new, old) for new, old in zip(results, carried, strict=True)]
        ending.after_trip(goes_on)
    declared = body.outputs[len(carried) + 1 :]
    found = [_rows(node, known, 0, kind) for known, kind in zip(rows, declared, strict=True)]
    return [*carried, *ending.shortened(found)]


class _Ending:
    """Whether a loop goes on: as the condition says, which is a constant or computed at run time."""

    def __init__(self, node: Node, alive: Value) -> None:
        self.alive = alive
        self._node = node
        self._taken: Any = np.array([0])

    @property
    def is_over(self) -> bool:
        """Whether it is known that no trip follows."""
        return isinstance(self.alive, np.ndarray) and not self.alive.all()

    @property
    def is_open(self) -> bool:
        """Whether only the run tells if a trip follows."""
        return not isinstance(self.alive, np.ndarray)

    def kept(self, new: Value, old: Value) -> Value:
        """What is carried on: ``new`` if the trip was due."""
        return _selected(self._node, _scalar(self._node, self.alive), new, old) if self.is_open else new

    def after_trip(self, goes_on: Value) -> None:
        """Count the trip, and go on if ``goes_on`` says so."""
        node = self._node
        if self.is_open:
            due = node.cast(node.emit(node.expression(node.reshaped(self.alive, [1])), "due"), "int64")
            self._taken = node.emit(relax.op.add(node.expression(self._taken), due), "trips")
        else:
            self._taken = self._taken + 1
        if not self.is_open or (isinstance(goes_on, np.ndarray) and not goes_on.all()):
            self.alive = goes_on
        elif not isinstance(goes_on, np.ndarray):
            both = relax.op.logical_and(_scalar(node, self.alive), _scalar(node, goes_on))
            self.alive = node.emit(both, "alive")

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


def _trips(node: Node) -> int | None:
    """How many trips a loop takes at most; None where nothing limits them."""
    value = node.optional(0)
    if value is None:
        return None
    if isinstance(value, Extents):
        raise Unsupported(
            f"takes as many trips as the symbolic extent '{value.array.item()}' says: "
            "give the model's inputs fixed shapes (--input-shape)"
        )
    if not isinstance(value, np.ndarray):
        raise Unsupported(f"takes as many trips as a tensor computed at run time says, {_REFUSED}")
    return int(value.reshape(-1)[0])


def _scan(node: Node, around: Surroundings) -> list[Value]:
    if node.opset < 9:
        raise Unsupported(f"is that of opset 8, {_REFUSED}: export the model with opset 9 or newer")
    body = _Body(node.attributes["body"], around)
    number = node.attributes["num_scan_inputs"]
    states = len(node.inputs) - number
    carried = list(node.inputs[:states])
    if len(body.inputs) != len(node.inputs) or len(body.outputs) < states or number < 1:
        raise Unsupported(f"has {len(node.inputs)} inputs, {number} of them scanned, for its body")
    steps = [
        _steps(node, value, axis, backwards)
        for value, axis, backwards in zip(
            node.inputs[states:],
            node.attributes.get("scan_input_axes", [0] * number),
            node.attributes.get("scan_input_directions", [0] * number),
            strict=True,
        )
    ]
    if len({len(step) for step in steps}) != 1:
        raise Unsupported(f"scans {' and '.join(str(len(step)) for step in steps)} elements at once")
    declared = body.outputs[states:]
    rows: list[list[Value]] = [[] for _ in declared]
    for scanned in zip(*steps, strict=True):
        results = body.trip(*carried, *scanned)
        carried = results[:states]
        for known, row in zip(rows, results[states:], strict=True):
            known.append(row)
    axes = node.attributes.get("scan_output_axes", [0] * len(declared))
    directions = node.attributes.get("scan_output_directions", [0] * len(declared))
    return carried + [
        _rows(node, known[::-1] if backwards else known, axis, kind)
        for known, axis, backwards, kind in zip(rows, axes, directions, declared, strict=True)
    ]


def _steps(node: Node, value: Value, axis: int, backwards: int) -> list[Value]:
    """The parts of a scanned input, in the order of the trips."""
    shape = shape_of(value)
    axis = node.axis(axis, len(shape))
    if not isinstance(shape[axis], int):
        raise Unsupported(
            f"scans the symbolic extent '{shape[axis]}': give the model's inputs fixed shapes (--input-shape)"
        )
    parts = unstacked(node, value, axis)
    return parts[::-1] if backwards else parts


def _rows(node: Node, rows: Sequence[Value], axis: int, declared: "onnx.ValueInfoProto") -> Value:
    """What the trips of a loop gave, as one tensor with an axis for the trips."""
    if not rows:
        return _no_rows(node, axis, declared)
    first = rows[0]
    for row in rows:
        if not _of_one_type(row, first):
            raise Unsupported(
                f"joins results of {_kind(first)} and of {_kind(row)} of its trips, which is not supported"
            )
    whole = stacked(node, rows, node.axis(axis, len(shape_of(first)) + 1))
    return whole if isinstance(whole, np.ndarray | Extents) else node.emit(whole, "rows")


def _no_rows(node: Node, axis: int, declared: "onnx.ValueInfoProto") -> Value:
    from onnx import helper

    tensor = declared.type.tensor_type
    shape = [extent.dim_value for extent in tensor.shape.dim]
    if not tensor.HasField("shape") or 0 in shape:
        raise Unsupported(f"takes no trip, and the file does not say what '{declared.name}' would be")
    shape.insert(node.axis(axis, len(shape) + 1), 0)
    return np.zeros(shape, helper.tensor_dtype_to_np_dtype(tensor.elem_type))


def _selected(node: Node, condition: Any, one: Value, other: Value) -> Value:
    """``one`` where ``condition``, a boolean of no dimension, holds, and ``other`` where it does not."""
    if one is other:
        return one
    if isinstance(one, TensorSequence) and isinstance(other, TensorSequence):
        if len(one.tensors) != len(other.tensors) or one.dtype != other.dtype:
            raise Unsupported(f"chooses at run time between sequences that differ in length, {_REFUSED}")
        pairs = zip(one.tensors, other.tensors, strict=True)
        return TensorSequence(tuple(_selected(node, condition, *pair) for pair in pairs), one.dtype)
    if not _of_one_type(one, other):
        raise Unsupported(f"chooses at run time between {_kind(one)} and {_kind(other)}, {_REFUSED}")
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and one.tobytes() == other.tobytes():
        return one
    chosen = relax.op.where(condition, node.expression(one), node.expression(other))
    return node.emit(chosen, "chosen")


def _of_one_type(one: Value, other: Value) -> bool:
    left, right = shape_of(one), shape_of(other)
    return dtype_of(one) == dtype_of(other) and len(left) == len(right) and all(map(same, left, right))


def _kind(value: Value) -> str:
    return f"{dtype_of(value)}{written(shape_of(value))}"


def _scalar(node: Node, condition: Value) -> Any:
    """A condition, one element of any rank, as an expression without dimensions."""
    value = node.reshaped(condition, [])
    return value if isinstance(value, relax.Var) else node.emit(node.expression(value), "condition")


SUBGRAPHS: Mapping[str, Callable[[Node, Surroundings], list[Value]]] = {
    "If": _branch,
    "Loop": _loop,
    "Scan": _scan,
}
"""What a node that holds graphs gives, by its operator."""

__all__ = ["SUBGRAPHS", "Surroundings"]
