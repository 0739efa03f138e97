"""Layouts and names as people read them: in the letters of the convolutions around a tensor."""

from string import ascii_uppercase

from relay_layout.errors import LayoutError
from relay_layout.graph import Graph, Node, Value
from relay_layout.graph.border import USUAL, dimension_letters
from relay_layout.layout import Layout, layout_of_parts
from relay_layout.ops import Signature


class Letters:
    """What the dimensions of a graph's tensors are called.

    A tensor that a convolution reads or writes is called as the convolution's attributes call it, else as a
    pooling or resizing calls it, else as the first convolution of that rank calls its data. Blocks that
    attributes name are dimensions, too: the last of ``NCHW8c`` is ``c``.
    """

    def __init__(self, graph: Graph) -> None:
        self._by_rank = {rank: Layout.parse(text) for rank, text in dimension_letters(graph).items()}
        self._own: dict[Value, Layout] = {}
        for named in (_by_convolution, _by_window):
            for node in graph.nodes:
                for value, text in named(node):
                    found = Layout.parse(text) if text else None
                    if found is None or found.rank != value.rank:
                        continue
                    self._own.setdefault(value, found)
                    if found.is_blocked and str(self._by_rank.get(value.rank)) == USUAL.get(value.rank):
                        # No convolution has as many dimensions without blocks.
                        self._by_rank[value.rank] = found

    def of(self, value: Value, rank: int | None = None) -> str:
        """One letter for each dimension of ``value``; of its broadcast form where ``rank`` is higher."""
        named = self._named(value, value.rank if rank is None else rank)
        return "".join(axis.name if axis.factor is None else axis.name.lower() for axis in named.axes)

    def layout(self, value: Value, layout: Layout) -> str:
        """``layout`` of ``value`` in its letters; a scalar has none."""
        if not layout.primal:
            return "scalar"
        named = self._named(value, len(layout.primal))
        if not named.is_blocked:
            return str(layout.in_letters(str(named)))
        if not layout.is_plain:
            return str(layout)
        turned = tuple(named.axes[ascii_uppercase.index(letter)] for letter in layout.primal)
        try:
            return str(layout_of_parts(turned, named.alignments))
        except LayoutError:
            # A block is written behind its axis alone.
            return str(layout)

    def signature(self, node: Node, signature: Signature) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The layouts of operands and of results."""
        operands = zip(node.operands, signature.operands, strict=True)
        results = zip(node.results, signature.results, strict=True)
        return (
            tuple(self.layout(value, layout) for value, layout in operands),
            tuple(self.layout(value, layout) for value, layout in results),
        )

    def _named(self, value: Value, rank: int) -> Layout:
        own = self._own.get(value)
        if own is not None and own.rank == rank:
            return own
        return self._by_rank.get(rank) or Layout.generic(rank)


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
