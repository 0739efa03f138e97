"""Annotating every value of a module with the order in which it lies in memory."""

from collections.abc import Sequence

import tvm
from tvm import relax

from relay_layout.choice.solver import Solution
from relay_layout.dim_orders.choosing import Order, following, layout_of, order_of, weight_order
from relay_layout.dim_orders.computed_weights import computed_weights
from relay_layout.errors import LayoutError
from relay_layout.graph import Graph, Value, build_graph
from relay_layout.graph.border import declared_orders
from relay_layout.ir import function_attributes, with_main
from relay_layout.layout import Layout
from relay_layout.ops import unchanged
from relay_layout.rewrite.rewriter import rewrite
from relay_layout.targets.convolutions import CONVOLUTION_AXES

VALUES = "dim_orders"
"""Attribute of an annotated function: by name of a value, its dimensions from outermost to innermost."""

WEIGHTS = "weight_dim_orders"
"""Attribute of an annotated function: the same of a convolution's weights, by the convolution's name."""

WEIGHT_LAYOUTS = "weight_layouts"
"""Attribute of an annotated function: what the order of such weights is called, such as HWCM."""


def annotate_dim_orders(module: tvm.IRModule) -> tvm.IRModule:
    """The module whose "main" says of every value in which order it lies in memory.

    Inputs lie as the module declares ("input_dim_orders"), in plain order where it does not. An operator
    follows its first operand, as in PyTorch; one that cannot runs in plain order, and ``to_dim_order``
    changes what follows it. Where data is channels last, so are the weights of convolutions, of depthwise
    ones in HWCM, with what computes them of constants alone. Strides are never looked at, so that a dimension
    of one element has the place that was declared for it. Values that share a name get names of their own.

    LayoutError for a declaration that does not fit.
    """
    module = relax.transform.Normalize()(module)
    graph = build_graph(module["main"])
    names = [value.name for value in graph.values()]
    if len(set(names)) < len(names):
        module = _renamed(module, graph)
        graph = build_graph(module["main"])
    held = propagate(graph, declared_orders(graph.function)[0])
    weights = {}
    for node in graph.nodes:
        if len(node.operands) > 1 and node.operator in CONVOLUTION_AXES:
            found = weight_order(node, order_of(held.get(node.operands[0], node.operands[0].identity)))
            if found is not None:
                weights[node] = found
    held |= computed_weights(graph, {node: order for node, (order, _) in weights.items()}, held)
    return with_annotation(
        module,
        {value.name: order_of(layout) for value, layout in held.items()},
        {node.name: order for node, (order, _) in weights.items()},
        {node.name: called for node, (_, called) in weights.items()},
    )


def propagate(graph: Graph, inputs: Sequence[Sequence[int]]) -> dict[Value, Layout]:
    """The layout of every tensor, over its own dimensions, that follows from those of the inputs."""
    held = {
        value: layout_of(order) if order else value.identity
        for value, order in zip(graph.parameters, inputs, strict=True)
    }
    for node in graph.nodes:
        signature = following(node, held)
        held |= zip(node.results, signature.results, strict=True)
    return held


def with_annotation(
    module: tvm.IRModule, values: dict[str, Order], weights: dict[str, Order], called: dict[str, str]
) -> tvm.IRModule:
    """The module with those attributes on "main"."""
    main = module["main"].with_attrs(
        {
            VALUES: {name: list(order) for name, order in values.items()},
            WEIGHTS: {name: list(order) for name, order in weights.items()},
            WEIGHT_LAYOUTS: called,
        }
    )
    return with_main(module, main)


def annotation(function: relax.Function) -> tuple[dict[str, Order], dict[str, Order]]:
    """The orders of values and of weights; LayoutError for a function that is not annotated."""
    attributes = function_attributes(function)
    if VALUES not in attributes:
        raise LayoutError("function 'main' is not annotated with dim orders: call annotate_dim_orders first")
    values, weights = (
        {str(name): tuple(map(int, order)) for name, order in attributes.get(which, {}).items()}
        for which in (VALUES, WEIGHTS)
    )
    return values, weights


def _renamed(module: tvm.IRModule, graph: Graph) -> tvm.IRModule:
    """The same module as a builder writes it, which gives every binding a name of its own."""
    unchanged_nodes = Solution({node: unchanged(node) for node in graph.nodes}, "trivial", 0.0, 0.0, 0.0)
    rewritten = rewrite(graph, unchanged_nodes, {value: value.identity for value in graph.outputs()})
    return with_main(module, rewritten.function)
