"""Walking over expressions and making changed copies of them, without recursion where it is ours."""

from __future__ import annotations

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
        same = all(new[id(operand)] is operand for operand in children(part))
        copy = part if same else with_children(part, lambda operand: new[id(operand)])
        changed = change(copy)
        new[id(part)] = copy if changed is None else changed
    return new[id(root)]


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


class ExprVisitor:
    """Visits every expression once; methods such as ``visit_call`` may be overridden.

    A method that is overridden visits operands with ``super().visit_call(call)`` or ``self.visit``.
    """

    def __init__(self) -> None:
        self.memo_map: dict[tree.Expression, Any] = {}

    def visit(self, expr: Any) -> Any:
        """What the method for the expression's class returns, remembered."""
        if expr not in self.memo_map:
            self.memo_map[expr] = getattr(self, _METHODS[_class_of(expr)])(expr)
        return self.memo_map[expr]

    def _operands(self, expr: Any) -> Any:
        if isinstance(expr, tree.Function):
            for parameter in expr.params:
                self.visit(parameter)
        if isinstance(expr, tree.Let):
            self.visit(expr.var)
        for operand in children(expr):
            self.visit(operand)
        return None

    visit_var = visit_global_var = visit_constant = visit_call = visit_tuple = _operands
    visit_tuple_getitem = visit_let = visit_if = visit_function = _operands


class ExprMutator(ExprVisitor):
    """Makes a changed copy; methods such as ``visit_call`` may be overridden to return another expression."""

    def _copy(self, expr: Any) -> Any:
        return with_children(expr, self.visit)

    def visit_function(self, fn: Any) -> Any:
        """The function with its parameters and body visited."""
        return Function(
            [self.visit(parameter) for parameter in fn.params], self.visit(fn.body), attrs=fn.attrs
        )

    def visit_let(self, let: Any) -> Any:
        """The binding with its variable, value and body visited."""
        return tree.Let(self.visit(let.var), self.visit(let.value), self.visit(let.body))

    visit_var = visit_global_var = visit_constant = visit_call = visit_tuple = _copy
    visit_tuple_getitem = visit_if = _copy


_METHODS = {
    tree.Var: "visit_var",
    tree.GlobalVar: "visit_global_var",
    tree.Constant: "visit_constant",
    tree.Call: "visit_call",
    tree.Tuple: "visit_tuple",
    tree.TupleGetItem: "visit_tuple_getitem",
    tree.Let: "visit_let",
    tree.If: "visit_if",
    tree.Function: "visit_function",
}


def _class_of(expr: Any) -> type:
    for kind in _METHODS:
        if isinstance(expr, kind):
            return kind
    raise TypeError(f"an expression is needed, not {type(expr).__name__}")
