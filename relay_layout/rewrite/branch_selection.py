"""Choices that the data decide, for targets without branches: both sides are computed, one is selected."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm_ffi import structural_equal, structural_map

from relay_layout.bodies import BRANCH, OTHERWISE, bodies_of, kind_of, name_called, run_by
from relay_layout.ir import (
    Expression,
    function_attributes,
    rebuild_functions,
    relax_functions,
    without_functions,
)


def with_selections(module: tvm.IRModule) -> tvm.IRModule:
    """The module without the choices between tensors of the same shapes whose sides hold no loop.

    Both sides become parts of the function that chose. All other bodies are left as they are.
    """
    # Those that a side runs itself come before it, and are parts of it by then.
    for name, body in bodies_of(module).items():
        other = function_attributes(body).get(OTHERWISE)
        if kind_of(body) != BRANCH or other is None:
            continue
        sides = {side: module[side] for side in (name, str(other))}
        if any(map(run_by, sides.values())):
            continue
        selecting = rebuild_functions(module, partial(_selecting, name, sides))
        runs = map(run_by, relax_functions(selecting).values())
        if not any(name in found for found in runs):
            module = without_functions(selecting, list(map(selecting.get_global_var, sides)))
    return module


def _selecting(name: str, sides: Mapping[str, relax.Function], function: relax.Function) -> relax.Function:
    return _Selecting(name, sides).visit_expr(function)


@mutator
class _Selecting(PyExprMutator):
    """Puts both sides of the choice ``name`` where it is made, and what selects between their results."""

    def __init__(self, name: str, sides: Mapping[str, relax.Function]) -> None:
        super().__init__()
        self.name = name
        self.sides = list(sides.values())

    def visit_call_(self, call: relax.Call) -> Expression:
        """The results selected; the choice as it is where its sides differ in their shapes."""
        call = super().visit_call_(call)
        if name_called(call) != self.name:
            return call
        condition, *given = call.args[1:]
        sides = [_with_extents(side, given) for side in self.sides]
        if not structural_equal(sides[0].ret_ty, sides[1].ret_ty):
            return call
        results = [self._inlined(side, given) for side in sides]
        return relax.Tuple(
            [
                one if one.same_as(other) else self.builder_.emit(relax.op.where(condition, one, other))
                for one, other in zip(*results, strict=True)
            ]
        )

    def _inlined(self, side: relax.Function, given: list[Any]) -> list[Any]:
        """What a side gives, after all that it does for that was emitted."""
        values: dict[relax.Var, Any] = dict(zip(side.params, given, strict=True))

        def present(variable: relax.Var) -> Any:
            return values.get(variable, variable)

        for block in side.body.blocks:
            for binding in block.bindings:
                value = structural_map(binding.value, (relax.Var, present))
                hint = str(binding.var.name)
                if isinstance(value, relax.Tuple):
                    # The results, of which some may be what both sides are given.
                    values[binding.var] = value
                elif isinstance(binding, relax.MatchCast):
                    values[binding.var] = self.builder_.match_cast(value, binding.ty, hint)
                else:
                    values[binding.var] = self.builder_.emit(value, name_hint=hint)
        return list(present(side.body.body).fields)


def _with_extents(side: relax.Function, given: list[Any]) -> relax.Function:
    """The side with the extents that it is given in place of its own."""
    extents: dict[Any, Any] = {}
    for parameter, argument in zip(side.params, given, strict=True):
        if isinstance(argument, relax.ShapeExpr):
            extents.update(zip(parameter.ty.values, argument.values, strict=True))
    return side.bind_symbolic_vars(extents) if extents else side
