"""Expressions as patterns take them: what scripts built, and functions of modules as Relay."""

from typing import Any

from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.relay.exporting.module import body_to_tree, function_to_tree
from relay_layout.relay.expression import as_expression
from relay_layout.relay.syntax import post_order, relay_types, tree
from relay_layout.relay.trees.rebuilding import rebuilt


def as_matchable(expr: Any) -> tree.Expression:
    """What a script built, as it is, or a function of a module or its body, with biases as ``nn.bias_add``,
    which patterns and visitors of scripts ask for. TypeError for anything else.
    """
    if isinstance(expr, relax.SeqExpr):
        return with_bias_adds(body_to_tree(expr))
    if isinstance(expr, relax.Function) and not isinstance(expr, tree.EXPRESSIONS):
        return with_bias_adds(function_to_tree(expr))
    return as_expression(expr)


def with_bias_adds(root: tree.Expression) -> tree.Expression:
    """Sums of a vector along an axis as nn.bias_add, which modules have as expand_dims and add.

    So are sums of a vector and what a product or a convolution gives whose channels come last, which modules
    have as they are.
    """

    def change(part: tree.Expression) -> tree.Expression | None:
        if not isinstance(part, tree.Call) or part.op != "add":
            return None
        for data, shaped in (part.args, reversed(part.args)):
            if isinstance(data, tree.Call) and _has_last_channels(data) and _is_vector(shaped):
                return tree.Call("nn.bias_add", (data, shaped), _axis((_rank(data) or 2) - 1))
            if not isinstance(shaped, tree.Call) or shaped.op != "expand_dims":
                continue
            added = int(str(shaped.attrs["num_newaxis"]))
            if shaped.attrs["axis"] in (1, -added) and _rank(shaped.args[0]) == 1:
                rank = _rank(data)
                if rank is not None and rank > added:
                    return tree.Call("nn.bias_add", (data, shaped.args[0]), _axis(rank - 1 - added))
        return None

    has_vectors = any(
        isinstance(part, tree.Call) and (part.op == "expand_dims" or _has_last_channels(part))
        for part in post_order(root)
    )
    return rebuilt(root, change) if has_vectors else root


def _has_last_channels(call: tree.Call) -> bool:
    """Whether it is a product with a matrix, or a convolution whose result has its channels last."""
    if call.op == "nn.dense":
        return _rank(call) == 2
    if not isinstance(call.op, str) or not call.op.startswith("nn.conv"):
        return False
    layout = call.attrs.get("out_layout") or call.attrs.get("data_layout") or ""
    return str(layout).endswith("C")


def _is_vector(expression: tree.Expression) -> bool:
    """Whether it has one dimension, and more than one element that a sum would repeat."""
    kind = expression.checked_type if _rank(expression) == 1 else None
    return isinstance(kind, relay_types.TensorType) and kind.shape[0] != 1


def _axis(axis: int) -> dict[str, tree.AttributeValue]:
    return {} if axis == 1 else {"axis": axis}


def _rank(expression: tree.Expression) -> int | None:
    try:
        kind = expression.checked_type
    except ModelError:
        return None
    return len(kind.shape) if isinstance(kind, relay_types.TensorType) else None
