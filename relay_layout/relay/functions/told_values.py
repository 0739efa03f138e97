"""Attributes that scripts give as expressions: shapes, axes and sizes, where their values are known."""

from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.ir import Constant, bindings_of, constant_array
from relay_layout.relay.expression import to_relax_function
from relay_layout.relay.syntax import tree
from relay_layout.rewrite.fold import fold_constants


class NotTold(ModelError):
    """The value is known when the network runs alone."""


def told_value(expression: tree.Expression, what: str) -> Any:
    """The number, or the tuples of numbers, that an expression gives whatever the inputs are.

    Shapes of tensors whose extents are known count, and what is computed of them. :class:`NotTold` that
    begins with ``what`` where the value depends on inputs, or the expression has no type.
    """
    array = expression.data if isinstance(expression, tree.Constant) else _folded(expression)
    if array is None:
        raise NotTold(
            f"{what} is computed when the network runs; give numbers, or tensors whose extents are known"
        )
    return _as_tuples(array.tolist())


def _folded(expression: tree.Expression) -> np.ndarray | None:
    function = to_relax_function(expression)
    # What numpy computes first: TVM compiles what it folds.
    main = relax.transform.FoldConstant()(fold_constants(tvm.IRModule({"main": function})))["main"]
    values = {
        binding.var: binding.value for binding in bindings_of(main) if isinstance(binding, relax.VarBinding)
    }
    result = main.body.body
    while isinstance(result, relax.Var) and result in values:
        result = values[result]
    return constant_array(result) if isinstance(result, Constant) else None


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value
