"""Orders of weights that a module computes of constants, as dequantized ones are."""

from collections.abc import Mapping

from relay_layout.dim_orders.choosing import Order, giving, layout_of
from relay_layout.graph import Graph, Node, Value
from relay_layout.layout import Layout


def computed_weights(
    graph: Graph, weights: Mapping[Node, Order], held: Mapping[Value, Layout]
) -> dict[Value, Layout]:
    """The layouts of what weights are computed of, so that their constants alone are moved.

    ``weights`` are the orders in which convolutions read theirs, ``held`` the layouts of all values. What
    something else reads as well, is given out, or follows from an input stays as it is held.
    """
    given = set(graph.outputs())
    found: dict[Value, Layout] = {}
    pending = [
        (node.operands[1], layout_of(order))
        for node, order in weights.items()
        if all(place == 1 and weights.get(reader) == order for reader, place in node.operands[1].consumers)
    ]
    while pending:
        value, layout = pending.pop()
        node = value.producer
        if node is None or value in given or value in found or not _is_constant(value):
            continue
        signature = giving(node, [layout], held, None) if len(node.results) == 1 else None
        if signature is not None:
            found[value] = layout
            pending += [
                (operand, wanted)
                for operand, wanted in zip(node.operands, signature.operands, strict=True)
                if len(operand.consumers) == 1
            ]
    return found


def _is_constant(value: Value) -> bool:
    """Whether a value follows from constants alone."""
    pending, seen = [value], {value}
    while pending:
        one = pending.pop()
        if one.constant is None:
            if one.producer is None:
                return False
            pending += [operand for operand in one.producer.operands if operand not in seen]
            seen.update(one.producer.operands)
    return True
