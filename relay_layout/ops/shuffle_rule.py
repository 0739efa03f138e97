"""Pixel shuffle: channels become pixels, read and written in any plain layouts."""

from collections.abc import Iterable, Sequence

from tvm import relax

from relay_layout.graph import Node
from relay_layout.ir import Expression
from relay_layout.layout import Layout
from relay_layout.ops.axis_rule import letters
from relay_layout.ops.signature import Offers, Replacement, Rule, Signature, Wanted


class PixelShuffleRule(Rule):
    """The operator only knows channels first; elsewhere a reshape, a transpose and a reshape do it.

    The transpose moves every element anyway, so that any order of the result costs the same.
    """

    summary = "Channels become pixels; any plain layout to any other, as a reshape, transpose and reshape."

    def signatures(self, node: Node, wanted: Wanted, offers: Offers) -> Iterable[Signature]:
        """From each plain layout of the operand to itself and to those its readers ask for."""
        data, result = node.operands[0], node.results[0]
        if data.shape is None or result.shape is None or not isinstance(data.shape[-3], int):
            return
        before = [layout for layout in wanted.operands[0] if layout.is_plain]
        after = [layout for layout in wanted.results[0] if layout.is_plain]
        pairs = [(source, target) for source in before for target in (source, *after)]
        pairs += [(target, target) for target in after]
        for source, target in dict.fromkeys(pairs):
            if (source, target) != (data.identity, result.identity):
                cost = offers.operator_cost(node, (source,), (target,))
                yield Signature((source,), (target,), cost=cost, replacement=_shuffled(node, source, target))


def _shuffled(node: Node, source: Layout, target: Layout) -> Replacement:
    """Channel ``(o * r + i) * r + j`` of pixel (y, x) is channel o of pixel ``(y * r + i, x * r + j)``."""
    shape, factor = node.operands[0].shape or (), int(node.attributes.upscale_factor)
    channel, row, column = tuple(letters(len(shape)))[-3:]
    below, beside = "y", "x"
    extents = dict(zip(letters(len(shape)), shape, strict=True))
    extents |= {channel: shape[-3] // (factor * factor), below: factor, beside: factor}
    read = {channel: channel + below + beside}
    written = {row: row + below, column: column + beside}
    parts = "".join(read.get(axis, axis) for axis in source.primal)
    order = [parts.index(part) for axis in target.primal for part in written.get(axis, axis)]
    result_shape = target.shape(node.results[0].shape or (), Layout.generic(len(shape)))

    def replacement(builder: relax.BlockBuilder, operands: Sequence[Expression]) -> Expression:
        split = builder.emit(relax.op.reshape(operands[0], [extents[part] for part in parts]))
        return relax.op.reshape(builder.emit(relax.op.permute_dims(split, order)), result_shape)

    return replacement
