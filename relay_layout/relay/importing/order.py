"""One order of bindings for equal graphs, so that equal Relay modules are equal Relax modules."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from relay_layout.ir import Expression, rebuild_functions


def canonical_order(module: tvm.IRModule) -> tvm.IRModule:
    """Every function with its bindings in the order in which its result needs them; unneeded ones vanish."""
    return rebuild_functions(module, lambda variable, function: _ordered(function))


def _ordered(function: relax.Function) -> relax.Function:
    bound: dict[relax.Var, Expression] = {}
    for block in function.body.blocks:
        for binding in block.bindings:
            bound[binding.var] = binding.value
    builder = relax.BlockBuilder()
    new: dict[relax.Var, relax.Var] = {}
    with builder.function("main", list(function.params), attrs=_attributes(function)):
        with builder.dataflow():
            stack = list(reversed(_variables(function.body.body)))
            while stack:
                variable = stack[-1]
                value = bound.get(variable)
                if variable in new or value is None:
                    stack.pop()
                    continue
                missing = [used for used in _variables(value) if used in bound and used not in new]
                if missing:
                    stack.extend(reversed(missing))
                    continue
                stack.pop()
                new[variable] = builder.emit(_renamed(value, new))
            output = builder.emit_output(_renamed(function.body.body, new))
        builder.emit_func_output(output)
    return builder.finalize()["main"]


def _variables(expression: Expression) -> list[relax.Var]:
    """The variables an expression in A-normal form uses, in order."""
    if isinstance(expression, relax.Var):
        return [expression]
    if isinstance(expression, relax.Call):
        return [variable for argument in expression.args for variable in _variables(argument)]
    if isinstance(expression, relax.Tuple):
        return [variable for element in expression.fields for variable in _variables(element)]
    if isinstance(expression, relax.TupleGetItem):
        return _variables(expression.tuple_value)
    return []


def _renamed(expression: Expression, new: dict[relax.Var, relax.Var]) -> Expression:
    if isinstance(expression, relax.Var):
        return new.get(expression, expression)
    if isinstance(expression, relax.Call):
        arguments = [_renamed(argument, new) for argument in expression.args]
        return relax.Call(expression.op, arguments, expression.attrs, expression.ty_args)
    if isinstance(expression, relax.Tuple):
        return relax.Tuple([_renamed(element, new) for element in expression.fields])
    if isinstance(expression, relax.TupleGetItem):
        return relax.TupleGetItem(_renamed(expression.tuple_value, new), expression.index)
    return expression


def _attributes(function: relax.Function) -> dict[str, Any]:
    return dict(function.attrs) if function.attrs is not None else {}
