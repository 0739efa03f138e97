"""Layouts of equal memory: among those, each operator takes the ones that its operands were written in.

Seen by their costs all are one, but between two names of one memory stands a reshape, which keeps bias and
activation out of the kernel before it.
"""

from collections.abc import Mapping, Sequence

from relay_layout.choice.memory import same_memory
from relay_layout.graph import Graph, Node, Value
from relay_layout.layout import Layout
from relay_layout.ops import Signature


def with_fewest_views(
    graph: Graph, signatures: Mapping[Node, Sequence[Signature]], chosen: Mapping[Node, Signature]
) -> dict[Node, Signature]:
    """``chosen`` with the signature of each node, in order, replaced by one that costs no more and reads and
    writes the same memory, and that reads most operands in the layout in which they were written.
    """
    written: dict[Value, Layout] = {value: value.identity for value in graph.parameters}
    found: dict[Node, Signature] = {}
    for node in graph.nodes:
        operands = [(place, written.get(value)) for place, value in enumerate(node.operands)]

        def plain(
            signature: Signature, operands: Sequence[tuple[int, Layout | None]] = tuple(operands)
        ) -> int:
            return sum(signature.operands[place] == layout for place, layout in operands)

        kept = chosen[node]
        same = (other for other in signatures[node] if _is_same(node, kept, other))
        # The first of the best; what was chosen goes before equals.
        found[node] = max((kept, *same), key=plain)
        written.update(zip(node.results, found[node].results, strict=True))
    return found


def _is_same(node: Node, kept: Signature, other: Signature) -> bool:
    """Does ``other`` cost no more than ``kept``, and move nothing?"""
    if other.cost > kept.cost or (other.alias, other.by_callback) != (kept.alias, kept.by_callback):
        return False
    values = (*node.operands, *node.results)
    sides = ((*signature.operands, *signature.results) for signature in (kept, other))
    return all(
        value.shape is not None and same_memory(value, *pair)
        for value, *pair in zip(values, *sides, strict=True)
    )
