"""Walking over the syntax tree, and what it tells of an expression as a whole. Nothing here recurses."""

from collections.abc import Iterator

from relay_layout.relay.syntax.tree import (
    Call,
    Expression,
    Function,
    If,
    Let,
    Module,
    Tuple,
    TupleGetItem,
    Var,
)


def children(expression: Expression) -> tuple[Expression, ...]:
    """The operands of an expression, in the order in which they are evaluated; variables it binds are not."""
    if isinstance(expression, Call):
        if isinstance(expression.op, str):
            return expression.args
        return (*expression.args, expression.op)
    if isinstance(expression, Tuple):
        return expression.fields
    if isinstance(expression, TupleGetItem):
        return (expression.tuple_value,)
    if isinstance(expression, Let):
        return (expression.value, expression.body)
    if isinstance(expression, If):
        return (expression.condition, expression.true_branch, expression.false_branch)
    if isinstance(expression, Function):
        return (expression.body,)
    return ()


def post_order(root: Expression) -> Iterator[Expression]:
    """Every expression reachable from ``root`` once, operands before their users, without recursion."""
    finished: set[int] = set()
    opened: set[int] = set()
    stack = [root]
    while stack:
        expression = stack[-1]
        key = id(expression)
        if key in finished:
            stack.pop()
        elif key in opened:
            stack.pop()
            finished.add(key)
            yield expression
        else:
            opened.add(key)
            stack.extend(operand for operand in reversed(children(expression)) if id(operand) not in finished)


def module_of_expression(expression: Expression) -> Module:
    """The module whose ``main`` is a function, or computes an expression of its free variables."""
    if not isinstance(expression, Function):
        expression = Function(free_variables(expression), expression)
    return Module({"main": expression})


def free_variables(expression: Expression) -> tuple[Var, ...]:
    """The variables that an expression uses and does not bind, in the order of their first use."""
    used: dict[Var, None] = {}
    bound: set[Var] = set()
    for part in post_order(expression):
        if isinstance(part, Var):
            used[part] = None
        elif isinstance(part, Let):
            bound.add(part.var)
        elif isinstance(part, Function):
            bound.update(part.params)
    return tuple(variable for variable in used if variable not in bound)
