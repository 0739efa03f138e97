"""What ONNX's branches, loops and scans share: graphs that are inlined into others, and what trips give."""

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax

from relay_layout.frontend.body_building import Bodies
from relay_layout.frontend.extents.arithmetic import product
from relay_layout.frontend.extents.counts import Counts
from relay_layout.frontend.identity import ByIdentity
from relay_layout.frontend.onnx.batched_scans import BatchedBody, NoBatch
from relay_layout.frontend.onnx.graphs import dependent, needed, read_tensors
from relay_layout.frontend.onnx.node import Node
from relay_layout.frontend.onnx.operators.sequences import stacked
from relay_layout.frontend.trips import LeftAsLoop, WrittenOut
from relay_layout.frontend.values import (
    Extents,
    Unsupported,
    Value,
    described,
    of_one_type,
    shape_of,
    written,
)
from relay_layout.ir import Extent

if TYPE_CHECKING:
    import onnx

REFUSED = "which is not supported"


@dataclass
class Surroundings:
    """The graphs that others are inlined into.

    ``values`` holds what names stand for, those of the innermost graph first; ``run`` converts nodes and adds
    theirs. ``bodies`` takes functions for what runs as often as the data say. ``tested_extent`` gives the
    extent and the number that a condition compares. ``written_out`` counts the nodes of trips that were
    inlined. ``is_certain`` tells whether what is converted runs in each call.
    """

    label: str
    values: ChainMap[str, Value]
    run: Callable[[Iterable["onnx.NodeProto"]], None]
    counts: Counts
    bodies: Bodies
    tested_extent: Callable[[Value], tuple[Extent, int] | None]
    written_out: WrittenOut
    is_certain: bool = True
    _tensors: ByIdentity["onnx.GraphProto", Mapping[str, Value]] = field(default_factory=ByIdentity)

    @property
    def is_inside(self) -> bool:
        """Whether nodes are those of a graph that another holds."""
        return len(self.values.maps) > 1

    @contextmanager
    def inside(self, names: dict[str, Value], *, certain: bool) -> Iterator[None]:
        """Nodes are those of a graph that knows ``names`` besides, and add theirs to them.

        Unless they are ``certain``, they may never run.
        """
        before, self.is_certain = self.is_certain, self.is_certain and certain
        self.values = self.values.new_child(names)
        try:
            yield
        finally:
            self.values = self.values.parents
            self.is_certain = before

    def written(self, write: Callable[[], list[Value]], most: int) -> list[Value] | None:
        """The results of trips that ``write`` writes out, of so many nodes at most.

        None, and no trace of what was written, where they are to stay a loop.
        """
        try:
            with self.written_out.at_most(most), self.bodies.aside() as done:
                results = write()
        except LeftAsLoop:
            return None
        self.bodies.emit(done)
        return results

    def tensors(self, graph: "onnx.GraphProto") -> Mapping[str, Value]:
        """The initializers of a graph, the same ones each time."""
        return self._tensors.kept(graph, lambda graph: read_tensors(graph, self.label))


class Body:
    """A graph whose nodes are converted each time it is called; those that read no input of it, once.

    Unless a call is ``certain``, nodes that hold graphs are converted each time, too: what is converted once
    belongs to the function around, which would run a loop that may be no part of any trip. What is ``taken``
    runs whenever the graph around does, and what it asks of sizes is asked in each call.
    """

    def __init__(
        self, graph: "onnx.GraphProto", around: Surroundings, *, certain: bool = True, taken: bool = False
    ) -> None:
        self.inputs = list(graph.input)
        self.outputs = list(graph.output)
        self.graph = graph
        self._around = around
        self._taken = taken
        self._names: dict[str, Value] = {}
        nodes = needed(graph.node, [value.name for value in self.outputs])
        self._repeated, self._once = dependent(nodes, [value.name for value in self.inputs], apart=certain)

    @property
    def size(self) -> int:
        """How many nodes each call converts."""
        return max(len(self._repeated), 1)

    def prepare(self, *, taken: bool = False) -> None:
        """Convert what reads no input, where that has not been done."""
        once, self._once = self._once, []
        with self._around.inside(self._names, certain=self._taken or taken):
            self._names.update(self._around.tensors(self.graph))
            self._around.run(once)

    def __call__(self, *given: Value, taken: bool = False) -> list[Value]:
        """The outputs, for the inputs in order; this call may be ``taken`` though others are not."""
        self.prepare(taken=taken)
        with self._around.inside(self._names, certain=self._taken or taken):
            self._names.update(zip((value.name for value in self.inputs), given, strict=True))
            self._around.run(self._repeated)
            return [self._around.values[value.name] for value in self.outputs]

    def at_once(
        self, opset: int, carried: Sequence[Value], scanned: Sequence[Value], *, taken: bool = False
    ) -> list[Value] | None:
        """The outputs of all trips of a scan, in which an axis for the trips comes first, as in ``scanned``.

        None where the trips are no batch (:mod:`relay_layout.frontend.onnx.batched_scans`).
        """
        self.prepare(taken=taken)
        names, outputs = [value.name for value in self.inputs], [value.name for value in self.outputs]
        given = dict(zip(names, (*carried, *scanned), strict=True))
        states = len(carried)
        with self._around.inside({**self._names, **given}, certain=self._taken or taken):
            known = self._around.values
            try:
                batch = BatchedBody(self._repeated, opset, names[:states], names[states:], known, outputs)
            except NoBatch:
                return None
            self._around.run(batch.nodes)
            return [*carried, *(known[name] for name in outputs[states:])]


def joined_rows(node: Node, rows: Sequence[Value], axis: int, declared: "onnx.ValueInfoProto") -> Value:
    """What the trips of a loop gave, as one tensor with an axis for the trips."""
    if not rows:
        return _no_rows(node, axis, declared)
    first = rows[0]
    for row in rows:
        if not of_one_type(row, first):
            raise Unsupported(
                f"joins results of {described(first)} and of {described(row)} of its trips, {REFUSED}: "
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


def scalar(node: Node, condition: Value) -> Any:
    """A condition, one element of any rank, as a variable without dimensions."""
    value = node.reshaped(single(condition), [])
    return value if isinstance(value, relax.Var) else node.emit(node.expression(value), "condition")


def single(condition: Value) -> Value:
    """The condition; Unsupported if it has not one element."""
    if product(shape_of(condition)) != 1:
        raise Unsupported(
            f"has a condition of shape {written(shape_of(condition))}, where one element is due"
        )
    return condition
