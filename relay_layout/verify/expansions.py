"""What some operators stand for in terms of others: arithmetic that may be found in their place.

A dimension that an operator names as one cannot be blocked; its arithmetic can.
"""

from collections.abc import Callable

import numpy as np
from tvm import relax

from relay_layout.graph import Graph, Node, build_graph
from relay_layout.ir import HALVES, Expression
from relay_layout.verify.meanings import reading_of
from relay_layout.verify.reading import Kind


def expansion(node: Node) -> Graph | None:
    """The first result of a call computed from its operands; None for one that has no such form here."""
    build = _EXPANSIONS.get(node.operator)
    if build is None or any(value.shape is None for value in node.operands):
        return None
    builder = relax.BlockBuilder()
    parameters = [
        relax.Var(f"operand_{place}", relax.TensorType(list(value.shape or ()), value.dtype))
        for place, value in enumerate(node.operands)
    ]
    with builder.function("main", parameters):
        result = build(node, builder, parameters)
        if result is None:
            builder.emit_func_output(relax.Tuple([]))
            return None
        builder.emit_func_output(builder.emit(result))
    return build_graph(builder.finalize()["main"])


def passed_on(node: Node) -> dict[int, int]:
    """Results that are operands: batch norm gives mean and variance back unless it is training, and what adds
    or cuts off nothing gives back what it takes."""
    if node.operator == "nn.batch_norm" and not node.attributes.training:
        return {1: 3, 2: 4}
    if node.operator in ("strided_slice", "nn.pad"):
        reading = reading_of(node)
        labels = reading.operands[0] if reading is not None else None
        if labels is not None and all(label.name.kind is Kind.FREE for label in labels):
            return {0: 0}
    return {}


def _batch_norm(node: Node, builder: relax.BlockBuilder, operands: list[relax.Var]) -> Expression | None:
    attributes = node.attributes
    if attributes.training:
        return None
    data = operands[0]
    gamma, beta, mean, variance = (
        builder.emit(_along(vector, node, int(attributes.axis))) for vector in operands[1:]
    )
    epsilon = relax.const(float(attributes.epsilon), node.operands[0].dtype)
    deviation = builder.emit(relax.op.sqrt(builder.emit(relax.op.add(variance, epsilon))))
    result = builder.emit(relax.op.divide(builder.emit(relax.op.subtract(data, mean)), deviation))
    if attributes.scale:
        result = builder.emit(relax.op.multiply(result, gamma))
    return relax.op.add(result, beta) if attributes.center else result


def _prelu(node: Node, builder: relax.BlockBuilder, operands: list[relax.Var]) -> Expression | None:
    data, slope = operands
    if node.operands[1].shape not in ((), (1,)):
        slope = builder.emit(_along(slope, node, int(node.attributes.axis)))
    zero = relax.const(0, node.operands[0].dtype)
    positive = builder.emit(relax.op.greater(data, zero))
    return relax.op.where(positive, data, builder.emit(relax.op.multiply(data, slope)))


def _rms_norm(node: Node, builder: relax.BlockBuilder, operands: list[relax.Var]) -> Expression | None:
    rank = node.operands[0].rank
    axes = [int(axis) % rank for axis in node.attributes.axes]
    if axes != sorted(axes):
        return None
    data, weight = (_in_type(builder, operand, "float32") for operand in operands)
    square = builder.emit(relax.op.square(data))
    mean = builder.emit(relax.op.mean(square, axes, keepdims=True))
    epsilon = relax.const(float(node.attributes.epsilon), "float32")
    factor = builder.emit(relax.op.rsqrt(builder.emit(relax.op.add(mean, epsilon))))
    extents = iter(weight.ty.shape.values)
    shape = [next(extents) if axis in axes else 1 for axis in range(rank)]
    lined_up = builder.emit(relax.op.reshape(weight, shape))
    scaled = builder.emit(relax.op.multiply(builder.emit(relax.op.multiply(data, factor)), lined_up))
    return _in_type(builder, scaled, node.operands[0].dtype)


def _channel_norm(node: Node, builder: relax.BlockBuilder, operands: list[relax.Var]) -> Expression | None:
    attributes, rank = node.attributes, node.operands[0].rank
    channel = int(attributes.channel_axis) % rank
    axes = [int(axis) % rank for axis in attributes.axes]
    groups = int(attributes.num_groups) if node.operator == "nn.group_norm" else None
    extents = list(operands[0].ty.shape.values)
    if groups is not None and not isinstance(node.operands[0].shape[channel], int):  # type: ignore[index]
        return None

    def averaged(tensor: Expression) -> Expression:
        mean = builder.emit(relax.op.mean(tensor, axes, keepdims=True)) if axes else tensor
        if groups is None:
            return mean
        kept = [1 if place in axes else extent for place, extent in enumerate(extents)]
        members = int(extents[channel]) // groups
        apart = [*kept[:channel], groups, members, *kept[channel + 1 :]]
        grouped = builder.emit(relax.op.reshape(mean, apart))
        together = builder.emit(relax.op.mean(grouped, [channel + 1], keepdims=True))
        zeros = np.zeros(
            [
                groups if place == channel else members if place == channel + 1 else 1
                for place in range(rank + 1)
            ],
            wide,
        )
        spread = builder.emit(relax.op.add(together, relax.const(zeros)))
        return builder.emit(relax.op.reshape(spread, kept))

    dtype = node.operands[0].dtype
    wide = "float32" if dtype in HALVES else dtype
    data, gamma, beta = (_in_type(builder, operand, wide) for operand in operands)
    centered = builder.emit(relax.op.subtract(data, averaged(data)))
    variance = averaged(builder.emit(relax.op.square(centered)))
    epsilon = relax.const(float(attributes.epsilon), wide)
    factor = builder.emit(relax.op.rsqrt(builder.emit(relax.op.add(variance, epsilon))))
    if attributes.scale:
        factor = builder.emit(relax.op.multiply(factor, builder.emit(_along(gamma, node, channel))))
    result = builder.emit(relax.op.multiply(centered, factor))
    if attributes.center:
        result = builder.emit(relax.op.add(result, builder.emit(_along(beta, node, channel))))
    return _in_type(builder, result, dtype)


def _in_type(builder: relax.BlockBuilder, tensor: Expression, dtype: str) -> Expression:
    return tensor if str(tensor.ty.dtype) == dtype else builder.emit(relax.op.astype(tensor, dtype))


def _along(vector: relax.Var, node: Node, axis: int) -> Expression:
    """A vector along one dimension of the first operand."""
    rank = node.operands[0].rank
    extent = vector.ty.shape.values[0]
    return relax.op.reshape(vector, [extent if place == axis % rank else 1 for place in range(rank)])


_EXPANSIONS: dict[str, Callable[[Node, relax.BlockBuilder, list[relax.Var]], Expression | None]] = {
    "nn.batch_norm": _batch_norm,
    "nn.group_norm": _channel_norm,
    "nn.instance_norm": _channel_norm,
    "nn.prelu": _prelu,
    "nn.rms_norm": _rms_norm,
}
