"""How often the variables of a function are read."""

from collections.abc import Callable, Mapping

from tvm import relax

from relay_layout.ir import Constant, Expression, bindings_of


def count_uses(function: relax.Function) -> dict[str, int]:
    """How often each variable is read, by name; shared names add up, which only prevents a fold."""
    uses: dict[str, int] = {}

    def count(expression: Expression) -> None:
        for variable in variables_read(expression):
            uses[variable.name] = uses.get(variable.name, 0) + 1

    for binding in bindings_of(function):
        count(binding.value)
    count(function.body.body)
    return uses


def call_read_once(
    data: Expression, uses: Mapping[str, int], bound: Callable[[relax.Var], Expression | None]
) -> relax.Call | None:
    """The call that ``bound`` finds for the variable ``data``, if nothing else reads it."""
    if not isinstance(data, relax.Var) or uses.get(data.name, 0) > 1:
        return None
    value = bound(data)
    return value if isinstance(value, relax.Call) else None


def variables_read(expression: Expression) -> list[relax.Var]:
    """The variables that an expression in A-normal form reads, in order, each as often as it is read."""
    if isinstance(expression, relax.Var):
        return [expression]
    if isinstance(expression, relax.Call):
        return [variable for argument in expression.args for variable in variables_read(argument)]
    if isinstance(expression, relax.Tuple):
        return [variable for element in expression.fields for variable in variables_read(element)]
    if isinstance(expression, relax.TupleGetItem):
        return variables_read(expression.tuple_value)
    if isinstance(expression, (Constant, relax.ShapeExpr)):
        return []
    return list(relax.analysis.free_vars(expression)) if isinstance(expression, relax.Expr) else []
