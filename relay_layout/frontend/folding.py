"""Operators of constants alone, computed while a model is imported."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm import ir, relax, transform

LARGEST_FOLDED = 2**28
"""Elements of the largest constant that folding makes out of smaller ones."""

Array = NDArray[Any]


def fold_leftovers(module: Any) -> Any:
    """The module without operators of constants alone, which TVM's own converters may leave.

    TVM compiles each of them to find its value, so it is asked only if there is one.
    """
    if not _has_fixed_calls(module):
        return module
    module.update_func(module.get_global_var("main"), _Folder().visit_expr(module["main"]))
    passes = [relax.transform.FoldConstant(), relax.transform.DeadCodeElimination()]
    return transform.Sequential(passes)(module)


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
    """Computes in numpy what would take TVM a compilation each, and casts, which FoldConstant passes over."""

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        compute = _IN_NUMPY.get(getattr(call.op, "name", ""))
        if compute is None or not isinstance(call.args[0], ir.GenericConst):
            return call
        result = np.ascontiguousarray(compute(call, call.args[0].value.numpy()))
        return relax.const(result, str(result.dtype))


def _permuted(call: Any, array: Array) -> Array:
    return array.transpose(None if call.attrs.axes is None else [int(axis) for axis in call.attrs.axes])


_IN_NUMPY: dict[str, Callable[[Any, Array], Array]] = {
    "relax.astype": lambda call, array: array.astype(str(call.attrs.dtype)),
    "relax.permute_dims": _permuted,
    "relax.reshape": lambda call, array: array.reshape([int(extent) for extent in call.ty.shape.values]),
}

__all__ = ["LARGEST_FOLDED", "fold_leftovers"]
