"""Walking over expressions and making changed copies of them, by methods that scripts override."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tvm import relax

from relay_layout.relay.expression import Function
from relay_layout.relay.syntax import children, tree
from relay_layout.relay.trees.matchable import as_matchable
from relay_layout.relay.trees.rebuilding import with_children

_DEEPEST = 10_000
"""Frames that visits may take, as Relay allowed them: methods that are overridden call one another."""


class ExprFunctor:
    """Asks a method such as ``visit_call`` for every expression once; all of them are to be overridden.

    ``self.visit`` asks for operands. Functions of modules are taken as Relay text has them.
    """

    def __init__(self) -> None:
        self.memo_map: dict[tree.Expression, Any] = {}

    def visit(self, expr: Any) -> Any:
        """What the method for the expression's class returns, remembered."""
        if isinstance(expr, relax.Function | relax.SeqExpr) and not isinstance(expr, tree.EXPRESSIONS):
            expr = as_matchable(expr)
        if expr not in self.memo_map:
            method = getattr(self, _METHODS[_class_of(expr)])
            if sys.getrecursionlimit() >= _DEEPEST:
                self.memo_map[expr] = method(expr)
            else:
                with _deep_recursion():
                    self.memo_map[expr] = method(expr)
        return self.memo_map[expr]

    def _missing(self, expr: Any) -> Any:
        method = _METHODS[_class_of(expr)]
        raise NotImplementedError(f"{type(self).__name__} has no {method}")

    visit_var = visit_global_var = visit_constant = visit_call = visit_tuple = _missing
    visit_tuple_getitem = visit_let = visit_if = visit_function = _missing

    def visit_op(self, op: Any) -> Any:
        """The operator of a call, which is an expression in Relay and may be visited: itself."""
        return op


class ExprVisitor(ExprFunctor):
    """Visits every expression once; methods such as ``visit_call`` may be overridden.

    A method that is overridden visits operands with ``super().visit_call(call)`` or ``self.visit``.
    """

    def _operands(self, expr: Any) -> Any:
        if isinstance(expr, tree.Function):
            for parameter in expr.params:
                self.visit(parameter)
        if isinstance(expr, tree.Let):
            self.visit(expr.var)
        if isinstance(expr, tree.Call) and isinstance(expr.op, tree.OperatorName):
            self.visit(expr.op)
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
    tree.OperatorName: "visit_op",
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


@contextmanager
def _deep_recursion() -> Iterator[None]:
    allowed = sys.getrecursionlimit()
    sys.setrecursionlimit(_DEEPEST)
    try:
        yield
    finally:
        sys.setrecursionlimit(allowed)


def _class_of(expr: Any) -> type:
    for kind in _METHODS:
        if isinstance(expr, kind):
            return kind
    raise TypeError(f"an expression is needed, not {type(expr).__name__}")
