"""Storing every value in the order that is annotated, and back."""

from collections.abc import Mapping, Sequence

import tvm

from relay_layout.choice.solver import Solution
from relay_layout.dim_order_marker import without_markers
from relay_layout.dim_orders.annotate import (
    VALUES,
    WEIGHT_LAYOUTS,
    WEIGHTS,
    annotation,
    with_annotation,
)
from relay_layout.dim_orders.choosing import Order, giving, layout_of, order_of
from relay_layout.errors import LayoutError
from relay_layout.graph import Graph, Node, Value, build_graph
from relay_layout.graph.border import DECLARED, IN_MEMORY, memory_orders
from relay_layout.ir import function_attributes, with_main
from relay_layout.layout import Layout
from relay_layout.layout_request import LayoutRequest
from relay_layout.ops import Signature
from relay_layout.rewrite.border import with_border_layouts
from relay_layout.rewrite.rewriter import Rewritten, rewrite
from relay_layout.verify import verify


def explicit_dim_orders(module: tvm.IRModule) -> tvm.IRModule:
    """An annotated module whose shapes are the memory: each value has its dimensions in the annotated order.

    Attributes follow: axes of reductions and concatenations, permutations, layouts of convolutions. What
    changes from one order to another is a ``permute_dims``, and nothing is left to strides. Inputs and
    outputs have the shapes that they have in memory ("input_memory_orders", "output_memory_orders"). The
    annotation is carried over, and the result is verified to compute what the module did.

    LayoutError where an operator cannot give its result in the annotated order.
    """
    values, weights = annotation(module["main"])
    stored, orders = _stored(with_border_layouts(module, LayoutRequest()), values, weights)
    called = dict(function_attributes(module["main"])[WEIGHT_LAYOUTS])
    return with_annotation(stored, orders, weights, {str(name): str(text) for name, text in called.items()})


def implicit_dim_orders(module: tvm.IRModule) -> tvm.IRModule:
    """The inverse of :func:`explicit_dim_orders`: shapes as the model had them, orders declared only.

    Transforms between orders are gone, as they move nothing but memory; ``to_dim_order`` calls that the
    module had are therefore not restored.
    """
    values, weights = annotation(module["main"])
    sides = memory_orders(module["main"])
    back = {name: _inverse(order) for name, order in values.items()}
    declared = {
        name: [list(_inverse(order)) for order in orders]
        for name, orders in zip(DECLARED, sides, strict=True)
    }
    main = module["main"].with_attrs(declared)
    for name in IN_MEMORY:
        main = main.without_attr(name)
    described = with_main(module, main)
    stored, _ = _stored(
        with_border_layouts(described, LayoutRequest()),
        back,
        {name: _inverse(order) for name, order in weights.items()},
    )
    main = stored["main"].with_attrs(
        {name: [list(order) for order in orders] for name, orders in zip(DECLARED, sides, strict=True)}
    )
    for name in (*IN_MEMORY, VALUES, WEIGHTS, WEIGHT_LAYOUTS):
        main = main.without_attr(name)
    stored.update_func(stored.get_global_var("main"), main)
    return stored


def _inverse(order: Sequence[int]) -> Order:
    return tuple(list(order).index(axis) for axis in range(len(order)))


def _stored(
    module: tvm.IRModule, values: Mapping[str, Order], weights: Mapping[str, Order]
) -> tuple[tvm.IRModule, dict[str, Order]]:
    """The module with every value in its order, and the orders by the names that values have now."""
    graph = build_graph(module["main"])
    solution = Solution(_signatures(graph, values, weights), "annotated", 0.0, 0.0, 0.0)
    outputs = {value: value.identity for value in graph.outputs()}
    rewritten = rewrite(graph, solution, outputs)
    plain = build_graph(without_markers(module)["main"])
    verify("main", plain, rewritten.function, {value: value.identity for value in plain.outputs()})
    return with_main(module, rewritten.function), _orders(rewritten)


def _signatures(
    graph: Graph, values: Mapping[str, Order], weights: Mapping[str, Order]
) -> dict[Node, Signature]:
    held: dict[Value, Layout] = {value: value.identity for value in graph.parameters}
    chosen = {}
    for node in graph.nodes:
        wanted = [_wanted(value, values) for value in node.results]
        weight = weights.get(node.name)
        signature = giving(node, wanted, held, None if weight is None else layout_of(weight))
        if signature is None:
            orders = ", ".join(str(order_of(layout)) for layout in wanted)
            raise LayoutError(
                f"'{node.name}' ({node.operator or 'no operator'}) cannot give dim_order {orders}"
            )
        chosen[node] = signature
        held |= zip(node.results, signature.results, strict=True)
    return chosen


def _wanted(value: Value, values: Mapping[str, Order]) -> Layout:
    order = values.get(value.name)
    if order is None or value.shape is None:
        return value.identity
    if sorted(order) != list(range(value.rank)):
        raise LayoutError(f"dim_order {order} does not fit '{value.name}', which has {value.rank} dimensions")
    return layout_of(order)


def _orders(rewritten: Rewritten) -> dict[str, Order]:
    """Orders by the names in the new function; a parameter is as its own function has it."""
    graph = build_graph(rewritten.function)
    found: dict[str, Order] = {}
    inputs, outputs = memory_orders(rewritten.function)
    for value, order in zip(graph.parameters, inputs, strict=True):
        found[value.name] = order or order_of(value.identity)
    known = {name: order_of(layout) for name, layout in rewritten.forms.items()}
    for node in graph.nodes:
        for value in node.results:
            found[value.name] = known.get(value.name, order_of(value.identity))
    for value, order in zip(graph.outputs(), outputs, strict=True):
        found[value.name] = order or order_of(value.identity)
    return found
