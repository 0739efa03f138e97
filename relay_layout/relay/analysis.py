"""``relay.analysis``: questions about expressions. Relax functions and modules are looked at as Relay."""

from collections import Counter
from collections.abc import Callable, Collection
from math import prod
from typing import Any

import tvm
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.ir import is_static, relax_functions
from relay_layout.layout import Layout
from relay_layout.relay.exporting.module import body_to_tree, function_to_tree
from relay_layout.relay.expression import TupleWrapper
from relay_layout.relay.missing import refuser
from relay_layout.relay.syntax import children, free_variables, post_order, relay_types, tree
from relay_layout.relay.trees.inference import type_of
from relay_layout.relay.trees.matchable import as_matchable
from relay_layout.relay.trees.rebuilding import bind

__getattr__ = refuser(__name__)


def free_vars(expr: Any) -> list[tree.Var]:
    """The variables that an expression uses and does not bind, in the order of their first use."""
    return list(free_variables(_tree_of(expr)))


def bound_vars(expr: Any) -> list[tree.Var]:
    """The variables that functions and ``let`` in an expression bind, in order."""
    found: dict[tree.Var, None] = {}
    for part in post_order(_tree_of(expr)):
        found.update(dict.fromkeys(_binds(part)))
    return list(found)


def all_vars(expr: Any) -> list[tree.Var]:
    """Every variable in an expression: a function's parameters, then the others by first use."""
    root = _tree_of(expr)
    found = dict.fromkeys(root.params) if isinstance(root, tree.Function) else {}
    for part in post_order(root):
        found.update(dict.fromkeys([part] if isinstance(part, tree.Var) else _binds(part)))
    return list(found)


def post_order_visit(expr: Any, fvisit: Callable[[Any], Any]) -> None:
    """Call ``fvisit`` with every part of an expression once, operands before their users.

    A function's parameters are visited even where it does not use them. Biases of a module's function are
    ``nn.bias_add``, as for visitors and patterns.
    """
    seen: set[int] = set()
    for part in post_order(as_matchable(expr["main"] if isinstance(expr, tvm.IRModule) else expr)):
        for visited in (*_binds(part), part):
            if id(visited) not in seen:
                seen.add(id(visited))
                fvisit(visited)


def check_constant(expr: Any) -> bool:
    """Whether an expression is a constant, or a tuple of such."""
    root = _tree_of(expr)
    if isinstance(root, tree.Tuple):
        return all(map(check_constant, root.fields))
    return isinstance(root, tree.Constant)


def all_dtypes(expr: Any) -> set[str]:
    """The data types of all tensors in an expression."""
    kinds = [part.checked_type for part in post_order(_tree_of(expr)) if not isinstance(part, tree.Function)]
    found: set[str] = set()
    while kinds:
        kind = kinds.pop()
        if isinstance(kind, relay_types.TupleType):
            kinds.extend(kind.fields)
        elif isinstance(kind, relay_types.TensorType):
            found.add(kind.dtype)
    return found


def list_op_freqs(mod: tvm.IRModule) -> dict[str, int]:
    """How often each operator is called in a module."""
    counts: Counter[str] = Counter()
    for function in relax_functions(mod).values():
        counts.update(
            str(part.op)
            for part in post_order(function_to_tree(function))
            if isinstance(part, tree.Call) and isinstance(part.op, str)
        )
    return dict(counts)


def count_layers(expr: Any, valid_ops: Collection[str]) -> int:
    """The most operators of these names that follow one another in an expression."""
    depths: dict[int, int] = {}
    for part in post_order(_tree_of(expr)):
        before = max((depths[id(operand)] for operand in children(part)), default=0)
        depths[id(part)] = before + (isinstance(part, tree.Call) and part.op in valid_ops)
    return max(depths.values())


def get_total_mac_number(expr: Any) -> int:
    """The multiply-adds of all convolutions, dense layers and batched products in an expression.

    ModelError where extents are open.
    """
    return sum(
        _multiply_adds(part)
        for part in post_order(_tree_of(expr))
        if isinstance(part, tree.Call) and part.op in _KERNEL_LAYOUTS
    )


def well_formed(expr: Any) -> bool:
    """Whether no variable is bound twice, and a function uses none that it does not bind."""
    root = _tree_of(expr)
    bound = [variable for part in post_order(root) for variable in _binds(part)]
    return len(bound) == len(set(bound)) and not (isinstance(root, tree.Function) and free_vars(root))


def check_basic_block_normal_form(expr: Any) -> bool:
    """Whether an expression can be imported into Relax, where every module is in normal form."""
    try:
        _tree_of(expr).checked_type  # noqa: B018
    except ModelError:
        return False
    return True


_KERNEL_LAYOUTS = {
    "nn.conv1d": "OIW",
    "nn.conv2d": "OIHW",
    "nn.conv3d": "OIDHW",
    "nn.contrib_conv2d_NCHWc": "OIHW",
    "nn.contrib_depthwise_conv2d_NCHWc": "OIHW",
    "nn.conv1d_transpose": "IOW",
    "nn.conv2d_transpose": "IOHW",
    "nn.conv3d_transpose": "IODHW",
    "nn.dense": "OI",
    "nn.matmul": "",
    "nn.batch_matmul": "NOI",
}
"""Operators that multiply and add, with the layouts that their weights have by default."""


def _multiply_adds(call: tree.Call) -> int:
    """For each element of the result, one for each weight of its output channel."""
    result, weight = (_static_shape(part, str(call.op)) for part in (call, call.args[1]))
    if call.op == "nn.matmul":
        return prod(result) * weight[-1 if call.attrs.get("transpose_b", False) else -2]
    layout = str(call.attrs.get("kernel_layout", _KERNEL_LAYOUTS[str(call.op)]))
    if call.op == "nn.batch_matmul" and not call.attrs.get("transpose_b", False):
        layout = "NIO"
    axes = Layout.parse(layout).axes
    outputs = [extent for axis, extent in zip(axes, weight, strict=True) if axis.name in ("O", "N")]
    return prod(result) * (prod(weight) // prod(outputs))


def _static_shape(part: tree.Expression, operator: str) -> tuple[int, ...]:
    shape = getattr(type_of(part), "shape", ())
    if not is_static(shape):
        raise ModelError(f"{operator}: shape {list(shape)} is open, multiply-adds cannot be counted")
    return tuple(shape)


def _binds(part: tree.Expression) -> tuple[tree.Var, ...]:
    if isinstance(part, tree.Function):
        return part.params
    return (part.var,) if isinstance(part, tree.Let) else ()


def _tree_of(expr: Any) -> tree.Expression:
    """An expression with every operator that its module has: biases stay ``expand_dims`` and ``add``."""
    if isinstance(expr, TupleWrapper):
        return expr.tuple_value
    if isinstance(expr, tree.EXPRESSIONS):
        return expr
    if isinstance(expr, tvm.IRModule):
        return function_to_tree(expr["main"])
    if isinstance(expr, relax.Function):
        return function_to_tree(expr)
    if isinstance(expr, relax.SeqExpr):
        return body_to_tree(expr)
    raise TypeError(f"an expression is needed, not {type(expr).__name__}")


__all__ = [
    "all_vars",
    "bind",
    "bound_vars",
    "check_basic_block_normal_form",
    "count_layers",
    "free_vars",
    "get_total_mac_number",
    "list_op_freqs",
    "post_order_visit",
    "well_formed",
]
