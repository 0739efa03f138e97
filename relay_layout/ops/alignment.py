"""Where tensors padded with zeros for alignment may pass: through operators that keep zeros zero.

What comes out behind the last channel must be zero again, because a convolution reads it, and because
infinities there would spoil sums.
"""

from collections.abc import Sequence
from math import isfinite

from relay_layout.graph import Node, Value
from relay_layout.ir import constant_array
from relay_layout.layout import Layout

_WINDOWS = frozenset(
    f"nn.{kind}_pool{rank}d" for kind in ("adaptive_avg", "avg", "max") for rank in (1, 2, 3)
) | {"image.resize2d"}
"""Operators that see a few pixels of one channel."""

_KEEPS_ZEROS = frozenset(
    {
        "abs",
        "add",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "ceil",
        "concat",
        "divide",
        "erf",
        "floor",
        "max",
        "maximum",
        "mean",
        "min",
        "minimum",
        "multiply",
        "negative",
        "nn.gelu",
        "nn.gelu_tanh",
        "nn.leakyrelu",
        "nn.relu",
        "nn.selu",
        "nn.silu",
        "permute_dims",
        "round",
        "sign",
        "sin",
        "sinh",
        "split",
        "sqrt",
        "square",
        "std",
        "strided_slice",
        "subtract",
        "sum",
        "tan",
        "tanh",
        "trunc",
        "variance",
    }
)
"""Operators that give zeros of zeros, along dimensions that they neither join nor reduce; quotients by what
is not padded."""


def passes_alignment(
    node: Node,
    layout: Layout,
    whole: frozenset[str],
    exact: frozenset[str],
    operands: Sequence[str | None],
    results: Sequence[str | None],
) -> bool:
    """Whether a node may run in an aligned layout over its labels.

    ``whole`` are labels that it treats as one run, ``exact`` those along which its tensors differ. An operand
    without labels (a scalar) is not padded, so that it may only be a factor.
    """
    aligned = {label for label, _ in layout.alignments}
    if not aligned:
        return True
    if layout.is_blocked or aligned & whole:
        return False
    if node.operator in _WINDOWS:
        return True
    if not _keeps_zeros(node) or aligned & exact or not all(aligned <= set(text or "") for text in results):
        return False
    if node.operator == "divide" and operands[1] is not None:
        # A padded divisor is zero where the dividend is.
        return False
    return all(
        _is_factor(node, place, value) if text is None else aligned <= set(text)
        for place, (text, value) in enumerate(zip(operands, node.operands, strict=True))
    )


def _keeps_zeros(node: Node) -> bool:
    if node.operator == "clip":
        least, most = (getattr(argument, "value", argument) for argument in node.expression.args[1:])
        numbers = isinstance(least, int | float) and isinstance(most, int | float)
        return numbers and least <= 0 <= most
    if node.operator == "nn.pad":
        constant = str(node.attributes.pad_mode) == "constant"
        return len(node.operands) == 1 and (not constant or float(node.attributes.pad_value) == 0.0)
    return node.operator in _KEEPS_ZEROS


def _is_factor(node: Node, place: int, value: Value) -> bool:
    """Whether a constant of one element leaves zeros zero, as a factor or a divisor."""
    if value.constant is None or node.operator not in ("multiply", "divide"):
        return False
    number = float(constant_array(value.constant).reshape(-1)[0])
    return isfinite(number) and (node.operator == "multiply" or (place == 1 and number != 0))
