"""Where nodes that a callback replaced begin and end in the converted function."""

from collections.abc import Sequence
from typing import Any

from tvm import relax

from relay_layout.graph import Graph, Node, Value
from relay_layout.ir import Constant
from relay_layout.ops import Placement


class Borders:
    """The bindings of the converted function that took the place of replaced nodes.

    ``results`` are bindings that give a replaced node's results; ``operands`` the tensors that went into
    it, None where one is not in the function any more; ``inside`` the bindings between. ``passed`` are
    results in whose place an operand was put.
    """

    def __init__(self, original: Graph, converted: Graph, placements: Sequence[Placement]) -> None:
        self.results: dict[Node, Placement] = {}
        self.operands: dict[Node, list[Value | None]] = {}
        self.inside: set[Node] = set()
        self.passed: dict[Value, Value] = {}
        replaced = [placement for placement in placements if placement.signature.by_callback]
        if not replaced:
            return
        # The builder gives every variable a name of its own, and passes after it keep names.
        self._values = {node.variable.name: node.results for node in converted.nodes}
        for parameter in converted.function.params:
            self._values[parameter.name] = [
                value for value in converted.parameters if _base(value.expression).same_as(parameter)
            ]
        self._constants = {
            value.expression.__chandle__(): value
            for node in converted.nodes
            for value in node.operands
            if value.constant is not None
        }
        outputs = dict(zip(original.outputs(), converted.outputs(), strict=False))
        for placement in replaced:
            self._find(placement, outputs)
        for node, placement in self.results.items():
            self._fill(node, {value for value in self.operands[placement.node] if value is not None})

    def _find(self, placement: Placement, outputs: dict[Value, Value]) -> None:
        names = [_name(operand) for operand in placement.operands]
        result = placement.node.results[0]
        name = _name(placement.results[0])
        if name and name in names:
            self.passed[result] = placement.node.operands[names.index(name)]
            return
        value = self._value(placement.results[0])
        if value is None:
            # The one binding that is renamed is an output.
            value = outputs.get(result)
        if value is None or value.producer is None:
            return
        if len(value.producer.results) == len(placement.results):
            self.results[value.producer] = placement
            self.operands[placement.node] = [self._value(operand) for operand in placement.operands]

    def _fill(self, last: Node, borders: set[Value]) -> None:
        pending = list(last.operands)
        while pending:
            value = pending.pop()
            producer = value.producer
            if value in borders or producer is None or producer in self.inside or producer in self.results:
                continue
            self.inside.add(producer)
            pending += producer.operands

    def _value(self, expression: Any) -> Value | None:
        """The tensor of the converted function that the rewriter had as ``expression``."""
        if isinstance(expression, Constant):
            return self._constants.get(expression.__chandle__())
        place = expression.index if isinstance(expression, relax.TupleGetItem) else 0
        held = self._values.get(_name(expression), [])
        return held[place] if place < len(held) else None


def _base(expression: Any) -> Any:
    while isinstance(expression, relax.TupleGetItem):
        expression = expression.tuple_value
    return expression


def _name(expression: Any) -> str:
    base = _base(expression)
    return str(base.name) if isinstance(base, relax.Var) else ""
