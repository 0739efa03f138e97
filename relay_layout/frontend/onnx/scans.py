"""ONNX's Scan: one batch of all its trips where nothing is carried from one to the next.

Others are written out one after another, or a loop where their number is open or large.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.frontend.extents.arithmetic import same
from relay_layout.frontend.onnx.inlined import REFUSED, Body, Surroundings, joined_rows
from relay_layout.frontend.onnx.node import Node
from relay_layout.frontend.onnx.operators.sequences import unstacked
from relay_layout.frontend.run_time_loops import run_scan
from relay_layout.frontend.trips import MOST_NODES
from relay_layout.frontend.values import Unsupported, Value, extents, shape_of
from relay_layout.ir import Extent

_HOW = "axes", "directions"


def scan(node: Node, around: Surroundings) -> list[Value]:
    """The results of a Scan. Unsupported for one of opset 8."""
    if node.opset < 9:
        raise Unsupported(f"is that of opset 8, {REFUSED}: export the model with opset 9 or newer")
    body = Body(node.attributes["body"], around)
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
    begins = isinstance(read.trips, int) and read.trips > 0
    if begins or not isinstance(read.trips, int):
        each = Body(body.graph, around, certain=begins)
        batch = each.at_once(node.opset, carried, read.whole(), taken=begins)
        if batch is not None:
            rows = zip(batch[states:], axes, directions, strict=True)
            return carried + [_turned(node, *row) for row in rows]
    if isinstance(read.trips, int):
        result = around.written(
            lambda: _scan_written_out(node, around, body, carried, read, (axes, directions)), MOST_NODES
        )
        if result is not None:
            return result
    trips = Body(body.graph, around, certain=begins)
    trips.prepare()

    def step(trip: Any, carried: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        results = trips(*carried, *read.at(trip))
        return results[:states], results[states:]

    carried, found = run_scan(node, around.bodies, carried, step, read.trips)
    return carried + [
        _turned(node, row, axis, backwards)
        for row, axis, backwards in zip(found, axes, directions, strict=True)
    ]


def _scan_written_out(
    node: Node,
    around: Surroundings,
    body: Body,
    carried: list[Value],
    read: "_Scanned",
    how: tuple[list[int], list[int]],
) -> list[Value]:
    """The results of a scan of a known number of elements, one trip after another."""
    states = len(carried)
    declared = body.outputs[states:]
    rows: list[list[Value]] = [[] for _ in declared]
    for scanned in zip(*read.steps(), strict=True):
        around.written_out.add(body.size)
        results = body(*carried, *scanned, taken=True)
        carried = results[:states]
        for known, row in zip(rows, results[states:], strict=True):
            known.append(row)
    return carried + [
        joined_rows(node, known[::-1] if backwards else known, axis, kind)
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

    def whole(self) -> list[Value]:
        """Each input with the axis of the trips first, in their order."""
        node = self._node
        found = []
        for value, axis, backwards in self._inputs:
            rank = len(shape_of(value))
            if isinstance(value, np.ndarray):
                value = np.moveaxis(value, axis, 0)
                found.append(value[::-1] if backwards else value)
                continue
            rows: Any = node.expression(value)
            if axis:
                order = [axis, *(other for other in range(rank) if other != axis)]
                rows = node.emit(relax.op.permute_dims(rows, order), "scanned")
            found.append(node.emit(relax.op.flip(rows, 0), "scanned") if backwards else rows)
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
