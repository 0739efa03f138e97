"""The signatures worth offering to the solver: layouts spread from the operators that choose them.

Convolutions name layouts; every operator around them that can carry one gets a signature for it,
first in the direction of the data and then against it, so that a transform may sit on either side
of a chain. What no operator asks for is not considered.
"""

from collections.abc import Callable

from relay_layout.choice.memory import same_memory
from relay_layout.graph import Graph, Node, Value
from relay_layout.layout import Layout
from relay_layout.ops import TABLE, Offers, Rule, Signature, Wanted, unchanged
from relay_layout.ops.convolution_rule import ConvolutionRule

Rules = Callable[[Node], Rule | None]
"""The rule of a node, None if it keeps its layouts."""


MOST_LAYOUTS = 32
"""Layouts that a value keeps in either direction, those found first.

A signature has a layout of some tensor around its node, so this bounds the signatures of a node by the number
of its tensors, however long the way on which layouts gather. What networks name is far below: the layouts of
convolutions, and those as the transposes on the way turn them, of which they repeat one or two. A thousand
random transposes of images gather 27.
"""


def table_rule(node: Node) -> Rule | None:
    """The rule of the operator table."""
    return TABLE.get(node.operator)


def collect_signatures(
    graph: Graph, offers: Offers, *, rules: Rules = table_rule, pinned: bool = False
) -> dict[Node, list[Signature]]:
    """All signatures of every node, the unchanged one first.

    With ``pinned`` the convolutions that are offered anything lose their unchanged signature: the
    caller asked for a layout, so it is taken whatever it costs.
    """
    spread = _Spread(graph, offers, rules, pinned)
    spread.forward()
    spread.backward()
    spread.forward()
    return spread.signatures


class _Spread:
    def __init__(self, graph: Graph, offers: Offers, rules: Rules, pinned: bool) -> None:
        self.graph = graph
        self.offers = offers
        self.rules = {node: rules(node) for node in graph.nodes}
        self.pinned = pinned
        self.signatures: dict[Node, list[Signature]] = {}
        # What each node's signatures were found for: without news around it they stay.
        self.found_for: dict[Node, Wanted] = {}
        self.provided: dict[Value, dict[Layout, None]] = {
            value: {value.identity: None} for value in graph.parameters
        }
        self.asked: dict[Value, dict[Layout, None]] = {}

    def forward(self) -> None:
        for node in self.graph.nodes:
            self._find(node)
            for position, value in enumerate(node.results):
                layouts = self.provided.setdefault(value, {})
                for signature in self.signatures[node]:
                    _note(value, signature.results[position], layouts)

    def backward(self) -> None:
        for node in reversed(self.graph.nodes):
            self._find(node)
            for signature in self.signatures[node]:
                for value, layout in zip(node.operands, signature.operands, strict=True):
                    if (
                        value.constant is None
                        and len(layout.primal) == value.rank
                        and not _has_unit_block(layout)
                    ):
                        _note(value, layout, self.asked.setdefault(value, {}))

    def _find(self, node: Node) -> None:
        """The signatures of a node, found anew where they may have changed."""
        wanted = Wanted(
            tuple(tuple(self.provided.get(value, ())) for value in node.operands),
            tuple(tuple(self.asked.get(value, ())) for value in node.results),
        )
        before = self.found_for.get(node)
        # A convolution answers what it is offered, whatever is around it.
        if before is None or (before != wanted and not isinstance(self.rules[node], ConvolutionRule)):
            self.found_for[node] = wanted
            self.signatures[node] = self._signatures_of(node, wanted)

    def _signatures_of(self, node: Node, wanted: Wanted) -> list[Signature]:
        original = unchanged(node, self._original_cost(node))
        rule = self.rules[node]
        if rule is None:
            return [original]
        offered = list(rule.signatures(node, wanted, self.offers))
        found = [signature for signature in offered if signature != original]
        # A convolution that may keep its layouts is offered them too.
        pinned = self.pinned and isinstance(rule, ConvolutionRule) and found == offered
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


def _note(value: Value, layout: Layout, layouts: dict[Layout, None]) -> None:
    """Add a layout that a value may have to those noted before.

    One that is aligned stands for two: what cannot pass padding on runs in the same order without it. Where
    nothing is padded, both are the same memory, and the plain one can be carried by more.
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
