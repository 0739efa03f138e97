"""The candidate signatures for the solver: layouts are propagated from the operators that choose them.

Convolutions introduce layouts. Every operator around them that can carry such a layout gets a signature for
it, first in the direction of the data and then against it, so that a transform may sit at either end of a
chain of operators. Layouts that no operator asks for are not considered.
"""

from relay_layout.choice.memory import same_memory
from relay_layout.graph import Graph, Node, Value
from relay_layout.layout import Layout
from relay_layout.ops import TABLE, Offers, Rules, Signature, Wanted, table_rule, unchanged

MOST_LAYOUTS = 32
"""The most layouts that a value keeps in each direction; those found first stay.

Each signature of a node comes from a layout of one of its tensors, so this bounds the number of signatures by
the number of tensors, however many layouts have spread that far. Networks stay far below: they use the
layouts of convolutions and the permutations of these by transposes, of which they repeat one or two. A
thousand random transposes of images lead to 27 layouts.
"""


def collect_signatures(
    graph: Graph, offers: Offers, *, rules: Rules = table_rule, pinned: bool = False
) -> dict[Node, list[Signature]]:
    """All signatures of every node, the unchanged one first.

    With ``pinned``, convolutions that are offered a layout lose their unchanged signature: the caller asked
    for that layout, whatever it costs.
    """
    propagation = _Propagation(graph, offers, rules, pinned)
    propagation.forward()
    propagation.backward()
    propagation.forward()
    return propagation.signatures


class _Propagation:
    """Propagates layouts along and against the data flow, and collects the signatures that use them."""

    def __init__(self, graph: Graph, offers: Offers, rules: Rules, pinned: bool) -> None:
        self.graph = graph
        self.offers = offers
        self.rules = {node: rules(node) for node in graph.nodes}
        self.pinned = pinned
        self.signatures: dict[Node, list[Signature]] = {}
        # What each node's signatures were computed from: they are recomputed when it changes.
        self.found_for: dict[Node, Wanted] = {}
        self.provided: dict[Value, dict[Layout, None]] = {
            value: {value.identity: None} for value in graph.parameters
        }
        self.asked: dict[Value, dict[Layout, None]] = {}

    def forward(self) -> None:
        """Propagate the layouts that results are written in to the operators that read them."""
        for node in self.graph.nodes:
            self._find(node)
            for position, value in enumerate(node.results):
                layouts = self.provided.setdefault(value, {})
                for signature in self.signatures[node]:
                    _add_layout(value, signature.results[position], layouts)

    def backward(self) -> None:
        """Propagate the layouts that operands are read in to the operators that write them."""
        for node in reversed(self.graph.nodes):
            self._find(node)
            for signature in self.signatures[node]:
                for value, layout in zip(node.operands, signature.operands, strict=True):
                    if (
                        value.constant is None
                        and len(layout.primal) == value.rank
                        and not _has_unit_block(layout)
                    ):
                        _add_layout(value, layout, self.asked.setdefault(value, {}))

    def _find(self, node: Node) -> None:
        """Compute the signatures of a node, unless they cannot have changed."""
        wanted = Wanted(
            tuple(tuple(self.provided.get(value, ())) for value in node.operands),
            tuple(tuple(self.asked.get(value, ())) for value in node.results),
        )
        before = self.found_for.get(node)
        rule = self.rules[node]
        # The signatures of an anchor do not depend on the layouts around it.
        if before is None or (before != wanted and not (rule and rule.is_anchor)):
            self.found_for[node] = wanted
            self.signatures[node] = self._signatures_of(node, wanted)

    def _signatures_of(self, node: Node, wanted: Wanted) -> list[Signature]:
        original = unchanged(node, self._original_cost(node))
        rule = self.rules[node]
        if rule is None:
            return [original]
        offered = list(rule.signatures(node, wanted, self.offers))
        found = [signature for signature in offered if signature != original]
        # If the original layouts are among those offered, the convolution may keep them.
        pinned = self.pinned and rule.is_anchor and found == offered
        if found and (rule.decides or pinned):
            return found
        return [original, *found]

    def _original_cost(self, node: Node) -> float:
        if not node.operator or node.operator not in TABLE:
            return 0.0
        return self.offers.operator_cost(
            node,
            [value.identity for value in node.operands],
            [value.identity for value in node.results],
        )


def _add_layout(value: Value, layout: Layout, layouts: dict[Layout, None]) -> None:
    """Add ``layout``, a candidate for ``value``, to ``layouts``.

    An aligned layout is added without its alignment too, for operators that cannot pass padding on. If the
    alignment pads nothing, both are the same memory, and only the unaligned one is added, since more
    operators can carry it.
    """
    unaligned = layout.unaligned
    forms = (layout,) if layout == unaligned or not value.shape else (layout, unaligned)
    if len(forms) == 2 and unaligned.rank == value.rank and same_memory(value, *forms):
        forms = (unaligned,)
    for form in forms:
        if len(layouts) < MOST_LAYOUTS:
            layouts[form] = None


def _has_unit_block(layout: Layout) -> bool:
    return any(axis.factor == 1 for axis in layout.axes)
