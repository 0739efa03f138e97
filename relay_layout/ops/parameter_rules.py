"""Operators with parameters along some dimensions: normalisations, prelu, quantisation.

Parameters that are vectors along one dimension stay vectors. Those over several dimensions have labels
of their own, so that they follow the order that the dimensions take.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tvm import relax

from relay_layout.graph import Node, Value
from relay_layout.ir import Expression, is_one
from relay_layout.layout import Layout
from relay_layout.ops.axis_rule import Labels, axis_label, letters, positions
from relay_layout.ops.signature import Replacement


def over_axes(node: Node) -> Labels | None:
    """Layer and RMS norm: statistics over ``axes``, parameters with exactly those dimensions."""
    data = node.operands[0]
    if data.shape is None:
        return None
    axes = [int(axis) % data.rank for axis in node.attributes.axes]
    if axes != sorted(axes) or any(value.rank != len(axes) for value in node.operands[1:]):
        return None
    text = letters(data.rank)
    parameters = "".join(text[axis] for axis in axes)
    return Labels((text, *[parameters] * (len(node.operands) - 1)), (text,))


def over_axes_attributes(node: Node, layout: Layout) -> Mapping[str, Any]:
    """``axes`` at their new places, in the order in which the parameters then have them."""
    rank = node.operands[0].rank
    return {"axes": positions(layout, [letters(rank)[int(axis) % rank] for axis in node.attributes.axes])}


def root_mean_square_expansion(node: Node, layout: Layout) -> Replacement | None:
    """RMS norm over dimensions that do not come last: its arithmetic, as TVM lowers it over the last only."""
    places = over_axes_attributes(node, layout)["axes"]
    if places == list(range(len(layout.axes) - len(places), len(layout.axes))):
        return None
    labels = [layout.axes[place].name for place in places]

    def replacement(builder: relax.BlockBuilder, operands: Sequence[Expression]) -> Expression:
        # In single precision, as the operator itself computes.
        data, weight = (in_type(operand, "float32") for operand in operands)
        mean = builder.emit(relax.op.mean(relax.op.square(data), places, keepdims=True))
        epsilon = relax.const(float(node.attributes.epsilon), "float32")
        factor = builder.emit(relax.op.rsqrt(relax.op.add(mean, epsilon)))
        scaled = relax.op.multiply(relax.op.multiply(data, factor), along(weight, layout, labels))
        return in_type(builder.emit(scaled), node.operands[0].dtype)

    return replacement


def normalized(node: Node) -> Labels | None:
    """Batch norm: statistics are vectors along ``axis``; in training it stays whole."""
    data = node.operands[0]
    if data.shape is None or any(value.rank != 1 for value in node.operands[1:]):
        return None
    channel = axis_label(node, data)
    vectors, statistics = (channel,) * (len(node.operands) - 1), (channel,) * (len(node.results) - 1)
    whole = frozenset(channel if node.attributes.training else "")
    return Labels((letters(data.rank), *vectors), (letters(data.rank), *statistics), whole)


def normalized_expansion(node: Node, layout: Layout) -> Replacement | None:
    """Batch norm along a blocked dimension: its arithmetic, as the operator names one dimension only."""
    channel = axis_label(node, node.operands[0])
    if not layout.is_split(channel):
        return None
    attributes = node.attributes

    def replacement(builder: relax.BlockBuilder, operands: Sequence[Expression]) -> Expression:
        data = operands[0]
        gamma, beta, mean, variance = (
            builder.emit(along(vector, layout, channel)) for vector in operands[1:]
        )
        epsilon = relax.const(float(attributes.epsilon), str(data.ty.dtype))
        deviation = builder.emit(relax.op.sqrt(relax.op.add(variance, epsilon)))
        result = builder.emit(relax.op.divide(relax.op.subtract(data, mean), deviation))
        if attributes.scale:
            result = builder.emit(relax.op.multiply(result, gamma))
        if attributes.center:
            result = builder.emit(relax.op.add(result, beta))
        return relax.Tuple([result, *operands[3:]])

    return replacement


def rectified(node: Node) -> Labels | None:
    """Parametric ReLU: a slope for each index along ``axis``, or one slope."""
    data, slope = node.operands
    if data.shape is None or slope.shape is None or not data.rank:
        return None
    text = letters(data.rank)
    return Labels((text, None if is_single(slope) else axis_label(node, data)), (text,))


def rectified_expansion(node: Node, layout: Layout) -> Replacement | None:
    """Parametric ReLU along a blocked dimension: a choice between the value and its multiple."""
    channel = axis_label(node, node.operands[0])
    if not layout.is_split(channel):
        return None

    def replacement(builder: relax.BlockBuilder, operands: Sequence[Expression]) -> Expression:
        data, slope = operands
        if not is_single(node.operands[1]):
            slope = builder.emit(along(slope, layout, channel))
        zero = relax.const(0, str(data.ty.dtype))
        return relax.op.where(relax.op.greater(data, zero), data, relax.op.multiply(data, slope))

    return replacement


def is_single(value: Value) -> bool:
    """Whether a parameter is one number, for all indices."""
    return value.shape is not None and all(map(is_one, value.shape))


def in_type(tensor: Expression, dtype: str) -> Expression:
    """``tensor``, cast where it has another type."""
    return tensor if str(tensor.ty.dtype) == dtype else relax.op.astype(tensor, dtype)


def along(parameter: Expression, layout: Layout, labels: Collection[str]) -> Expression:
    """A parameter along ``labels``, in its part of ``layout``, with the dimensions that line it up."""
    extents = iter(parameter.ty.shape.values)
    return relax.op.reshape(parameter, [next(extents) if axis.name in labels else 1 for axis in layout.axes])


def vector_along_axis(node: Node) -> Labels | None:
    """One tensor, and vectors or scalars along ``axis``, which stays whole where there is a vector."""
    data = node.operands[0]
    if data.shape is None:
        return None
    text = letters(data.rank)
    others = node.operands[1:]
    if any(value.rank > 1 for value in others) or not data.rank:
        return None
    whole = frozenset[str]() if all(map(is_single, others)) else frozenset(axis_label(node, data))
    return Labels((text, *[None] * len(others)), (text,), whole)
