"""Scans that carry nothing on: all trips at once, as one batch of which each is an element.

The body's nodes take tensors with an axis for the trips in front. Operators that broadcast see it as any
other axis of theirs, once ranks agree; reductions count their axes from behind it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from relay_layout.frontend.onnx.graphs import place_of, subgraphs
from relay_layout.frontend.onnx.operators import elementwise, reduction
from relay_layout.frontend.values import Unsupported, Value, shape_of

if TYPE_CHECKING:
    import onnx

_ELEMENTWISE = frozenset(elementwise.CONVERTERS) - {"BitCast", "Clip", "PRelu"} | {"Identity"}
"""Operators that broadcast all operands alike."""

_REDUCTIONS = frozenset(name for name in reduction.CONVERTERS if name.startswith("Reduce"))

_AXES_INPUT_SINCE = 13
"""The opset from which Unsqueeze has its axes as an input."""


class NoBatch(Exception):
    """A body that is not the same for a batch of trips."""


class BatchedBody:
    """The ``nodes`` of a scan's body, changed to those of all trips at once.

    ``carried`` names the states, which have to leave the body as they came, and ``scanned`` what trips read,
    tensors in which an axis for the trips comes first; ``known`` has the values of all names that the body
    reads. ``outputs`` are the body's, those of the states first. :class:`NoBatch` for other bodies.
    """

    def __init__(
        self,
        nodes: Iterable["onnx.NodeProto"],
        opset: int,
        carried: Sequence[str],
        scanned: Sequence[str],
        known: Mapping[str, Value],
        outputs: Sequence[str],
    ) -> None:
        self._opset = opset
        self._known = known
        self._of_trips = {name: len(shape_of(known[name])) - 1 for name in scanned}
        """The rank, in the body, of each tensor that has an axis for the trips."""
        self._same = {name: name for name in carried}
        """What the body only passes on, by all its names."""
        self.nodes: list[onnx.NodeProto] = []
        for node in nodes:
            self._add(node)
        if [self._same.get(name) for name in outputs[: len(carried)]] != list(carried):
            raise NoBatch("a trip leaves other states than it takes")
        if not all(name in self._of_trips for name in outputs[len(carried) :]):
            raise NoBatch("a result is the same for all trips")

    def _add(self, node: "onnx.NodeProto") -> None:
        if any(subgraphs(node)):
            raise NoBatch(place_of(node))
        if node.op_type == "Identity" and node.input[0] in self._same:
            self._same[node.output[0]] = self._same[node.input[0]]
        if not any(name in self._of_trips for name in node.input):
            self.nodes.append(node)
        elif node.domain or len(node.output) != 1:
            raise NoBatch(place_of(node))
        elif node.op_type in _ELEMENTWISE:
            self._add_elementwise(node)
        elif node.op_type in _REDUCTIONS:
            self._add_reduction(node)
        else:
            raise NoBatch(place_of(node))

    def _add_elementwise(self, node: "onnx.NodeProto") -> None:
        ranks = [self._rank(name) for name in node.input if name]
        rank = max(ranks)
        operands = [self._with_rank(name, rank) for name in node.input]
        self._add_changed(node, operands, rank)

    def _add_reduction(self, node: "onnx.NodeProto") -> None:
        from onnx import helper

        name, *others = node.input
        if others and others[0] in self._of_trips:
            raise NoBatch(place_of(node))
        rank = self._of_trips[name]
        attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        axes = self._numbers(others[0]) if others and others[0] else list(attributes.get("axes", ()))
        if not axes and attributes.get("noop_with_empty_axes", 0):
            raise NoBatch(place_of(node))
        axes = [axis + 1 if axis >= 0 else axis for axis in axes or range(rank)]
        left = rank if attributes.get("keepdims", 1) else rank - len(axes)
        if not axes:
            raise NoBatch(place_of(node))
        if reduction.has_axes_input(node.op_type, self._opset):
            self._add_changed(node, [name, self._constant(axes, node.output[0])], left)
        else:
            self._add_changed(node, [name], left, axes=axes)

    def _constant(self, numbers: list[int], label: str) -> str:
        from onnx import helper, numpy_helper

        name = f"{label} axes {len(self.nodes)}"
        tensor = numpy_helper.from_array(np.array(numbers, "int64"))
        self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        return name

    def _with_rank(self, name: str, rank: int) -> str:
        """The name of an operand that has ``rank`` axes besides that of the trips, new ones behind it."""
        from onnx import helper

        lacking = rank - self._of_trips.get(name, rank)
        if not lacking:
            return name
        axes, lined_up = list(range(1, lacking + 1)), f"{name} of rank {rank} {len(self.nodes)}"
        if self._opset < _AXES_INPUT_SINCE:
            node = helper.make_node("Unsqueeze", [name], [lined_up], axes=axes)
        else:
            node = helper.make_node("Unsqueeze", [name, self._constant(axes, name)], [lined_up])
        self.nodes.append(node)
        return lined_up

    def _add_changed(
        self, node: "onnx.NodeProto", operands: Sequence[str], rank: int, axes: Sequence[int] = ()
    ) -> None:
        """Add ``node`` with other operands and, if given, another attribute for its axes."""
        from onnx import NodeProto, helper

        new = NodeProto()
        new.CopyFrom(node)
        new.ClearField("input")
        new.input.extend(operands)
        if axes:
            kept = [each for each in node.attribute if each.name != "axes"]
            new.ClearField("attribute")
            new.attribute.extend([*kept, helper.make_attribute("axes", axes)])
        self.nodes.append(new)
        self._of_trips[node.output[0]] = rank

    def _rank(self, name: str) -> int:
        """The rank of an operand without the axis of the trips."""
        if name in self._of_trips:
            return self._of_trips[name]
        name = self._same.get(name, name)
        if name not in self._known:
            raise NoBatch(name)
        try:
            return len(shape_of(self._known[name]))
        except Unsupported:
            raise NoBatch(name) from None

    def _numbers(self, name: str) -> list[int]:
        value = self._known.get(name)
        if not isinstance(value, np.ndarray):
            raise NoBatch(name)
        return [int(number) for number in value.reshape(-1)]
