"""Reshapes: dimensions that are split, merged or kept, while the others may lie in any order.

Both shapes fall into groups of neighbouring dimensions with equal products. A group moves as one; within it
the order stays. In such a layout the reshape still moves nothing.
"""

from collections.abc import Iterable, Sequence

from relay_layout.graph import Node
from relay_layout.ir import Expression, Extent, with_attributes
from relay_layout.layout import Layout
from relay_layout.ops.axis_rules import letters, rebuild_arguments
from relay_layout.ops.signature import Offers, Signature, Wanted

Group = tuple[str, str]
"""The letters of dimensions of the operand, and of the result, that hold the same elements."""


class ReshapeRule:
    """One tensor in, one out, the elements in the same order."""

    decides = False

    def signatures(self, node: Node, wanted: Wanted, offers: Offers) -> Iterable[Signature]:
        """One for each layout around the node that keeps every group together."""
        del offers
        source, target = node.operands[0], node.results[0]
        if source.shape is None or target.shape is None:
            return
        groups = matching_groups(source.shape, target.shape)
        if groups is None:
            return
        backward = [(right, left) for left, right in groups]
        pairs: list[tuple[Layout | None, Layout | None]] = [
            (layout, _carried(layout, groups)) for layout in wanted.operands[0]
        ]
        pairs += [(_carried(layout, backward), layout) for layout in wanted.results[0]]
        seen = {(source.identity, target.identity)}
        for before, after in pairs:
            if before is None or after is None or (before, after) in seen:
                continue
            seen.add((before, after))
            if _fits(before, source.shape) and _fits(after, target.shape):
                yield Signature((before,), (after,), alias=True)

    def rewrite(self, node: Node, signature: Signature, operands: Sequence[Expression]) -> Expression:
        """The reshape as it is; in other layouts it is an alias of its operand."""
        del signature
        return with_attributes(node.expression, rebuild_arguments(node, operands))


def matching_groups(source: Sequence[Extent], target: Sequence[Extent]) -> list[Group] | None:
    """The groups of two shapes of the same elements, in order; None where symbolic extents hide them."""
    groups: list[Group] = []
    left, right = 0, 0
    while left < len(source) and right < len(target):
        first_left, first_right = left, right
        before, after = source[left], target[right]
        left, right = left + 1, right + 1
        if not (isinstance(before, int) and isinstance(after, int)):
            if not _equal(before, after):
                return None
        else:
            while before != after:
                if before < after:
                    if left == len(source) or not isinstance(source[left], int):
                        return None
                    before *= source[left]
                    left += 1
                else:
                    if right == len(target) or not isinstance(target[right], int):
                        return None
                    after *= target[right]
                    right += 1
        groups.append((letters(left)[first_left:], letters(right)[first_right:]))
    if left < len(source) or right < len(target):
        if not groups:
            return None
        # What is left over has one element along each dimension.
        last_left, last_right = groups[-1]
        groups[-1] = (last_left + letters(len(source))[left:], last_right + letters(len(target))[right:])
    return groups


def _equal(left: Extent, right: Extent) -> bool:
    if isinstance(left, int) or isinstance(right, int):
        return isinstance(left, int) and isinstance(right, int) and left == right
    return bool(left.same_as(right))


def _carried(layout: Layout, groups: Sequence[Group]) -> Layout | None:
    """The layout of the other side: each group's letters replaced; None where a group is torn apart."""
    other: list[str] = []
    axes = list(layout.axes)
    place = 0
    while place < len(axes):
        name = axes[place].name
        before, after = next(group for group in groups if name in group[0])
        if len(before) == 1 and len(after) == 1:
            factor = axes[place].factor
            other.append(after if factor is None else f"{factor}{after.lower()}")
            place += 1
            continue
        run = axes[place : place + len(before)]
        if "".join(axis.name for axis in run if axis.factor is None) != before:
            return None
        other.append(after)
        place += len(before)
    return Layout.parse("".join(other))


def _fits(layout: Layout, shape: Sequence[Extent]) -> bool:
    extents = dict(zip(letters(len(shape)), shape, strict=True))
    return all(
        isinstance(extents[axis], int) and extents[axis] % layout.block(axis) == 0
        for axis in layout.blocked_axes
    )
