"""Matrix products: rows and batch dimensions may lie in any order, the contracted one stays innermost."""

from collections.abc import Iterable

from relay_layout.graph import Node
from relay_layout.layout import Layout
from relay_layout.ops.axis_rule import letters, projected
from relay_layout.ops.signature import Offers, Rule, Signature, Wanted


class MatmulRule(Rule):
    """Rows by a matrix, or a batch of them; with one matrix for all, rows are a batch dimension too."""

    summary = "Batch dimensions are free, and rows where there is one matrix; columns stay innermost."

    def signatures(self, node: Node, wanted: Wanted, offers: Offers) -> Iterable[Signature]:
        """One for each layout of the rows or of the result that leaves the last dimension innermost."""
        left, right = node.operands
        result = node.results[0]
        shapes = (left.shape, right.shape, result.shape)
        if any(shape is None for shape in shapes) or min(left.rank, right.rank) < 2:
            return
        text = letters(result.rank)
        batch, row, column = text[:-2], text[-2], text[-1]
        inner = letters(result.rank + 1)[-1]
        left_text = batch[result.rank - left.rank :] + row + inner
        right_text = batch[result.rank - right.rank :] + inner + column
        candidates = list(wanted.results[0])
        if left.rank == result.rank:
            candidates += wanted.operands[0]
        for layout in dict.fromkeys(candidates):
            if (
                layout.alignments
                or not _is_innermost(layout, column)
                or (right.rank > 2 and not _is_innermost(layout, row, 1))
            ):
                continue
            rows = projected(layout.relabel({column: inner}), left_text, left.shape)
            matrix = Layout.generic(2)
            if right.rank > 2:
                matrices = projected(layout.relabel({row: inner}), right_text, right.shape)
                if matrices is None:
                    continue
                matrix = matrices
            out = projected(layout, text, result.shape)
            if rows is None or out is None or out == result.identity:
                continue
            yield Signature((rows, matrix), (out,), cost=offers.operator_cost(node, (rows, matrix), (out,)))


def _is_innermost(layout: Layout, label: str, after: int = 0) -> bool:
    """Whether ``label`` is one run with ``after`` dimensions inside it."""
    return layout.axes[-1 - after].name == label and label not in layout.blocked_axes
