"""Every edge of a converted function: what is provided must be what is expected."""

from collections.abc import Sequence

from relay_layout.errors import VerificationError
from relay_layout.graph import Value
from relay_layout.ir import Expression, shape_of
from relay_layout.layout import Layout
from relay_layout.rewrite import Placement
from relay_layout.solver import expanded_shape


def verify(function_name: str, placements: Sequence[Placement]) -> None:
    """Check the tensors around every rewritten node against the layouts its signature names.

    Raises :class:`VerificationError` naming function, binding, operator, and both sides.
    """
    for placement in placements:
        node, signature = placement.node, placement.signature
        sides = [
            *zip(node.operands, signature.operands, placement.operands, strict=True),
            *zip(node.results, signature.results, placement.results, strict=True),
        ]
        for value, layout, expression in sides:
            _check(function_name, placement, value, layout, expression)


def _check(function: str, placement: Placement, value: Value, layout: Layout, expression: Expression) -> None:
    rank = len(layout.primal)
    if value.shape is None:
        return
    expected = tuple(layout.shape(expanded_shape(value, rank), Layout.generic(rank))) if rank else ()
    provided = shape_of(expression)
    if (
        provided is None
        or len(provided) != len(expected)
        or any(
            isinstance(left, int) and isinstance(right, int) and left != right
            for left, right in zip(provided, expected, strict=True)
        )
    ):
        node = placement.node
        raise VerificationError(
            f"function '{function}', binding '{node.name}' ({node.operator or 'expression'}): tensor "
            f"'{value.name}' is provided as {provided}, layout {layout} expects {expected}; this is a bug in "
            "the operator's row, please report it"
        )
