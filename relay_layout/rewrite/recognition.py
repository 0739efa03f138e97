"""Norms and GELU that a model writes out step by step, as the one operator that they are.

Exporters of ONNX before opset 17 write a layer norm as nine operators, PyTorch's exporter a group norm as an
instance norm between two reshapes. Each step would be a kernel of its own, or walk the whole tensor again. A
GELU, which ONNX has had since opset 20, is one kernel either way, with a division more.
"""

from collections.abc import Sequence
from math import isclose, prod, sqrt

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm_ffi import structural_equal

from relay_layout.extent_polynomials import provably_equal
from relay_layout.graph.uses import call_read_once, count_uses
from relay_layout.ir import (
    Constant,
    Expression,
    constant,
    constant_array,
    dtype_of,
    is_static,
    operator_name,
    rebuild_functions,
    shape_of,
    with_operands,
)

_ROWS_RANK = 3
"""The most dimensions of a tensor whose last one is a row's, as of a batch of sequences, and not an
image's."""

_ROUNDED = 1e-6
"""By how much a number in single precision may differ from what it stands for."""

MOST_PARAMETERS = 4096
"""The most parameters that a layer norm without any is given: its scale and its shift are stored and read."""

NORMS = ("nn.layer_norm", "nn.instance_norm", "nn.group_norm")


def recognise_operators(module: tvm.IRModule) -> tvm.IRModule:
    """The module with norms and GELU (by the error function) in place of their arithmetic.

    ``(x - mean) / sqrt(variance + epsilon)`` over static dimensions is an instance norm where these are all
    but the first two of an image, and a layer norm otherwise. A factor and a term for each element of the
    dimensions that a layer norm is taken over, or for each channel of the others, become its scale and shift.
    What is left of the steps is for dead code elimination.
    """
    return rebuild_functions(module, lambda function: _Recogniser(function).visit_expr(function))


@mutator
class _Recogniser(PyExprMutator):
    """Replaces last steps, binding by binding."""

    def __init__(self, function: relax.Function) -> None:
        super().__init__()
        self.uses = count_uses(function)

    def visit_call_(self, call: relax.Call) -> Expression:
        """An operator, where the call is the last step of one; other calls only get their new arguments."""
        call = super().visit_call_(call)
        name = operator_name(call)
        found: Expression | None = None
        if name in ("divide", "multiply"):
            found = self._normalized(call)
        if found is None and name in ("multiply", "add"):
            found = self._with_parameter(call)
        if found is None and name == "multiply":
            found = self._gelu(call)
        if found is None and name == "reshape":
            found = self._grouped(call)
        return call if found is None else found

    def _call(self, expression: Expression, *names: str) -> relax.Call | None:
        """The call of one of the operators that an expression is bound to."""
        value = self.lookup_binding(expression) if isinstance(expression, relax.Var) else expression
        return value if operator_name(value) in names else None

    def _normalized(self, call: relax.Call) -> Expression | None:
        """The norm that a quotient or a product is, without scale and shift."""
        pairs = [tuple(call.args)]
        if operator_name(call) == "multiply":
            pairs.append((call.args[1], call.args[0]))
        for centred, factor in pairs:
            difference = self._call(centred, "subtract")
            mean = self._call(difference.args[1], "mean") if difference is not None else None
            if difference is None or mean is None or not _same(mean.args[0], difference.args[0]):
                continue
            deviation = self._deviation(factor, operator_name(call) == "divide")
            shape = shape_of(mean.args[0])
            if deviation is None or shape is None or not bool(mean.attrs.keepdims):
                continue
            variance, epsilon = deviation
            axes = _axes(mean, len(shape))
            if axes and self._is_variance(variance, difference, axes, len(shape)):
                return _norm(mean.args[0], axes, epsilon)
        return None

    def _deviation(self, factor: Expression, divides: bool) -> tuple[Expression, float] | None:
        """The variance and the epsilon of a divisor ``sqrt(variance + epsilon)``, or of such a factor."""
        if divides:
            root = self._call(factor, "sqrt", "power")
            exponent = 0.5
        else:
            root = self._call(factor, "rsqrt", "power", "divide")
            exponent = -0.5
            if root is not None and operator_name(root) == "divide":
                root = self._call(root.args[1], "sqrt") if _number(root.args[0]) == 1 else None
        if root is None or (operator_name(root) == "power" and _number(root.args[1]) != exponent):
            return None
        total = self._call(root.args[0], "add")
        for variance, epsilon in (total.args, reversed(total.args)) if total is not None else ():
            number = _number(epsilon)
            if number is not None and number > 0:
                return variance, number
        return None

    def _is_variance(self, value: Expression, difference: relax.Call, axes: list[int], rank: int) -> bool:
        """Whether a value is the mean of the squares of ``difference``."""
        of = self._call(value, "mean", "variance")
        if of is None or _axes(of, rank) != axes or not bool(of.attrs.keepdims):
            return False
        if operator_name(of) == "variance":
            return _same(of.args[0], difference.args[0])
        square = self._call(of.args[0], "multiply", "power", "square")
        if square is None:
            return False
        name = operator_name(square)
        if name == "power" and _number(square.args[1]) != 2:
            return False
        factors = square.args if name == "multiply" else square.args[:1]
        return all(self._is_difference(factor, difference) for factor in factors)

    def _is_difference(self, value: Expression, difference: relax.Call) -> bool:
        """Whether a value is ``difference``, or the same computed once more."""
        other = self._call(value, "subtract")
        if other is None or other.same_as(difference):
            return other is not None
        again, mean = (self._call(one.args[1], "mean") for one in (other, difference))
        return (
            again is not None
            and mean is not None
            and all(_same(one, difference.args[0]) for one in (other.args[0], again.args[0], mean.args[0]))
            and structural_equal(again.attrs, mean.attrs)
        )

    def _with_parameter(self, call: relax.Call) -> Expression | None:
        """A norm with its factor as scale, or its term as shift, where it has none yet."""
        for value, parameter in (call.args, reversed(call.args)):
            norm = call_read_once(value, self.uses, self.lookup_binding)
            if norm is None or operator_name(norm) not in NORMS or not isinstance(parameter, Constant):
                continue
            if not bool(norm.attrs.scale) or not bool(norm.attrs.center):
                continue
            data, scale, shift = norm.args
            if not isinstance(scale, Constant) or not isinstance(shift, Constant):
                continue
            found = _parameter(norm, constant_array(parameter))
            if found is None or constant_array(shift).any():
                continue
            if operator_name(call) == "add":
                return with_operands(norm, [data, scale, constant(found)])
            return with_operands(norm, [data, constant(constant_array(scale) * found), shift])
        return None

    def _gelu(self, call: relax.Call) -> Expression | None:
        """``x * 0.5 * (1 + erf(x / sqrt(2)))``, whatever is multiplied first."""
        factors = self._factors(call)
        numbers = [number for number in map(_number, factors) if number is not None]
        others = [factor for factor in factors if _number(factor) is None]
        if len(others) != 2 or not isclose(prod(numbers), 0.5, rel_tol=_ROUNDED):
            return None
        for data, share in (others, reversed(others)):
            total = self._call(share, "add")
            for one, rest in (total.args, reversed(total.args)) if total is not None else ():
                error = self._call(rest, "erf")
                if error is None or _number(one) != 1:
                    continue
                scaled = self._call(error.args[0], "divide", "multiply")
                if scaled is not None and self._is_root_of_two(scaled, data):
                    return relax.op.nn.gelu(data)
        return None

    def _is_root_of_two(self, scaled: relax.Call, data: Expression) -> bool:
        """Whether a call is ``data`` over the square root of two."""
        value, factor = scaled.args
        if operator_name(scaled) == "multiply":
            value, factor = (factor, value) if _number(value) is not None else (value, factor)
            expected = 1 / sqrt(2)
        else:
            expected = sqrt(2)
        number = _number(factor)
        return _same(value, data) and number is not None and isclose(number, expected, rel_tol=_ROUNDED)

    def _factors(self, value: Expression) -> list[Expression]:
        """What is multiplied to a value, by up to two further products."""
        call = self._call(value, "multiply")
        if call is None:
            return [value]
        inner = [self._call(factor, "multiply") for factor in call.args]
        return [
            factor
            for own, product in zip(call.args, inner, strict=True)
            for factor in (product.args if product is not None else [own])
        ]

    def _grouped(self, call: relax.Call) -> Expression | None:
        """A group norm: an instance norm of groups of channels, brought back to the shape before."""
        norm = self._call(call.args[0], "nn.instance_norm")
        inner = self._call(norm.args[0], "reshape") if norm is not None else None
        if norm is None or inner is None or not all(isinstance(value, Constant) for value in norm.args[1:]):
            return None
        data = inner.args[0]
        before, groups, after = shape_of(data), shape_of(inner), shape_of(call)
        if before is None or groups is None or after is None or len(before) < 3 or len(groups) != 3:
            return None
        whole = [int(axis) for axis in norm.attrs.axes] == [2] and int(norm.attrs.channel_axis) == 1
        if not whole or not is_static((before[1], groups[1])) or not provably_equal(before, after):
            return None
        if before[1] % groups[1] or not provably_equal([prod(before[1:])], [groups[1] * groups[2]]):
            return None
        return relax.op.nn.group_norm(
            data,
            *(constant(np.repeat(constant_array(value), before[1] // groups[1])) for value in norm.args[1:]),
            num_groups=groups[1],
            channel_axis=1,
            axes=list(range(2, len(before))),
            epsilon=float(norm.attrs.epsilon),
        )


def _norm(data: Expression, axes: list[int], epsilon: float) -> Expression | None:
    """The norm over ``axes`` with scale 1 and shift 0; None over symbolic dimensions, and over too many."""
    shape = shape_of(data) or ()
    if not is_static([shape[axis] for axis in axes]):
        return None
    dtype = np.dtype(dtype_of(data)) if dtype_of(data) != "bfloat16" else None
    if dtype is None or dtype.kind != "f":
        return None
    if len(shape) > _ROWS_RANK and axes == list(range(2, len(shape))) and isinstance(shape[1], int):
        ones = np.ones(shape[1], dtype)
        return relax.op.nn.instance_norm(
            data, constant(ones), constant(ones * 0), channel_axis=1, axes=axes, epsilon=epsilon
        )
    extents = [shape[axis] for axis in axes]
    if prod(extents) > MOST_PARAMETERS:
        return None
    ones = np.ones(extents, dtype)
    return relax.op.nn.layer_norm(data, constant(ones), constant(ones * 0), axes=axes, epsilon=epsilon)


def _parameter(norm: relax.Call, array: np.ndarray) -> np.ndarray | None:
    """A factor or a term of a norm's result as the norm takes it; None where it varies along other axes."""
    shape = shape_of(norm) or ()
    if array.ndim > len(shape):
        return None
    layered = operator_name(norm) == "nn.layer_norm"
    axes = norm.attrs.axes if layered else [norm.attrs.channel_axis]
    own = sorted(int(axis) % len(shape) for axis in axes)
    extents = (1,) * (len(shape) - array.ndim) + array.shape
    if any(extent != 1 and axis not in own for axis, extent in enumerate(extents)):
        return None
    target = [shape[axis] for axis in own]
    return np.ascontiguousarray(np.broadcast_to(array.reshape([extents[axis] for axis in own]), target))


def _axes(call: relax.Call, rank: int) -> list[int]:
    """What a mean or a variance is taken over, in order."""
    axes: Sequence[int] = range(rank) if call.attrs.axis is None else call.attrs.axis
    return sorted(int(axis) % rank for axis in axes)


def _number(value: Expression) -> float | None:
    """A constant of one element."""
    if not isinstance(value, Constant):
        return None
    array = constant_array(value)
    return float(array.reshape(())) if array.size == 1 else None


def _same(left: Expression, right: Expression) -> bool:
    return bool(left.same_as(right))
