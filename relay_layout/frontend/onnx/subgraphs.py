"""ONNX's branches and loops, inlined into the graph around them where that is possible.

Branches are those of :mod:`relay_layout.frontend.onnx.branches`. Trips of a loop are written out one after
another where their number is known: what each computes of its number is a constant, and what does not depend
on the trip is computed once. Where such a loop may end early at run time, all its trips are computed, and its
results stay as they are from the end on. All other loops stay what they are
(:mod:`relay_layout.frontend.run_time_loops`), those that may end early and hold one that does, too: a trip
that is not due might never end.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.frontend.extents.arithmetic import greatest
from relay_layout.frontend.onnx.branches import branch, selected
from relay_layout.frontend.onnx.inlined import Body, Surroundings, joined_rows, scalar, single
from relay_layout.frontend.onnx.node import Node
from relay_layout.frontend.onnx.scans import scan
from relay_layout.frontend.run_time_loops import Limit, Trip, run_loop
from relay_layout.frontend.trips import MOST_NODES, SEARCHED, LeftAsLoop, MayNotEnd
from relay_layout.frontend.values import FAR, Extents, Unsupported, Value, shape_of


def _loop(node: Node, around: Surroundings) -> list[Value]:
    trips, given = node.optional(0), node.optional(1)
    alive = np.array(True) if given is None else given
    is_counted = trips is None or isinstance(trips, np.ndarray)
    known = int(single(trips).item()) if isinstance(trips, np.ndarray) else None
    begins = is_counted and known != 0 and isinstance(alive, np.ndarray) and bool(single(alive).item())
    body = Body(node.attributes["body"], around, certain=begins)
    carried = list(node.inputs[2:])
    if len(body.inputs) != len(carried) + 2 or len(body.outputs) <= len(carried):
        raise Unsupported(
            f"gives {len(body.inputs)} inputs to and takes {len(body.outputs)} outputs from a body "
            f"that carries {len(carried)} values"
        )
    if is_counted:
        most = SEARCHED if known is None or known >= FAR else MOST_NODES
        found = around.written(lambda: _written_out(node, around, body, known, alive), most)
        if found is not None:
            return found
    # What is converted once for all trips is gone with those that were written.
    return _loop_at_run_time(node, around, Body(body.graph, around, certain=begins), alive)


def _written_out(
    node: Node, around: Surroundings, body: Body, trips: int | None, alive: Value
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
        around.written_out.add(body.size)
        number, due = _head(node, body, np.array(trip))
        loops, may_be_over = around.bodies.loops(), ending.is_open
        try:
            goes_on, *given = body(number, due, *results, taken=not ending.is_open)
        except LeftAsLoop:
            raise
        except ModelError as error:
            if not ending.is_open:
                raise
            raise ModelError(f"{error} (in trip {trip} of a loop that may end before, from 0)") from None
        if may_be_over and around.bodies.loops() > loops:
            raise MayNotEnd(f"{node.label}: a trip that may not be due runs a loop")
        results = given[: len(carried)]
        for known, row in zip(rows, given[len(carried) :], strict=True):
            known.append(row)
        carried = [ending.kept(new, old) for new, old in zip(results, carried, strict=True)]
        ending.after_trip(goes_on)
    declared = body.outputs[len(carried) + 1 :]
    found = [joined_rows(node, known, 0, kind) for known, kind in zip(rows, declared, strict=True)]
    return [*carried, *ending.shortened(found)]


def _loop_at_run_time(node: Node, around: Surroundings, body: Body, alive: Value) -> list[Value]:
    """The results of a loop whose trips the data, or sizes of inputs, count."""
    body.prepare()
    number = len(node.inputs) - 2

    def step(trip: Any, carried: Sequence[Value]) -> Trip:
        goes_on, *given = body(*_head(node, body, trip), *carried)
        return Trip(single(goes_on), given[:number], given[number:])

    alive = alive if isinstance(alive, np.ndarray) else scalar(node, alive)
    carried, rows = run_loop(node, around.bodies, node.inputs[2:], step, _limit(node), alive)
    return [*carried, *rows]


def _head(node: Node, body: Body, trip: Value) -> list[Value]:
    """A trip's number and that it is due, each without dimensions or in one, as the body declares it."""
    given = []
    for value, declared in zip((trip, np.array(True)), body.inputs, strict=False):
        value = node.reshaped(value, [1] * len(declared.type.tensor_type.shape.dim))
        given.append(node.emit(value, "trip") if isinstance(value, relax.Call) else value)
    return given


def _limit(node: Node) -> Limit | None:
    """How many trips a loop takes at most; None where nothing limits them. Less than 0 is none."""
    value = node.optional(0)
    if value is None:
        return None
    extent = greatest(single(value).array.item(), 0) if isinstance(value, Extents) else None
    return Limit(scalar(node, node.cast(value, "int64")), extent)


class _Ending:
    """Whether a loop goes on: as the condition says, which is a constant or computed at run time."""

    def __init__(self, node: Node, alive: Value) -> None:
        self.alive = alive if isinstance(alive, np.ndarray) else scalar(node, alive)
        self._node = node
        self._taken: Any = np.array([0])

    @property
    def is_over(self) -> bool:
        """Whether it is known that no trip follows."""
        return isinstance(self.alive, np.ndarray) and not single(self.alive).item()

    @property
    def is_open(self) -> bool:
        """Whether only the run tells if a trip follows."""
        return not isinstance(self.alive, np.ndarray)

    def kept(self, new: Value, old: Value) -> Value:
        """What is carried on: ``new`` if the trip was due."""
        return selected(self._node, self.alive, new, old) if self.is_open else new

    def after_trip(self, goes_on: Value) -> None:
        """Count the trip, and go on if ``goes_on`` says so."""
        node = self._node
        if self.is_open:
            due = node.cast(node.emit(node.expression(node.reshaped(self.alive, [1])), "due"), "int64")
            self._taken = node.emit(relax.op.add(node.expression(self._taken), due), "trips")
        else:
            self._taken = self._taken + 1
        if isinstance(goes_on, np.ndarray):
            if not self.is_open or not single(goes_on).item():
                self.alive = goes_on
        elif self.is_open:
            both = relax.op.logical_and(self.alive, scalar(node, goes_on))
            self.alive = node.emit(both, "alive")
        else:
            self.alive = scalar(node, goes_on)

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


SUBGRAPHS: Mapping[str, Callable[[Node, Surroundings], list[Value]]] = {
    "If": branch,
    "Loop": _loop,
    "Scan": scan,
}
"""What a node that holds graphs gives, by its operator."""
