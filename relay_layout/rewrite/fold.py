"""Operators on constants alone, computed with numpy.

Importers leave transposed weights, biases with dimensions added, and what models compute of their parameters,
such as standardized weights; layout passes and kernels want to see plain constants. Nothing is compiled for
it.
"""

from collections.abc import Callable, Sequence

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.constant_arithmetic import computed
from relay_layout.errors import ModelError
from relay_layout.ir import (
    Constant,
    Expression,
    Extent,
    constant,
    constant_array,
    dtype_of,
    is_empty,
    is_static,
    operator_name,
    rebuild_functions,
    same_extents,
    shape_of,
)

Fold = Callable[..., np.ndarray | None]


def fold_constants(module: tvm.IRModule) -> tvm.IRModule:
    """The module without operators on constants alone that move, cast or take elements, or that
    :func:`~relay_layout.constant_arithmetic.computed` computes, and without those that compute nothing:
    whose result has no elements, or is a product that sums none. Floats are not divided by zero any more, but
    multiplied by infinity.

    ModelError for integers that are divided by zero.
    """
    return rebuild_functions(module, lambda function: _Folder().visit_expr(function))


def _computes_nothing(call: relax.Call, shape: Sequence[int]) -> bool:
    name = operator_name(call)
    if 0 in shape:
        return bool(name)
    return name == "matmul" and (shape_of(call.args[0]) or (None,))[-1] == 0


@mutator
class _Folder(PyExprMutator):
    def visit_call_(self, call: relax.Call) -> Expression:
        """The constant that a call of constants gives; other calls only get their new arguments."""
        call = super().visit_call_(call)
        shape = shape_of(call) if isinstance(call.ty, relax.TensorType) else None
        if shape is None:
            return call
        operands = [operand for argument in call.args for operand in self._operands(argument)]
        reduced = _IDENTITIES.get(operator_name(call))
        if reduced is not None and is_empty(shape_of(call.args[0]) or ()) and not is_empty(shape):
            number = constant(np.array(reduced(dtype_of(call)), dtype_of(call)))
            return relax.op.full(relax.ShapeExpr(shape), number, dtype_of(call))
        if not is_static(shape):
            return self._by_zero(call, operands)
        if _computes_nothing(call, shape):
            return constant(np.zeros(shape, dtype_of(call)))
        if not operands or not all(isinstance(operand, Constant) for operand in operands):
            return self._by_zero(call, operands)
        arrays = [constant_array(operand) for operand in operands]
        fold = _FOLDS.get(operator_name(call))
        found = computed(call, arrays) if fold is None else fold(call, *arrays)
        return self._by_zero(call, operands) if found is None else constant(found)

    def _operands(self, argument: Expression) -> list[Expression]:
        """The tensors of an argument, as what they are bound to; none of shapes and numbers."""
        known = self.lookup_binding(argument) if isinstance(argument, relax.Var) else argument
        if isinstance(known, relax.Tuple):
            return [operand for field in known.fields for operand in self._operands(field)]
        return [] if isinstance(known, relax.ShapeExpr | tirx.IntImm | tirx.FloatImm) else [known]

    def _by_zero(self, call: relax.Call, operands: Sequence[Expression]) -> Expression:
        """A quotient or a product by a number that is zero, as TVM computes it of NaN and infinities too.

        TVM refuses to divide by such a number, and takes the product for zero.
        """
        name = operator_name(call)
        if name != "multiply" and name not in _BY_ZERO:
            return call
        zeros = [self._zero(operand) for operand in operands]
        shape = shape_of(call) or ()
        if name == "multiply":
            if shape and "float" in dtype_of(call):
                for zero, other in zip(zeros, reversed(call.args), strict=True):
                    if zero is not None:
                        return self._product(other, zero.reshape(1), shape)
            return call
        divisor = zeros[1]
        if divisor is None:
            return call
        if divisor.dtype.kind in "iu":
            raise ModelError(f"the model divides integers by zero ({name})")
        factor = np.copysign(_BY_ZERO[name], divisor.astype("float64"))
        return self._product(call.args[0], np.asarray(factor).astype(divisor.dtype), shape)

    def _product(self, value: Expression, factor: np.ndarray, shape: Sequence[Extent]) -> Expression:
        product = relax.op.multiply(value, constant(factor))
        if same_extents(shape_of(value) or (), shape):
            return product
        return relax.op.broadcast_to(self.builder_.emit(product), relax.ShapeExpr(shape))

    def _zero(self, operand: Expression) -> np.ndarray | None:
        """The number that a constant number or a tensor filled with one is, where that is zero."""
        name = operator_name(operand)
        if name in ("zeros", "zeros_like"):
            return np.zeros((), dtype_of(operand))
        if name in ("full", "full_like"):
            (fill,) = self._operands(operand.args[1])
            found = self._zero(fill)
            return None if found is None else found.astype(dtype_of(operand))
        if not isinstance(operand, Constant) or shape_of(operand):
            return None
        array = constant_array(operand)
        return None if array.any() else array


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


def _concatenated(call: relax.Call, *arrays: np.ndarray) -> np.ndarray:
    axis = call.attrs.axis
    if axis is None:
        return np.concatenate([array.reshape(-1) for array in arrays])
    return np.concatenate(arrays, int(axis))


def _sliced(call: relax.Call, array: np.ndarray) -> np.ndarray | None:
    """None for bounds that numpy takes otherwise."""
    if not all(isinstance(argument, relax.Tuple) for argument in call.args[1:]):
        return None
    axes, begins, ends, *given = ([int(entry) for entry in argument.fields] for argument in call.args[1:])
    strides = given[0] if given else [1] * len(axes)
    bounds = [slice(None)] * array.ndim
    for axis, begin, end, stride in zip(axes, begins, ends, strides, strict=True):
        bounds[axis] = slice(begin, end, stride)
    found = array[tuple(bounds)]
    return found if found.shape == shape_of(call) else None


_BY_ZERO = {"divide": np.inf, "floor_divide": np.inf, "mod": np.nan, "floor_mod": np.nan}
"""What floats are multiplied by that are divided by zero; the products have the sign of the zero."""


def _limit(sign: int) -> Callable[[str], float]:
    """The limit of an element type, which no number is beyond to the side of ``sign``."""

    def limit(dtype: str) -> float:
        if dtype == "bool":
            return sign > 0
        if "int" in dtype:
            return int(np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min)
        return sign * np.inf

    return limit


_IDENTITIES: dict[str, Callable[[str], float]] = {
    "max": _limit(-1),
    "min": _limit(1),
    "prod": lambda dtype: 1,
    "sum": lambda dtype: 0,
}
"""What reductions give of nothing, by element type."""

_FOLDS: dict[str, Fold] = {
    "astype": _cast,
    "concat": _concatenated,
    "expand_dims": _reshaped,
    "flatten": _reshaped,
    "permute_dims": _permuted,
    "reshape": _reshaped,
    "squeeze": _reshaped,
    "strided_slice": _sliced,
    "take": _taken,
}
