"""The original function with the extents that its own checks make known.

A check of a tensor's extents against new symbols says what those are. Conversion ends in TVM's normal form,
where the extents stand in their place; so that both functions can be compared, the original is brought to it
as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import tvm
from tvm import relax

from relay_layout.graph import MATCH_CAST, Graph, Node, Value, build_graph
from relay_layout.layout import Layout
from relay_layout.ops import Placement
from relay_layout.verify.symbols import extents


def canonical(
    original: Graph, outputs: Mapping[Value, Layout], placements: Sequence[Placement]
) -> tuple[Graph, Mapping[Value, Layout], Sequence[Placement]]:
    """A graph without new names for extents, and what was said of ``original`` said of that.

    Placements of checks that are gone are left out; the other nodes are known by their names, or as outputs.
    """
    if not any(map(_renames, original.nodes)):
        return original, outputs, placements
    module = relax.transform.CanonicalizeBindings()(tvm.IRModule({"main": original.function}))
    graph = build_graph(module["main"])
    promised = {
        new: outputs[old]
        for old, new in zip(original.outputs(), graph.outputs(), strict=True)
        if old in outputs
    }
    named = {(node.operator, node.name): node for node in graph.nodes}
    # The bindings that are renamed are outputs.
    found = {
        old.producer: new.producer
        for old, new in zip(original.outputs(), graph.outputs(), strict=True)
        if new.producer is not None
    }
    nodes = {node: named.get((node.operator, node.name), found.get(node)) for node in original.nodes}
    placed = [
        replace(placement, node=node)
        for placement in placements
        if (node := nodes[placement.node]) is not None and node.operator == placement.node.operator
    ]
    return graph, promised, placed


def _renames(node: Node) -> bool:
    """Whether a check gives other names to extents."""
    if node.operator != MATCH_CAST or len(node.operands) != 1 or len(node.results) != 1:
        return False
    before, after = node.operands[0].shape, node.results[0].shape
    return before is not None and after is not None and extents(before) != extents(after)
