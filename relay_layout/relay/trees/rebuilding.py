"""Changed copies of expressions, without recursion."""

from collections.abc import Callable, Mapping
from typing import Any

from relay_layout.relay.expression import Function, as_expression
from relay_layout.relay.syntax import children, free_variables, post_order, tree


def rebuilt(
    root: tree.Expression, change: Callable[[tree.Expression], tree.Expression | None]
) -> tree.Expression:
    """A copy in which ``change`` replaced expressions; it is given each once, with its operands replaced.

    None keeps the expression. What does not change is not copied.
    """
    new: dict[int, tree.Expression] = {}
    for part in post_order(root):
        copy = with_new_operands(part, new)
        changed = change(copy)
        new[id(part)] = copy if changed is None else changed
    return new[id(root)]


def with_new_operands(part: tree.Expression, new: Mapping[int, tree.Expression]) -> tree.Expression:
    """An expression with the operands that ``new`` has for those it has, by their ids; itself where these are
    the same.
    """
    if all(new[id(operand)] is operand for operand in children(part)):
        return part
    return with_children(part, lambda operand: new[id(operand)])


def with_children(
    expression: tree.Expression, change: Callable[[tree.Expression], tree.Expression]
) -> tree.Expression:
    """A copy of an expression with its operands changed; variables that it binds stay."""
    if isinstance(expression, tree.Call):
        op: Any = expression.op if isinstance(expression.op, str) else change(expression.op)
        return tree.Call(op, tuple(map(change, expression.args)), expression.attrs, expression.span)
    if isinstance(expression, tree.Tuple):
        return tree.Tuple(tuple(map(change, expression.fields)))
    if isinstance(expression, tree.TupleGetItem):
        return tree.TupleGetItem(change(expression.tuple_value), expression.index)
    if isinstance(expression, tree.Let):
        return tree.Let(expression.var, change(expression.value), change(expression.body))
    if isinstance(expression, tree.If):
        return tree.If(*map(change, children(expression)))
    if isinstance(expression, tree.Function):
        return Function(expression.params, change(expression.body), attrs=expression.attrs)
    return expression


def bind(expr: tree.Expression, binds: Mapping[tree.Var, Any]) -> tree.Expression:
    """An expression with values for free variables, or a function with values for parameters.

    Parameters that get a value are parameters no longer; variables that values bring in become some.
    """
    values = {variable: as_expression(value) for variable, value in binds.items()}

    def change(part: tree.Expression) -> tree.Expression | None:
        return values.get(part) if isinstance(part, tree.Var) else None

    if not isinstance(expr, tree.Function):
        return rebuilt(expr, change)
    body = rebuilt(expr.body, change)
    kept = [parameter for parameter in expr.params if parameter not in values]
    brought = {
        variable for value in values.values() for variable in free_variables(value) if variable not in kept
    }
    added = [variable for variable in free_variables(body) if variable in brought]
    return Function((*kept, *added), body, attrs=expr.attrs)
