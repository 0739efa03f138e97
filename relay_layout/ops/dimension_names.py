"""What the dimensions of a graph's tensors are called, for those who are asked for layouts by name."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from relay_layout.graph import Graph, Node, Value
from relay_layout.graph.border import dimension_letters
from relay_layout.ops.axis_rule import AxisRule
from relay_layout.ops.table import table_rule


class DimensionNames:
    """A letter for each dimension of a tensor.

    Convolutions, poolings and resizings call the dimensions of their tensors by the layouts that they name;
    operators that relate dimensions carry the letters on, so that channels are C on both sides of a
    transposition. A tensor that none reaches is called as the first convolution of its rank calls its data.
    ``known`` are names that others gave, ``within`` graphs that nodes of this one stand for.
    """

    def __init__(
        self, graph: Graph, known: Mapping[Value, str] = MappingProxyType({}), within: Iterable[Graph] = ()
    ) -> None:
        self._by_rank = dimension_letters(graph, *within)
        self._own = dict(known)
        for node in graph.nodes:
            for value, text in _named(node):
                self._own.setdefault(value, text)
        slots = [found for found in map(_slots, graph.nodes) if found]
        count = -1
        while count < len(self._own):
            count = len(self._own)
            for found in (*slots, *reversed(slots)):
                self._carry(found)

    def of(self, value: Value) -> str:
        """One letter for each dimension; "" where its rank has no usual names."""
        return self.reached(value) or self._by_rank.get(value.rank, "")

    def reached(self, value: Value) -> str:
        """The same of a tensor that an operator which names dimensions reaches; "" of others."""
        return self._own.get(value, "")

    def _carry(self, slots: list[tuple[Value, str]]) -> None:
        """Name the tensors of a node by what is known of the others."""
        names: dict[str, str] = {}
        for value, labels in slots:
            for label, letter in zip(labels, self._own.get(value, ""), strict=False):
                names.setdefault(label, letter)
        if len(set(names.values())) < len(names):
            return
        for value, labels in slots:
            if value not in self._own and all(label in names for label in labels):
                self._own[value] = "".join(names[label] for label in labels)


def _named(node: Node) -> Iterator[tuple[Value, str]]:
    """The tensors whose layouts an operator names, without blocks."""
    if not node.operator or not node.operands or not node.results:
        return
    attributes = node.attributes
    data = getattr(attributes, "data_layout", None) or getattr(attributes, "layout", None)
    texts = [(node.operands[0], data), (node.results[0], getattr(attributes, "out_layout", None) or data)]
    kernel = 2 if "deformable" in node.operator else 1
    if kernel < len(node.operands):
        texts.append((node.operands[kernel], getattr(attributes, "kernel_layout", None)))
    for value, text in texts:
        if isinstance(text, str) and text.isupper() and len(text) == value.rank:
            yield value, text


def _slots(node: Node) -> list[tuple[Value, str]]:
    """The tensors of a node with a label for each of their dimensions; nothing where that is not known."""
    rule = table_rule(node)
    labels = rule.labels(node) if isinstance(rule, AxisRule) and node.has_known_ranks else None
    if labels is None:
        return []
    texts = (*labels.operands, *labels.results)
    tensors = (*node.operands, *node.results)
    return [
        (value, text) for value, text in zip(tensors, texts, strict=True) if text and len(text) == value.rank
    ]
