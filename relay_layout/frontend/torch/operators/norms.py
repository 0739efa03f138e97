"""PyTorch's norms: with and without parameters, with the statistics that they give out besides."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.frontend.torch.node import Converter, dtype_name, is_read
from relay_layout.ir import HALVES, Emit, Expression, dtype_of, is_static, shape_of


def _layer_norm(node: Any, importer: Any) -> Expression:
    """``native_layer_norm(data, normalized_shape, weight, bias, eps)``: what is normalized, mean and rstd."""
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    extents, epsilon = node.args[1], float(node.args[4])
    axes = [place - len(extents) for place in range(len(extents))]
    if is_static(extents):
        gamma, beta = _parameters(node.args[2:4], importer, extents, dtype_of(data))
        normalized = emit(relax.op.nn.layer_norm(data, gamma, beta, axes=axes, epsilon=epsilon))
        return relax.Tuple([normalized, *_statistics(node, emit, data, axes, epsilon, keepdims=True)])
    wide = _widened(emit, data)
    mean, scale = _moments(emit, wide, axes, epsilon, keepdims=True)
    deviation = emit(relax.op.subtract(wide, mean))
    normalized = emit(relax.op.astype(emit(relax.op.multiply(deviation, scale)), dtype_of(data)))
    for argument, combine in zip(node.args[2:4], (relax.op.multiply, relax.op.add), strict=True):
        if argument is not None:
            normalized = emit(combine(normalized, importer.env[argument]))
    return relax.Tuple([normalized, *_statistics(node, emit, data, axes, epsilon, keepdims=True)])


def _group_norm(node: Any, importer: Any) -> Expression:
    """``native_group_norm(data, weight, bias, N, C, HxW, group, eps)``: what is normalized, mean and rstd."""
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    shape, groups, epsilon = list(shape_of(data) or ()), int(node.args[6]), float(node.args[7])
    gamma, beta = _parameters(node.args[1:3], importer, [int(node.args[4])], dtype_of(data))
    normalized = emit(
        relax.op.nn.group_norm(
            data,
            gamma,
            beta,
            num_groups=groups,
            channel_axis=1,
            axes=list(range(2, len(shape))),
            epsilon=epsilon,
        )
    )
    if not _gives_statistics(node):
        return relax.Tuple([normalized])
    members = relax.ShapeExpr([shape[0], groups, int(node.args[4]) // groups, *shape[2:]])
    grouped = emit(relax.op.reshape(data, members))
    axes = list(range(2, len(shape) + 1))
    return relax.Tuple([normalized, *_statistics(node, emit, grouped, axes, epsilon, keepdims=False)])


def _instance_norm(node: Any, importer: Any) -> Expression:
    """An instance norm by the image's own mean and variance, or by those that the module kept in training."""
    value, emit = importer.env[node.args[0]], importer.block_builder.emit
    shape = shape_of(value) or ()
    gamma, beta = _parameters(node.args[1:3], importer, [int(shape[1])], dtype_of(value))
    mean, variance = (None if argument is None else importer.env[argument] for argument in node.args[3:5])
    own, epsilon = node.args[5], float(node.args[7])
    if own:
        axes = list(range(2, len(shape)))
        return emit(relax.op.nn.instance_norm(value, gamma, beta, channel_axis=1, axes=axes, epsilon=epsilon))
    normalized = emit(relax.op.nn.batch_norm(value, gamma, beta, mean, variance, 1, epsilon, training=False))
    return emit(relax.TupleGetItem(normalized, 0))


def _parameters(
    given: Sequence[Any], importer: Any, extents: Sequence[int], dtype: str
) -> tuple[Expression, Expression]:
    """Scale and shift, in the type of the data; ones and zeros where there are none."""
    found = []
    for argument, number in zip(given, (1, 0), strict=True):
        if argument is None:
            found.append(relax.const(np.full(extents, number), dtype))
            continue
        value = importer.env[argument]
        same = dtype_of(value) == dtype
        found.append(value if same else importer.block_builder.emit(relax.op.astype(value, dtype)))
    return found[0], found[1]


def _gives_statistics(node: Any) -> bool:
    return is_read(node, 1) or is_read(node, 2)


def _statistics(
    node: Any, emit: Emit, data: Expression, axes: Sequence[int], epsilon: float, *, keepdims: bool
) -> list[Expression]:
    """The mean and the reciprocal of the standard deviation, where the program reads one of them."""
    if not _gives_statistics(node):
        return []
    own = dtype_name(node.meta["val"][1].dtype)
    moments = _moments(emit, _widened(emit, data), axes, epsilon, keepdims=keepdims)
    return [value if dtype_of(value) == own else emit(relax.op.astype(value, own)) for value in moments]


def _moments(
    emit: Emit, data: Expression, axes: Sequence[int], epsilon: float, *, keepdims: bool
) -> tuple[Expression, Expression]:
    """The mean and the reciprocal of the standard deviation."""
    mean, variance = (
        emit(reduce(data, list(axes), keepdims)) for reduce in (relax.op.mean, relax.op.variance)
    )
    margin = relax.const(epsilon, dtype_of(data))
    return mean, emit(relax.op.rsqrt(emit(relax.op.add(variance, margin))))


def _widened(emit: Emit, data: Expression) -> Expression:
    """Halves in single precision, other types as they are."""
    return emit(relax.op.astype(data, "float32")) if dtype_of(data) in HALVES else data


CONVERTERS: dict[str, Converter] = {
    "instance_norm.default": _instance_norm,
    "native_group_norm.default": _group_norm,
    "native_layer_norm.default": _layer_norm,
}
"""By the names that TVM's importer has for operations, whose own converters they replace."""
