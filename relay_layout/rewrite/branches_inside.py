"""Choices between functions as branches again, for passes whose result is a module of one function."""

from collections.abc import Callable, Mapping
from typing import Any

import tvm
from tvm import relax
from tvm_ffi import structural_map

from relay_layout.bodies import BRANCH, OTHERWISE, bodies_of, kind_of, name_called, without_bodies
from relay_layout.ir import Expression, bindings_of, function_attributes, with_body, with_main
from relay_layout.rewrite.branch_functions import with_branch_functions


def each_branch(module: tvm.IRModule, change: Callable[[tvm.IRModule], tvm.IRModule]) -> tvm.IRModule:
    """The module that ``change`` makes of it, which is given branches as functions of their own.

    Branches that read extents which are not known are left inside "main", as ``change`` takes them.
    """
    apart = with_branch_functions(module)
    sides = bodies_of(apart)
    if sides.keys() == bodies_of(module).keys() or any(map(_reads_extents, sides.values())):
        return change(module)
    return _with_branches(change(apart))


def _reads_extents(side: relax.Function) -> bool:
    return any(isinstance(parameter.ty, relax.ShapeType) for parameter in side.params)


def _with_branches(module: tvm.IRModule) -> tvm.IRModule:
    """The module whose "main" has the sides of choices within."""
    sides = {name: side for name, side in bodies_of(module).items() if kind_of(side) == BRANCH}
    main = module["main"]
    changed = with_body(main, _sequence(main, {}, sides))
    return relax.transform.Normalize()(with_main(without_bodies(module), changed))


def _sequence(
    function: relax.Function, values: Mapping[relax.Var, Expression], sides: Mapping[str, relax.Function]
) -> relax.SeqExpr:
    """The body of a function with values for its parameters, outside of blocks of dataflow."""
    new: dict[relax.Var, Any] = dict(values)

    def present(variable: relax.Var) -> Any:
        return new.get(variable, variable)

    bindings = []
    for binding in bindings_of(function):
        value = structural_map(binding.value, (relax.Var, present))
        name = name_called(value)
        if name in sides:
            condition, *operands = value.args[1:]
            names = [name, str(function_attributes(sides[name])[OTHERWISE])]
            value = relax.If(condition, *(_side(sides[each], operands, sides) for each in names))
        variable = relax.Var(binding.var.name, binding.var.ty)
        new[binding.var] = variable
        cast = isinstance(binding, relax.MatchCast)
        bindings.append(
            relax.MatchCast(variable, value, binding.ty) if cast else relax.VarBinding(variable, value)
        )
    return relax.SeqExpr(
        [relax.BindingBlock(bindings)], structural_map(function.body.body, (relax.Var, present))
    )


def _side(
    side: relax.Function, operands: list[Expression], sides: Mapping[str, relax.Function]
) -> relax.SeqExpr:
    return _sequence(side, dict(zip(side.params, operands, strict=True)), sides)
