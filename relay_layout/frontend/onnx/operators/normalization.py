"""ONNX normalizations and the softmax family."""

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.frontend.extents.arithmetic import product, same, simplify
from relay_layout.frontend.onnx.agreement import with_extents
from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.values import Unsupported, Value, dtype_of, float_limits, shape_of, written
from relay_layout.ir import HALVES, Extent, is_static


def _only_first_output(node: Node) -> None:
    extra = [name for name in node.outputs[1:] if name]
    if extra:
        raise Unsupported(
            f"has outputs beyond the first in use ({', '.join(extra)}), which is not supported: "
            "export the network in inference mode"
        )


def _batch_normalization(node: Node) -> Value:
    if node.attributes.get("training_mode", 0):
        raise Unsupported(
            "works in training mode, which is not supported: export the network in inference mode"
        )
    _only_first_output(node)
    data = node.tensor(0)
    shape = shape_of(data)
    if not node.attributes.get("spatial", 1):
        return _batch_normalization_of_elements(node, data)
    channels = shape[1] if len(shape) > 1 else 1
    for index in range(1, 5):
        own = shape_of(node.input(index))
        if len(own) != 1 or not node.requirements.assume_equal(own[0], channels):
            raise Unsupported(f"normalizes {written(shape)} with statistics of {written(own)}")
    dtype = dtype_of(data)
    mixed = any(dtype_of(node.input(index)) != dtype for index in range(1, 5))
    # Statistics wider than the data are not rounded: the data are widened instead.
    wide = "float32" if mixed and dtype in HALVES else dtype
    result = relax.op.nn.batch_norm(
        *(node.cast(node.input(index), wide) for index in range(5)),
        axis=1,
        epsilon=node.attributes.get("epsilon", 1e-5),
        training=False,
    )
    normalized = relax.TupleGetItem(node.emit(result, "tuple"), 0)
    return normalized if wide == dtype else relax.op.astype(node.emit(normalized, "wide"), dtype)


def _batch_normalization_of_elements(node: Node, data: Any) -> Value:
    """With statistics of each element of an image, as opset 8 and older have it where ``spatial`` is 0."""
    scale, bias, mean, variance = (node.tensor(place) for place in range(1, 5))
    epsilon = node.like(node.attributes.get("epsilon", 1e-5), variance)
    deviation = relax.op.rsqrt(node.emit(relax.op.add(variance, epsilon), "variance"))
    factor = node.emit(relax.op.multiply(scale, node.emit(deviation, "deviation")), "factor")
    centred = node.emit(relax.op.subtract(data, mean), "centred")
    return relax.op.add(node.emit(relax.op.multiply(centred, factor), "scaled"), bias)


def _instance_normalization(node: Node) -> Value:
    shape = shape_of(node.input(0))
    if len(shape) < 3:
        raise Unsupported(f"normalizes {written(shape)}, which has no spatial dimensions")
    return relax.op.nn.instance_norm(
        node.tensor(0),
        _per_channel(node, 1, shape[1]),
        _per_channel(node, 2, shape[1]),
        channel_axis=1,
        axes=list(range(2, len(shape))),
        epsilon=node.attributes.get("epsilon", 1e-5),
    )


_CHANNELS_SINCE = 21
"""Opset from which GroupNormalization has scales of channels, and no longer of groups."""


def _group_normalization(node: Node) -> Value:
    shape = shape_of(node.input(0))
    groups = node.attributes["num_groups"]
    if len(shape) < 3 or groups < 1 or not _divides(node, groups, shape[1]):
        raise Unsupported(f"normalizes {written(shape)} in {groups} groups")
    scale, bias = (_per_channel(node, index, shape[1], groups) for index in (1, 2))
    return relax.op.nn.group_norm(
        node.tensor(0),
        scale,
        bias,
        groups,
        channel_axis=1,
        axes=list(range(2, len(shape))),
        epsilon=node.attributes.get("epsilon", 1e-5),
    )


def _divides(node: Node, groups: int, channels: Extent) -> bool:
    """Whether channels are a number of groups. Raises :class:`.Assumption` where they are for some sizes."""
    return same(channels % groups, 0) or node.requirements.assume_equal(simplify(channels % groups), 0)


def _per_channel(node: Node, index: int, channels: Extent, groups: int | None = None) -> Any:
    """Scale or bias per channel; opset 18 has one per group."""
    value = node.input(index)
    given = shape_of(value)
    if groups is not None and node.opset < _CHANNELS_SINCE and not (given and same(given[0], channels)):
        each = with_extents(node, value, [groups])
        if isinstance(each, np.ndarray) and isinstance(channels, int):
            return node.expression(np.repeat(each, channels // groups))
        if each is not None:
            apart = node.emit(node.expression(node.reshaped(each, [groups, 1])), "apart")
            spread = relax.ShapeExpr([groups, simplify(channels // groups)])
            return node.reshaped(node.emit(relax.op.broadcast_to(apart, spread), "spread"), [channels])
    found = with_extents(node, value, [channels])
    if found is None:
        raise Unsupported(f"has {written(given)} numbers for {written([channels])} channels")
    return node.expression(found)


def _layer_normalization(node: Node) -> Value:
    data = node.tensor(0)
    shape = shape_of(data)
    first = node.axis_given(len(shape), default=-1)
    normalized = shape[first:]
    axes, epsilon = list(range(first, len(shape))), node.attributes.get("epsilon", 1e-5)
    if not is_static(normalized) or any(node.outputs[1:]):
        return _written_out(node, axes, epsilon)
    scale = _spread(node, node.input(1), normalized)
    if node.has(2):
        bias = _spread(node, node.input(2), normalized)
    else:
        bias = node.expression(np.zeros(normalized, dtype_of(data)))
    return relax.op.nn.layer_norm(data, scale, bias, axes=axes, epsilon=epsilon)


def _written_out(node: Node, axes: list[int], epsilon: float) -> list[Any]:
    """What is normalized by layers, the mean, and the reciprocal of the standard deviation."""
    data = node.tensor(0)
    wide = _widened(node, data)
    mean, deviation, variance = _moments(node, wide, axes)
    factor = node.emit(relax.op.rsqrt(relax.op.add(variance, node.like(epsilon, wide))), "factor")
    result = node.cast(node.emit(relax.op.multiply(deviation, factor), "normalized"), dtype_of(data))
    result = relax.op.multiply(result, node.tensor(1))
    return [relax.op.add(result, node.tensor(2)) if node.has(2) else result, mean, factor]


def _root_mean_square_normalization(node: Node) -> Value:
    data = node.tensor(0)
    shape = shape_of(data)
    axes = list(range(node.axis_given(len(shape), default=-1), len(shape)))
    epsilon = node.attributes.get("epsilon", 1e-5)
    is_alone = not any(node.outputs[1:])
    if is_alone and is_static(shape[axes[0] :]) and isinstance(node.input(1), np.ndarray):
        scale = _spread(node, node.input(1), shape[axes[0] :])
        return relax.op.nn.rms_norm(data, scale, axes=axes, epsilon=epsilon)
    wide = _widened(node, data)
    square = relax.op.mean(relax.op.multiply(wide, wide), axes, keepdims=True)
    factor = node.emit(relax.op.rsqrt(relax.op.add(square, node.like(epsilon, wide))), "factor")
    result = node.cast(node.emit(relax.op.multiply(wide, factor), "normalized"), dtype_of(data))
    result = relax.op.multiply(result, node.tensor(1))
    # The factor is a result as ONNX Runtime has the operator.
    return result if is_alone else [result, factor]


def _widened(node: Node, data: Any) -> Any:
    """Halves in single precision, as the default stash_type has statistics; other types as they are."""
    if dtype_of(data) not in HALVES:
        return data
    return node.emit(relax.op.astype(data, "float32"), "wide")


def _moments(node: Node, data: Any, axes: list[int]) -> tuple[Any, Any, Any]:
    """The mean, the deviations from it, and their mean square."""
    mean = node.emit(relax.op.mean(data, axes, keepdims=True), "mean")
    deviation = node.emit(relax.op.subtract(data, mean), "deviation")
    return mean, deviation, relax.op.mean(relax.op.multiply(deviation, deviation), axes, keepdims=True)


def _spread(node: Node, value: Value, shape: list[Any]) -> Any:
    """Scale or bias in the shape of what is normalized."""
    if shape_of(value) == shape:
        return node.expression(value)
    if isinstance(value, np.ndarray):
        return node.expression(np.ascontiguousarray(np.broadcast_to(value, shape)))
    return relax.op.broadcast_to(value, shape)


def _local_response_normalization(node: Node) -> Value:
    data = node.tensor(0)
    shape = shape_of(data)
    size = node.attributes["size"]
    if len(shape) < 3 or size < 1:
        raise Unsupported(f"normalizes {written(shape)} over {size} channels")
    # The mean of squares over neighbouring channels is a pooling of [N,1,C,spatial].
    squares = relax.op.multiply(data, data)
    flat = relax.op.reshape(squares, relax.ShapeExpr([shape[0], 1, shape[1], product(shape[2:])]))
    before = (size - 1) // 2
    mean = relax.op.nn.avg_pool2d(
        flat,
        pool_size=[size, 1],
        strides=[1, 1],
        padding=[before, 0, size - 1 - before, 0],
        count_include_pad=True,
    )
    mean = node.emit(relax.op.reshape(mean, relax.ShapeExpr(shape)), "mean")
    alpha, beta = node.attributes.get("alpha", 1e-4), node.attributes.get("beta", 0.75)
    base = relax.op.add(
        relax.op.multiply(mean, node.like(alpha, data)), node.like(node.attributes.get("bias", 1.0), data)
    )
    return relax.op.divide(data, relax.op.power(base, node.like(beta, data)))


def _power_normalization(node: Node) -> Value:
    data = node.tensor(0)
    axis = node.axis_given(len(shape_of(data)), default=-1)
    if node.attributes.get("p", 2) == 1:
        norm = relax.op.sum(relax.op.abs(data), axis, keepdims=True)
    else:
        norm = relax.op.sqrt(relax.op.sum(relax.op.multiply(data, data), axis, keepdims=True))
    # Zeros stay zeros.
    smallest = node.like(float(float_limits(dtype_of(data)).tiny), data)
    return relax.op.divide(data, relax.op.maximum(norm, smallest))


def _mean_variance_normalization(node: Node) -> Value:
    data = node.tensor(0)
    axes = node.axes(node.attributes.get("axes", (0, 2, 3)), len(shape_of(data)))
    _, deviation, variance = _moments(node, data, axes)
    return relax.op.divide(deviation, relax.op.add(relax.op.sqrt(variance), node.like(1e-9, data)))


def _softmax(operator: Callable[..., Any]) -> Converter:
    def convert(node: Node) -> Value:
        data = node.tensor(0)
        shape = shape_of(data)
        if node.opset >= 13:
            return operator(data, axis=node.axis_given(len(shape), default=-1))
        axis = node.attributes.get("axis", 1)
        axis = axis + len(shape) if axis < 0 else axis
        if not 0 <= axis <= len(shape):
            raise Unsupported(f"has axis {axis} where there are {len(shape)} dimensions")
        # Before opset 13 all dimensions from the axis on were normalized together.
        wide = [index for index in range(axis, len(shape)) if shape[index] != 1]
        if len(wide) == 1:
            return operator(data, axis=wide[0])
        if not wide:
            return operator(relax.op.expand_dims(data, -1), axis=-1) if not shape else operator(data, axis=-1)
        flat = relax.op.reshape(data, relax.ShapeExpr([product(shape[:axis]), product(shape[axis:])]))
        flat = node.emit(flat, "flat")
        return relax.op.reshape(operator(flat, axis=-1), relax.ShapeExpr(shape))

    return convert


def _hardmax(node: Node) -> Value:
    """One at the first of the largest elements along an axis, zero elsewhere."""

    def largest(data: Any, axis: int) -> Any:
        extent = shape_of(data)[axis]
        found = node.emit(relax.op.argmax(data, axis, keepdims=True), "largest")
        places = node.places(extent)
        rank = len(shape_of(data))
        along = node.reshaped(places, [extent if index == axis % rank else 1 for index in range(rank)])
        return relax.op.astype(relax.op.equal(found, node.expression(along)), dtype_of(data))

    return _softmax(largest)(node)


CONVERTERS: dict[str, Converter] = {
    "BatchNormalization": _batch_normalization,
    "GroupNormalization": _group_normalization,
    "Hardmax": _hardmax,
    "InstanceNormalization": _instance_normalization,
    "LRN": _local_response_normalization,
    "LayerNormalization": _layer_normalization,
    "LogSoftmax": _softmax(relax.op.nn.log_softmax),
    "LpNormalization": _power_normalization,
    "MeanVarianceNormalization": _mean_variance_normalization,
    "RMSNormalization": _root_mean_square_normalization,
    # ONNX Runtime writes it in ONNX's own domain.
    "SimplifiedLayerNormalization": _root_mean_square_normalization,
    "Softmax": _softmax(relax.op.nn.softmax),
}
