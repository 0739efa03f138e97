"""Instance and group norm: which layouts they run in, and their arithmetic in each of them.

Deviations are taken from the mean before they are squared (the two-pass form of Chan, Golub and LeVeque,
1983): the difference of a mean square and a squared mean loses all digits where the mean is large.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax, sym

from relay_layout.graph import Node
from relay_layout.ir import HALVES, Expression, Extent, as_extent, is_static
from relay_layout.layout import Layout
from relay_layout.ops.axis_rule import Labels, letters, outer_position, positions
from relay_layout.ops.parameter_rules import along, in_type, over_axes_attributes
from relay_layout.ops.signature import Replacement

_SINGLE = "float32"


@dataclass(frozen=True)
class ChannelNorm:
    """What either operator computes, by the labels of its dimensions.

    Statistics are taken over ``reduced`` and, with ``groups``, over the channels of each group together.
    """

    rank: int
    channel: str
    reduced: tuple[str, ...]
    epsilon: float
    scale: bool
    center: bool
    groups: int | None

    @classmethod
    def of(cls, operator: str, rank: int, attributes: Any) -> "ChannelNorm":
        """The meaning of a call of "nn.instance_norm" or "nn.group_norm" on data of that rank."""
        text = letters(rank)
        return cls(
            rank,
            text[int(attributes.channel_axis) % rank],
            tuple(text[int(axis) % rank] for axis in attributes.axes),
            float(attributes.epsilon),
            bool(attributes.scale),
            bool(attributes.center),
            int(attributes.num_groups) if operator == "nn.group_norm" else None,
        )

    def arithmetic(
        self, builder: relax.BlockBuilder, layout: Layout, operands: Sequence[Expression]
    ) -> Expression:
        """The operator on data, gamma and beta in ``layout``, in single precision where they are halves."""
        data, gamma, beta = operands
        dtype = str(data.ty.dtype)
        wide = _SINGLE if dtype in HALVES else dtype

        def deviation() -> Expression:
            # Written for each reader, so that none of them has to wait for a tensor as large as the data.
            return builder.emit(relax.op.subtract(in_type(data, wide), mean))

        def lined_up(vector: Expression) -> Expression:
            return builder.emit(along(builder.normalize(in_type(vector, wide)), layout, self.channel))

        mean = self._statistic(builder, layout, in_type(data, wide))
        variance = self._statistic(builder, layout, relax.op.square(deviation()))
        factor = builder.emit(relax.op.rsqrt(relax.op.add(variance, relax.const(self.epsilon, wide))))
        if self.scale:
            factor = builder.emit(relax.op.multiply(factor, lined_up(gamma)))
        result = builder.emit(relax.op.multiply(deviation(), factor))
        if self.center:
            result = builder.emit(relax.op.add(result, lined_up(beta)))
        return in_type(result, dtype)

    def _statistic(self, builder: relax.BlockBuilder, layout: Layout, data: Expression) -> Expression:
        """The mean for every channel, with the dimensions that are gone as ones."""
        data = builder.emit(data)
        places = positions(layout, self.reduced)
        mean = builder.emit(relax.op.mean(data, places, keepdims=True)) if places else data
        if self.groups is None:
            return mean
        # What is left is small, so that only these few elements are taken apart into groups.
        shape = list(mean.ty.shape.values)
        place, parts, gone = self._split(layout, shape)
        outer = outer_position(layout, self.channel)
        apart = builder.emit(relax.op.reshape(mean, [*shape[:place], *parts, *shape[place + 1 :]]))
        together = builder.emit(relax.op.mean(apart, gone, keepdims=True))
        # Zeros, of the extents that belong to the channels, make a mean as many as its group has channels.
        own: list[Extent] = [1] * len(apart.ty.shape.values)
        for axis in (outer, place, *gone):
            own[axis] = as_extent(apart.ty.shape.values[axis])
        dtype = str(mean.ty.dtype)
        if is_static(own):
            zeros = relax.const(np.zeros(own, dtype), dtype)
        else:
            zeros = builder.emit(relax.op.zeros(relax.ShapeExpr(own), dtype))
        spread = builder.emit(relax.op.add(together, zeros))
        return builder.emit(relax.op.reshape(spread, shape))

    def _split(self, layout: Layout, shape: Sequence[Any]) -> tuple[int, tuple[Extent, Extent], list[int]]:
        """The dimension to split, into what, and the dimensions that are then one group."""
        places = positions(layout, [self.channel])
        block = layout.block(self.channel)
        groups = self.groups or 1
        members = _simplest(as_extent(shape[places[0]]) * block // groups)
        if not isinstance(members, int):
            # Channels of any number are in no blocks.
            return places[0], (groups, members), [places[0] + 1]
        if members % block == 0:
            inside = [place + 1 for place in places[1:]]
            return places[0], (groups, members // block), [places[0] + 1, *inside]
        return places[1], (block // members, members), [places[1] + 1]

    def takes_blocks(self, layout: Layout, channels: Any) -> bool:
        """Whether a group is a number of whole blocks or a block one of whole groups."""
        block = layout.block(self.channel)
        if self.groups is None or not layout.is_split(self.channel):
            return True
        if not isinstance(channels, int) or len(positions(layout, [self.channel])) != 2:
            return False
        members = channels // self.groups
        return members % block == 0 or block % members == 0


def channel_norm(node: Node) -> Labels | None:
    """Instance and group norm: parameters along ``channel_axis``, statistics over ``axes``."""
    data = node.operands[0]
    if data.shape is None or any(value.rank != 1 for value in node.operands[1:]):
        return None
    text = letters(data.rank)
    return Labels((text, *[_norm_of(node).channel] * (len(node.operands) - 1)), (text,))


def channel_norm_attributes(node: Node, layout: Layout) -> Mapping[str, Any]:
    """``axes`` and ``channel_axis`` at their new places."""
    return {
        **over_axes_attributes(node, layout),
        "channel_axis": outer_position(layout, _norm_of(node).channel),
    }


def keeps_groups(node: Node, layout: Layout) -> bool:
    """Whether blocks of channels and groups of them divide each other."""
    shape, norm = node.operands[0].shape or (), _norm_of(node)
    return norm.takes_blocks(layout, shape[letters(norm.rank).index(norm.channel)])


def channel_norm_expansion(node: Node, layout: Layout) -> Replacement | None:
    """The arithmetic where channels or what is reduced are blocked: the operator names whole dimensions."""
    norm = _norm_of(node)
    if not any(layout.is_split(label) for label in (norm.channel, *norm.reduced)):
        return None
    return lambda builder, operands: norm.arithmetic(builder, layout, operands)


def _norm_of(node: Node) -> ChannelNorm:
    return ChannelNorm.of(node.operator, node.operands[0].rank, node.attributes)


def _simplest(extent: Extent) -> Extent:
    return extent if isinstance(extent, int) else as_extent(sym.Analyzer().simplify(extent))
