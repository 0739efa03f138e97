"""Layouts and names as people read them: in the letters of the convolutions around a tensor."""

from string import ascii_uppercase

from relay_layout.graph import Graph, Node, Value
from relay_layout.graph.border import dimension_letters
from relay_layout.layout import Layout
from relay_layout.ops import Signature


class Letters:
    """What the dimensions of a graph's tensors are called.

    A tensor that a convolution reads or writes is called as the convolution's attributes call it, else as a
    pooling or resizing calls it, else as the first convolution of that rank calls its data.
    """

    def __init__(self, graph: Graph) -> None:
        self._by_rank = dimension_letters(graph)
        self._own: dict[Value, str] = {}
        for named in (_by_convolution, _by_window):
            for node in graph.nodes:
                for value, text in named(node):
                    if text.isupper() and len(text) == value.rank:
                        self._own.setdefault(value, text)

    def of(self, value: Value, rank: int | None = None) -> str:
        """One letter for each dimension of ``value``; of its broadcast form where ``rank`` is higher."""
        if rank is None or rank == value.rank:
            return self._own.get(value) or self._of_rank(value.rank)
        return self._of_rank(rank)

    def layout(self, value: Value, layout: Layout) -> str:
        """``layout`` of ``value`` in its letters; a scalar has none."""
        if not layout.primal:
            return "scalar"
        return str(layout.in_letters(self.of(value, len(layout.primal))))

    def signature(self, node: Node, signature: Signature) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The layouts of operands and of results."""
        operands = zip(node.operands, signature.operands, strict=True)
        results = zip(node.results, signature.results, strict=True)
        return (
            tuple(self.layout(value, layout) for value, layout in operands),
            tuple(self.layout(value, layout) for value, layout in results),
        )

    def _of_rank(self, rank: int) -> str:
        return self._by_rank.get(rank, ascii_uppercase[:rank])


def _by_window(node: Node) -> list[tuple[Value, str]]:
    """The image that an operator with one layout reads, and its result."""
    text = str(getattr(node.attributes, "layout", "")) if node.operator and node.operands else ""
    return [(node.operands[0], text), (node.results[0], text)] if text and node.results else []


def _by_convolution(node: Node) -> list[tuple[Value, str]]:
    """The tensors of a convolution, with the layouts that its attributes name."""
    if not node.operator or not hasattr(node.attributes, "data_layout") or len(node.operands) < 2:
        return []
    attributes = node.attributes
    data, kernel = str(attributes.data_layout), str(getattr(attributes, "kernel_layout", ""))
    out = str(getattr(attributes, "out_layout", "") or data)
    return [(node.operands[0], data), (node.operands[1], kernel), (node.results[0], out)]
