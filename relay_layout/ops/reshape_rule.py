"""Reshapes: dimensions that are split, merged or kept, while the others may lie in any order.

Both shapes fall into groups of neighbouring dimensions with equal products. A group moves as one; within it
the order stays. In such a layout the reshape still moves nothing.
"""

from collections.abc import Iterable, Sequence
from itertools import product
from math import prod

from tvm.sym import Analyzer

from relay_layout.graph import Node
from relay_layout.ir import Extent, is_empty, is_one, is_static
from relay_layout.layout import Layout
from relay_layout.ops.axis_rule import blocks_divide, letters
from relay_layout.ops.signature import Offers, Rule, Signature, Wanted

Group = tuple[str, str]
"""The letters of dimensions of the operand, and of the result, that hold the same elements."""


class ReshapeRule(Rule):
    """One tensor in, one out, the elements in the same order."""

    summary = "Dimensions that are split or merged stay neighbours in order; the others are free."

    def signatures(self, node: Node, wanted: Wanted, offers: Offers) -> Iterable[Signature]:
        """One for each layout around the node that keeps every group together."""
        source, target = node.operands[0], node.results[0]
        if source.shape is None or target.shape is None:
            return
        groups = matching_groups(source.shape, target.shape)
        if groups is None:
            return
        forward = _Carrying(groups, source.shape, target.shape)
        backward = _Carrying([(right, left) for left, right in groups], target.shape, source.shape)
        pairs: list[tuple[Layout | None, Layout | None]] = [
            (layout, forward.carried(layout)) for layout in wanted.operands[0]
        ]
        pairs += [(backward.carried(layout), layout) for layout in wanted.results[0]]
        seen = {(source.identity, target.identity)}
        for before, after in pairs:
            if before is None or after is None or (before, after) in seen:
                continue
            seen.add((before, after))
            if blocks_divide(before, source.shape) and blocks_divide(after, target.shape):
                yield Signature((before,), (after,), alias=True)


def matching_groups(source: Sequence[Extent], target: Sequence[Extent]) -> list[Group] | None:
    """The groups of two shapes of the same elements, in order; None where symbolic extents hide them."""
    groups: list[Group] = []
    left, right = 0, 0
    if is_empty(source):
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
    if is_static((*source, *target)):
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


class _Carrying:
    """From the layouts of one side of a reshape to those of the other.

    ``groups`` have the letters of the side that layouts come from first, as the two shapes are.
    """

    def __init__(self, groups: Sequence[Group], source: Sequence[Extent], target: Sequence[Extent]) -> None:
        # Dimensions of one element may be anywhere.
        self.units = _units(source), _units(target)
        self.group_of = {letter: group for group in groups for letter in group[0]}
        # The letters that count, by group: those of one element only where the group has no others.
        self.cores = {
            group: (_core(group[0], self.units[0]), _core(group[1], self.units[1])) for group in groups
        }
        self.extents = tuple(dict(zip(letters(len(shape)), shape, strict=True)) for shape in (source, target))

    def carried(self, layout: Layout) -> Layout | None:
        """The layout of the other side: each group's letters replaced; None where a group is torn apart.

        A block of a group's last dimension is one of the other side's last dimension, and zeros behind its
        first one are zeros behind the other side's first.
        """
        if any(axis.factor is not None and axis.name in self.units[0] for axis in layout.axes):
            return None
        other: list[str] = []
        axes = [axis for axis in layout.axes if axis.name in self.cores[self.group_of[axis.name]][0]]
        place = 0
        while place < len(axes):
            name, factor = axes[place].name, axes[place].factor
            group = self.group_of[name]
            before, after = self.cores[group]
            if factor is not None:
                if name != before[-1]:
                    return None
                other.append(f"{factor}{after[-1].lower()}")
                place += 1
                continue
            run = axes[place : place + len(before)]
            if any(axis.factor is not None for axis in run) or "".join(axis.name for axis in run) != before:
                return None
            alignment = self._alignment(layout, before, after)
            if alignment is None:
                return None
            mark = f"[a={alignment}]"
            other += [letter + mark * (alignment > 1 and letter == after[0]) for letter in group[1]]
            place += len(before)
        if any(self.extents[0][name] == 1 for name, _ in layout.alignments):
            # Which dimension of one element is padded would not be known on the other side.
            return None
        return Layout.parse("".join(other)) if other else Layout.generic(0)

    def _alignment(self, layout: Layout, before: str, after: str) -> int | None:
        """To what the first letter of the other side is aligned, 1 for nothing; None where zeros would lie
        between elements."""
        units = [layout.alignment(letter) for letter in before]
        if units[0] == 1 or any(unit > 1 for unit in units[1:]):
            return None if any(unit > 1 for unit in units) else 1
        extents = [
            [side[letter] for letter in own] for side, own in zip(self.extents, (before, after), strict=True)
        ]
        if not all(isinstance(extent, int) for side in extents for extent in side):
            return None
        inner, outer = prod(extents[0][1:]), prod(extents[1][1:])
        elements = units[0] * inner
        return elements // outer if elements % outer == 0 else None


def _core(letters_of_side: str, units: str) -> str:
    counting = "".join(letter for letter in letters_of_side if letter not in units)
    return counting or letters_of_side[:1]


def _units(shape: Sequence[Extent]) -> str:
    return "".join(
        letter for letter, extent in zip(letters(len(shape)), shape, strict=True) if is_one(extent)
    )
