"""A Relax function as layout choices see it.

Tensors and the operators between them (:mod:`.nodes`), and what the function says of its inputs and outputs
(:mod:`.border`).
"""

from relay_layout.graph.nodes import MATCH_CAST, Graph, Node, Tree, Value, build_graph, leaves

__all__ = ["MATCH_CAST", "Graph", "Node", "Tree", "Value", "build_graph", "leaves"]
