"""Operators on constants alone, computed with numpy.

Importers leave transposed weights, biases with dimensions added, and what models compute of their parameters,
such as standardized weights; layout passes and kernels want to see plain constants. Nothing is compiled for
it.
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
    is_static,
    operator_name,
    rebuild_functions,
    shape_of,
)
from relay_layout.rewrite.arithmetic import computed

Fold = Callable[..., np.ndarray | None]


def fold_constants(module: tvm.IRModule) -> tvm.IRModule:
    """The module without operators on constants alone that move, cast or take elements, or that
    :func:`~relay_layout.rewrite.arithmetic.computed` computes.
    """
    return rebuild_functions(module, lambda variable, function: _Folder().visit_expr(function))


@mutator
class _Folder(PyExprMutator):
    def visit_call_(self, call: relax.Call) -> Expression:
        """The constant that a call of constants gives; other calls only get their new arguments."""
        call = super().visit_call_(call)
        shape = shape_of(call) if isinstance(call.ty, relax.TensorType) else None
        if shape is None or not is_static(shape):
            return call
        arguments = [
            self.lookup_binding(argument) if isinstance(argument, relax.Var) else argument
            for argument in call.args
        ]
        operands = [argument for argument in arguments if not isinstance(argument, relax.ShapeExpr)]
        if not operands or not all(isinstance(operand, Constant) for operand in operands):
            return call
        arrays = [constant_array(operand) for operand in operands]
        fold = _FOLDS.get(operator_name(call))
        found = computed(call, arrays) if fold is None else fold(call, *arrays)
        return call if found is None else constant(found)


def _reshaped(call: relax.Call, array: np.ndarray) -> np.ndarray:
    return array.reshape(shape_of(call) or ())


def _permuted(call: relax.Call, array: np.ndarray) -> np.ndarray:
    axes = call.attrs.axes
    return array.transpose(None if axes is None else [int(axis) for axis in axes])


def _taken(call: relax.Call, array: np.ndarray, index: np.ndarray) -> np.ndarray | None:
    """None where an index is outside, where the operator's mode decides, and where many elements repeat."""
    axis = None if call.attrs.axis is None else int(call.attrs.axis)
    extent = array.size if axis is None else array.shape[axis]
    inside = index.size <= extent and bool(((index >= 0) & (index < extent)).all())
    return array.take(index, axis) if inside else None


def _cast(call: relax.Call, array: np.ndarray) -> np.ndarray:
    return array.astype(str(call.attrs.dtype))


_FOLDS: dict[str, Fold] = {
    "astype": _cast,
    "expand_dims": _reshaped,
    "flatten": _reshaped,
    "permute_dims": _permuted,
    "reshape": _reshaped,
    "squeeze": _reshaped,
    "take": _taken,
}
