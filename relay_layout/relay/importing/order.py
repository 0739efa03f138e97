"""One order of bindings for equal graphs, so that equal Relay modules are equal Relax modules."""

import tvm
from tvm import relax

from relay_layout.graph.uses import variables_read
from relay_layout.ir import (
    Expression,
    bindings_of,
    function_attributes,
    function_scope,
    rebuild_functions,
    with_attributes,
)


def canonical_order(module: tvm.IRModule) -> tvm.IRModule:
    """Every function with its bindings in the order in which its result needs them; unneeded ones vanish."""
    return rebuild_functions(module, _ordered)


def _ordered(function: relax.Function) -> relax.Function:
    bound = {binding.var: binding.value for binding in bindings_of(function)}
    builder = relax.BlockBuilder()
    new: dict[relax.Var, relax.Var] = {}
    with function_scope(builder, "main", function.params, function_attributes(function)):
        with builder.dataflow():
            stack = list(reversed(variables_read(function.body.body)))
            while stack:
                variable = stack[-1]
                value = bound.get(variable)
                if variable in new or value is None:
                    stack.pop()
                    continue
                missing = [used for used in variables_read(value) if used in bound and used not in new]
                if missing:
                    stack.extend(reversed(missing))
                    continue
                stack.pop()
                new[variable] = builder.emit(_renamed(value, new))
            output = builder.emit_output(_renamed(function.body.body, new))
        builder.emit_func_output(output)
    return builder.finalize()["main"]


def _renamed(expression: Expression, new: dict[relax.Var, relax.Var]) -> Expression:
    if isinstance(expression, relax.Var):
        return new.get(expression, expression)
    if isinstance(expression, relax.Call):
        arguments = [_renamed(argument, new) for argument in expression.args]
        return with_attributes(expression, arguments)
    if isinstance(expression, relax.Tuple):
        return relax.Tuple([_renamed(element, new) for element in expression.fields])
    if isinstance(expression, relax.TupleGetItem):
        return relax.TupleGetItem(_renamed(expression.tuple_value, new), expression.index)
    return expression
