"""Where tensors padded with zeros for alignment may pass: through operators that keep zeros zero.

What comes out behind the last channel must be zero again, because a convolution reads it, and because
infinities there would spoil sums.
"""

from relay_layout.graph import Node
from relay_layout.layout import Layout

_KEEPS_ZERO = frozenset(
    {
        "abs",
        "ceil",
        "floor",
        "negative",
        "nn.adaptive_avg_pool2d",
        "nn.avg_pool2d",
        "nn.gelu",
        "nn.leakyrelu",
        "nn.max_pool2d",
        "nn.relu",
        "nn.silu",
        "permute_dims",
        "round",
        "sign",
        "sin",
        "sqrt",
        "square",
        "tanh",
        "trunc",
    }
)
"""Operators of one tensor whose value at zero is zero."""

_KEEPS_ZEROS = frozenset({"add", "maximum", "minimum", "multiply", "subtract"})
"""Operators of two tensors that are zero where both are."""


def passes_alignment(
    node: Node, layout: Layout, whole: frozenset[str], operands: tuple[str | None, ...]
) -> bool:
    """Whether a node may run in an aligned layout over its labels.

    ``whole`` are labels that it treats as one run; an operand without labels (a scalar) is not padded.
    """
    if not layout.alignments:
        return True
    if layout.is_blocked or any(label in whole for label, _ in layout.alignments):
        return False
    if node.operator in _KEEPS_ZERO:
        return True
    aligned = {label for label, _ in layout.alignments}
    return node.operator in _KEEPS_ZEROS and all(
        text is not None and aligned <= set(text) for text in operands
    )
