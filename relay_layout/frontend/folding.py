"""Operators of constants alone, computed while a model is imported."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm import ir, relax

from relay_layout.bodies import bodies_of
from relay_layout.ir import value_of, with_operands

LARGEST_FOLDED = 2**28
"""Elements of the largest constant that folding makes out of smaller ones."""

Array = NDArray[Any]


def fold_leftovers(module: Any) -> Any:
    """The module without operators of constants alone, which TVM's own converters may leave.

    TVM compiles each of them to find its value, and none of the others.
    """
    if not _has_fixed_calls(module):
        return module
    module.update_func(module.get_global_var("main"), _Folder().visit_expr(module["main"]))
    return relax.transform.DeadCodeElimination([*bodies_of(module)])(module)


def _has_fixed_calls(module: Any) -> bool:
    fixed = []

    def visit(expression: Any) -> None:
        if isinstance(expression, relax.Call) and expression.args:
            fixed.append(all(_is_fixed(argument) for argument in expression.args))

    relax.analysis.post_order_visit(module["main"], visit)
    return any(fixed)


def _is_fixed(argument: Any) -> bool:
    if isinstance(argument, relax.Tuple):
        return all(_is_fixed(field) for field in argument.fields)
    return isinstance(argument, ir.GenericConst)


@relax.expr_functor.mutator
class _Folder(relax.PyExprMutator):
    """Values for operators of constants; those that numpy computes would take TVM a compilation each."""

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        arguments = [self._value(argument) for argument in call.args]
        if any(new is not old for new, old in zip(arguments, call.args, strict=True)):
            call = self.builder_.normalize(with_operands(call, arguments))
        if not arguments or not all(_is_fixed(argument) for argument in arguments):
            return call
        compute = _IN_NUMPY.get(getattr(call.op, "name", ""))
        if compute is None:
            return _by_tvm(call)
        result = np.ascontiguousarray(compute(call, arguments[0].value.numpy()))
        return relax.const(result, str(result.dtype))

    def _value(self, argument: Any) -> Any:
        """The argument with the constants that variables are bound to."""
        if isinstance(argument, relax.Tuple):
            fields = [self._value(field) for field in argument.fields]
            return relax.Tuple(fields) if any(map(_is_fixed, fields)) else argument
        bound = value_of(self, argument)
        return bound if bound is not None and _is_fixed(bound) else argument


def _by_tvm(call: Any) -> Any:
    """What TVM computes of a call of constants; the call where it computes none.

    It is folded in a function of its own, since FoldConstant lowers every call that it meets, constant or
    not, and TVM fails on some.
    """
    result = relax.Var("folded", call.ty)
    body = relax.SeqExpr([relax.DataflowBlock([relax.VarBinding(result, call)])], result)
    alone = ir.IRModule({"main": relax.Function([], body, call.ty)})
    value = relax.transform.FoldConstant()(alone)["main"].body.body
    return value if _is_fixed(value) else call


def _permuted(call: Any, array: Array) -> Array:
    return array.transpose(None if call.attrs.axes is None else [int(axis) for axis in call.attrs.axes])


_IN_NUMPY: dict[str, Callable[[Any, Array], Array]] = {
    "relax.astype": lambda call, array: array.astype(str(call.attrs.dtype)),
    "relax.permute_dims": _permuted,
    "relax.reshape": lambda call, array: array.reshape([int(extent) for extent in call.ty.shape.values]),
}
