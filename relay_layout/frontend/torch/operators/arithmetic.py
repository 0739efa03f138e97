"""PyTorch's arithmetic where TVM's importer lacks an operation or drops one of its arguments."""

from collections.abc import Callable
from typing import Any

import torch
from tvm import relax

from relay_layout.frontend.torch.node import Converter, argument, result_dtype, value_of
from relay_layout.frontend.torch.operators.open_extents import variance
from relay_layout.frontend.torch.operators.open_numbers import OpenFloat, as_scalar
from relay_layout.ir import Expression, dtype_of, scalar


def _operand(importer: Any, given: Any, dtype: str) -> Expression:
    """A tensor, a number or an open extent as a tensor of ``dtype``."""
    value = value_of(importer, given)
    if isinstance(value, bool | int | float):
        return relax.const(value, dtype)
    if isinstance(value, OpenFloat):
        return as_scalar(importer, value, dtype)
    if not isinstance(value.ty, relax.TensorType):
        value = scalar(importer.block_builder.emit, value)
    if str(value.ty.dtype) == dtype:
        return value
    return importer.block_builder.emit(relax.op.astype(value, dtype))


def _binary(compute: Callable[..., Expression], *, swapped: bool = False) -> Converter:
    """An operation on both operands in the type of the result; ``alpha`` multiplies the second one.

    With ``swapped`` the second one comes first in the program, as ``rsub(x, other, alpha)`` has it.
    """

    def convert(node: Any, importer: Any) -> Expression:
        dtype, builder = result_dtype(node), importer.block_builder
        operands = node.args[1::-1] if swapped else node.args[:2]
        left, right = (_operand(importer, given, dtype) for given in operands)
        alpha = argument(node, 2, "alpha", 1)
        if not isinstance(alpha, int | float) or alpha != 1:
            right = builder.emit(relax.op.multiply(right, _operand(importer, alpha, dtype)))
        return builder.emit(compute(left, right))

    return convert


def _add(node: Any, importer: Any) -> Expression:
    """Of truth values the sum is that one of them holds."""
    return _binary(relax.op.logical_or if _is_truth(node) else relax.op.add)(node, importer)


def _multiply(node: Any, importer: Any) -> Expression:
    """Of truth values the product is that both hold."""
    return _binary(relax.op.logical_and if _is_truth(node) else relax.op.multiply)(node, importer)


def _is_truth(node: Any) -> bool:
    return bool(node.meta["val"].dtype == torch.bool)


def _rounded_division(node: Any, importer: Any) -> Expression:
    """``div`` with a ``rounding_mode``: down, or towards zero as integers are divided."""
    mode = node.kwargs.get("rounding_mode")
    if mode == "floor":
        return _binary(relax.op.floor_divide)(node, importer)
    found = _binary(relax.op.divide)(node, importer)
    if mode is None or not node.meta["val"].dtype.is_floating_point:
        return found
    return importer.block_builder.emit(relax.op.trunc(found))


def _elu(node: Any, importer: Any) -> Expression:
    """``scale * (x if x > 0 else alpha * (exp(input_scale * x) - 1))``: selu and celu as well."""
    value, dtype, emit = importer.env[node.args[0]], result_dtype(node), importer.block_builder.emit
    names = ("alpha", "scale", "input_scale")
    given = dict(zip(names, node.args[1:], strict=False)) | node.kwargs
    alpha, scale, input_scale = (float(given.get(name, 1.0)) for name in names)
    # Of numbers over zero the exponential is not needed, and may be infinite.
    low = emit(relax.op.minimum(value, relax.const(0, dtype)))
    if input_scale != 1.0:
        low = emit(relax.op.multiply(low, relax.const(input_scale, dtype)))
    below = emit(relax.op.subtract(emit(relax.op.exp(low)), relax.const(1, dtype)))
    curved = emit(relax.op.multiply(below, relax.const(alpha * scale, dtype)))
    straight = emit(relax.op.nn.relu(value))
    if scale != 1.0:
        straight = emit(relax.op.multiply(straight, relax.const(scale, dtype)))
    return emit(relax.op.add(curved, straight))


def _clamp(node: Any, importer: Any) -> Expression:
    """``clamp`` between numbers, either of them left out; the upper one where they contradict each other."""
    dtype, emit = result_dtype(node), importer.block_builder.emit
    value = _operand(importer, node.args[0], dtype)
    low, high = (*node.args[1:], *[None] * 2)[:2]
    low, high = node.kwargs.get("min", low), node.kwargs.get("max", high)
    known = all(isinstance(bound, int | float) for bound in (low, high))
    if node.meta["val"].dtype.is_floating_point and known and low <= high:
        return emit(relax.op.clip(value, low, high))
    if low is not None:
        value = emit(relax.op.maximum(value, _operand(importer, low, dtype)))
    if high is not None:
        value = emit(relax.op.minimum(value, _operand(importer, high, dtype)))
    return value


def _clamp_max(node: Any, importer: Any) -> Expression:
    value, high = (_operand(importer, given, result_dtype(node)) for given in node.args[:2])
    return importer.block_builder.emit(relax.op.minimum(value, high))


def _exponential_of_two(node: Any, importer: Any) -> Expression:
    value = _operand(importer, node.args[0], result_dtype(node))
    return importer.block_builder.emit(relax.op.power(relax.const(2, result_dtype(node)), value))


def _dimensions(node: Any) -> tuple[Any, bool]:
    """The arguments ``dim`` and ``keepdim`` of a reduction."""
    return argument(node, 1, "dim"), bool(argument(node, 2, "keepdim", False))


def _extreme(reduce: Callable[..., Expression], find: Callable[..., Expression]) -> Converter:
    """The extreme along one dimension, and where it is."""

    def convert(node: Any, importer: Any) -> Expression:
        value, emit = importer.env[node.args[0]], importer.block_builder.emit
        axis, keepdims = _dimensions(node)
        found = emit(reduce(value, axis=[axis], keepdims=keepdims))
        place = emit(find(value, axis=axis, keepdims=keepdims))
        # TVM finds -1 where all are as extreme as what it starts at, such as infinities.
        return emit(relax.Tuple([found, emit(relax.op.maximum(place, relax.const(0, dtype_of(place))))]))

    return convert


def _extremum(reduce: Callable[..., Expression]) -> Converter:
    """The extremum along several dimensions, all of them where none is given."""

    def convert(node: Any, importer: Any) -> Expression:
        axes, keepdims = _dimensions(node)
        value = importer.env[node.args[0]]
        return importer.block_builder.emit(reduce(value, axis=list(axes or ()) or None, keepdims=keepdims))

    return convert


def _product(node: Any, importer: Any) -> Expression:
    axis, keepdims = _dimensions(node)
    value = _operand(importer, node.args[0], result_dtype(node))
    return importer.block_builder.emit(relax.op.prod(value, axis=[axis], keepdims=keepdims))


def _variance_and_mean(node: Any, importer: Any) -> Expression:
    value, emit = importer.env[node.args[0]], importer.block_builder.emit
    axes, keepdims = _dimensions(node)
    return emit(relax.Tuple([variance(node, importer), emit(relax.op.mean(value, axes or None, keepdims))]))


def _scalar(node: Any, importer: Any) -> Expression:
    """``scalar_tensor(number)``, of a number that may be open."""
    return _operand(importer, node.args[0], result_dtype(node))


def _full(node: Any, importer: Any) -> Expression:
    """``full(size, number)``, of both that may be open."""
    size = [value_of(importer, extent) for extent in node.args[0]]
    number = _operand(importer, node.args[1], result_dtype(node))
    return importer.block_builder.emit(relax.op.full(relax.ShapeExpr(size), number, result_dtype(node)))


def _power(node: Any, importer: Any) -> Expression:
    """``pow(data, exponent)``, of an exponent that may be open."""
    if not isinstance(node.args[1], torch.fx.Node):
        return importer._pow(node)
    return _binary(relax.op.power)(node, importer)


def _where(node: Any, importer: Any) -> Expression:
    """``where(condition, left, right)`` in the type that both have in common."""
    left, right = (_operand(importer, given, result_dtype(node)) for given in node.args[1:3])
    return importer.block_builder.emit(relax.op.where(importer.env[node.args[0]], left, right))


def _cumulative_sum(node: Any, importer: Any) -> Expression:
    value = _operand(importer, node.args[0], result_dtype(node))
    return importer.block_builder.emit(
        relax.op.cumsum(value, axis=int(node.args[1]), dtype=result_dtype(node))
    )


CONVERTERS: dict[str, Converter] = {
    "add.Tensor": _add,
    "add.Scalar": _add,
    "sub.Tensor": _binary(relax.op.subtract),
    "sub.Scalar": _binary(relax.op.subtract),
    "rsub.Tensor": _binary(relax.op.subtract, swapped=True),
    "rsub.Scalar": _binary(relax.op.subtract, swapped=True),
    "mul.Tensor": _multiply,
    "mul.Scalar": _multiply,
    "div.Tensor_mode": _rounded_division,
    "div.Scalar_mode": _rounded_division,
    "div.Tensor": _binary(relax.op.divide),
    "div.Scalar": _binary(relax.op.divide),
    **{
        f"{name}.{kind}": _binary(shift)
        for shift, names in (
            (relax.op.left_shift, ("__lshift__", "bitwise_left_shift")),
            (relax.op.right_shift, ("__rshift__", "bitwise_right_shift")),
        )
        for name in names
        for kind in ("Scalar", "Tensor", "Tensor_Scalar")
    },
    "pow.Tensor_Scalar": _power,
    "full.default": _full,
    "scalar_tensor.default": _scalar,
    "floor_divide.default": _binary(relax.op.floor_divide),
    "elu.default": _elu,
    "clamp.default": _clamp,
    "clamp_max.default": _clamp_max,
    "exp2.default": _exponential_of_two,
    "amax.default": _extremum(relax.op.max),
    "amin.default": _extremum(relax.op.min),
    "max.dim": _extreme(relax.op.max, relax.op.argmax),
    "min.dim": _extreme(relax.op.min, relax.op.argmin),
    "prod.dim_int": _product,
    "var_mean.correction": _variance_and_mean,
    "cumsum.default": _cumulative_sum,
    "where.self": _where,
}
"""By the names that TVM's importer has for operations, whose own converters they replace."""
