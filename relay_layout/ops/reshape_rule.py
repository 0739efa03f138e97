"""Reshapes: dimensions that are split, merged or kept, while the others may lie in any order.

Both shapes fall into groups of neighbouring dimensions with equal products. A group moves as one; within it
the order stays. In such a layout the reshape still moves nothing.
"""

from collections.abc import Iterable, Sequence
from itertools import product
from math import prod

from tvm.sym import Analyzer

from relay_layout.graph import Node
from relay_layout.ir import Extent, is_one
from relay_layout.layout import Layout
from relay_layout.ops.axis_rules import letters
from relay_layout.ops.signature import Offers, Signature, Wanted

Group = tuple[str, str]
"""The letters of dimensions of the operand, and of the result, that hold the same elements."""


class ReshapeRule:
    """One tensor in, one out, the elements in the same order."""

    decides = False

    @property
    def summary(self) -> str:
        """One line on how the dimensions correspond."""
        return "Dimensions that are split or merged stay neighbours in order; the others are free."

    def signatures(self, node: Node, wanted: Wanted, offers: Offers) -> Iterable[Signature]:
        """One for each layout around the node that keeps every group together."""
        del offers
        source, target = node.operands[0], node.results[0]
        if source.shape is None or target.shape is None:
            return
        groups = matching_groups(source.shape, target.shape)
        if groups is None:
            return
        units = _units(source.shape), _units(target.shape)
        backward = [(right, left) for left, right in groups]
        pairs: list[tuple[Layout | None, Layout | None]] = [
            (layout, _carried(layout, groups, units)) for layout in wanted.operands[0]
        ]
        pairs += [(_carried(layout, backward, units[::-1]), layout) for layout in wanted.results[0]]
        seen = {(source.identity, target.identity)}
        for before, after in pairs:
            if before is None or after is None or (before, after) in seen:
                continue
            seen.add((before, after))
            if fits(before, source.shape) and fits(after, target.shape):
                yield Signature((before,), (after,), alias=True)


def matching_groups(source: Sequence[Extent], target: Sequence[Extent]) -> list[Group] | None:
    """The groups of two shapes of the same elements, in order; None where symbolic extents hide them."""
    groups: list[Group] = []
    left, right = 0, 0
    if any(isinstance(extent, int) and extent == 0 for extent in source):
        return None
    while left < len(source) and right < len(target):
        counts = _matching_counts(source[left:], target[right:])
        if counts is None:
            return None
        first_left, first_right = left, right
        left, right = left + counts[0], right + counts[1]
        groups.append((letters(left)[first_left:], letters(right)[first_right:]))
    if left < len(source) or right < len(target):
        if not groups:
            return None
        # What is left over has one element along each dimension.
        last_left, last_right = groups[-1]
        groups[-1] = (last_left + letters(len(source))[left:], last_right + letters(len(target))[right:])
    return groups


def _matching_counts(source: Sequence[Extent], target: Sequence[Extent]) -> tuple[int, int] | None:
    """The fewest leading dimensions of both that hold equally many elements whatever the symbols are."""
    if all(isinstance(extent, int) for extent in (*source, *target)):
        left, right = 1, 1
        before, after = source[0], target[0]
        while before != after:
            if before < after:
                if left == len(source):
                    return None
                before *= source[left]
                left += 1
            else:
                if right == len(target):
                    return None
                after *= target[right]
                right += 1
        return left, right
    analyzer = Analyzer()
    counts = product(range(1, len(source) + 1), range(1, len(target) + 1))
    for left, right in sorted(counts, key=sum):
        before, after = prod(source[:left]), prod(target[:right])
        if isinstance(before, int) and isinstance(after, int):
            if before == after:
                return left, right
        elif analyzer.can_prove_equal(before, after):
            return left, right
    return None


def _carried(layout: Layout, groups: Sequence[Group], units: tuple[str, str]) -> Layout | None:
    """The layout of the other side: each group's letters replaced; None where a group is torn apart.

    ``units`` are the letters of both sides that have one element: these may be anywhere. A block of a group's
    last dimension is one of the other side's last dimension.
    """
    if layout.alignments or any(axis.factor is not None and axis.name in units[0] for axis in layout.axes):
        return None
    other: list[str] = []
    group_of = {letter: group for group in groups for letter in group[0]}
    # The letters that count, by group: those of one element only where the group has no others.
    cores = {group: tuple(map(_core, group, units)) for group in groups}
    axes = [axis for axis in layout.axes if axis.name in cores[group_of[axis.name]][0]]
    place = 0
    while place < len(axes):
        name, factor = axes[place].name, axes[place].factor
        group = group_of[name]
        before, after = cores[group]
        if factor is not None:
            if name != before[-1]:
                return None
            other.append(f"{factor}{after[-1].lower()}")
            place += 1
            continue
        run = axes[place : place + len(before)]
        if any(axis.factor is not None for axis in run) or "".join(axis.name for axis in run) != before:
            return None
        other.append(group[1])
        place += len(before)
    return Layout.parse("".join(other)) if other else Layout.generic(0)


def _core(letters_of_side: str, units: str) -> str:
    counting = "".join(letter for letter in letters_of_side if letter not in units)
    return counting or letters_of_side[:1]


def _units(shape: Sequence[Extent]) -> str:
    return "".join(
        letter for letter, extent in zip(letters(len(shape)), shape, strict=True) if is_one(extent)
    )


def fits(layout: Layout, shape: Sequence[Extent]) -> bool:
    """Whether every block divides its extent, which must then be known."""
    return layout.uneven_axis(dict(zip(letters(len(shape)), shape, strict=True))) is None
