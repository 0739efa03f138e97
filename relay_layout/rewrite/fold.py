"""Operators on constants alone that only move or cast elements, computed with numpy.

Importers leave transposed weights and biases with dimensions added; layout passes and kernels want to see
plain constants. Nothing is compiled for it.
"""

from collections.abc import Callable

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.ir import (
    Constant,
    Expression,
    constant,
    constant_array,
    operator_name,
    rebuild_functions,
    shape_of,
)

Fold = Callable[[relax.Call, np.ndarray], np.ndarray]


def fold_constants(module: tvm.IRModule) -> tvm.IRModule:
    """The module without transposes, reshapes and casts of constants."""
    return rebuild_functions(module, lambda variable, function: _Folder().visit_expr(function))


@mutator
class _Folder(PyExprMutator):
    def visit_call_(self, call: relax.Call) -> Expression:
        """The constant that a call of a constant gives; other calls only get their new arguments."""
        call = super().visit_call_(call)
        fold = _FOLDS.get(operator_name(call))
        if fold is None:
            return call
        operand = call.args[0]
        if isinstance(operand, relax.Var):
            operand = self.lookup_binding(operand)
        if not isinstance(operand, Constant):
            return call
        return constant(fold(call, constant_array(operand)))


def _reshaped(call: relax.Call, array: np.ndarray) -> np.ndarray:
    return array.reshape(shape_of(call) or ())


def _permuted(call: relax.Call, array: np.ndarray) -> np.ndarray:
    axes = call.attrs.axes
    return array.transpose(None if axes is None else [int(axis) for axis in axes])


def _cast(call: relax.Call, array: np.ndarray) -> np.ndarray:
    return array.astype(str(call.attrs.dtype))


_FOLDS: dict[str, Fold] = {
    "astype": _cast,
    "expand_dims": _reshaped,
    "flatten": _reshaped,
    "permute_dims": _permuted,
    "reshape": _reshaped,
    "squeeze": _reshaped,
}
