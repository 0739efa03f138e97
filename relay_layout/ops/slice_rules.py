"""Slices: bounds are arguments of the call, one for each axis it names."""

from collections.abc import Sequence
from typing import Any

from tvm import relax

from relay_layout.graph import Node
from relay_layout.ir import Expression, as_extent, is_static
from relay_layout.layout import Layout
from relay_layout.ops.axis_rule import Labels, letters, outer_position

Bounds = tuple[Any, Any, Any]
"""Begin, end and stride of a slice: ints, or symbolic expressions."""


def sliced(node: Node) -> Labels | None:
    """Slices; a block may cut a dimension where known bounds of stride one fall on its edges."""
    shape = node.operands[0].shape
    slices = _slices(node) if shape else None
    if shape is None or slices is None or node.results[0].shape is None:
        return None
    text = letters(len(shape))
    whole = frozenset(text[axis] for axis, bounds in slices.items() if known_run(bounds, shape[axis]) is None)
    return Labels((text,), (text,), whole, frozenset(text[axis] for axis in slices))


def cuts_slices_cleanly(node: Node, layout: Layout) -> bool:
    """Whether the bounds of every dimension that is cut fall on the edges of its blocks."""
    shape = node.operands[0].shape or ()
    for axis, bounds in (_slices(node) or {}).items():
        block = layout.block(letters(len(shape))[axis])
        run = known_run(bounds, shape[axis]) if block > 1 else None
        if block > 1 and (run is None or run[0] % block or run[1] % block):
            return False
    return True


def sliced_arguments(node: Node, layout: Layout, operands: Sequence[Expression]) -> Sequence[Expression]:
    """The data, and axes and bounds for the new dimensions; bounds in blocks where these are cut."""
    shape = node.operands[0].shape or ()
    rows = []
    for axis, (begin, end, stride) in (_slices(node) or {}).items():
        label = letters(len(shape))[axis]
        block = layout.block(label)
        run = known_run((begin, end, stride), shape[axis]) if block > 1 else None
        if run is not None:
            begin, end = run[0] // block, run[1] // block
        rows.append((outer_position(layout, label), begin, end, stride))
    columns = zip(*rows, strict=True) if rows else [(), (), (), ()]
    return [
        operands[0],
        *[relax.Tuple([relax.prim_value(entry) for entry in column]) for column in columns],
    ]


def _slices(node: Node) -> dict[int, Bounds] | None:
    """Bounds by dimension; None where the dimensions are not known numbers or come twice."""
    lists = []
    for argument in node.expression.args[1:]:
        if not isinstance(argument, relax.Tuple):
            return None
        lists.append([as_extent(entry) for entry in argument.fields])
    axes, begins, ends = lists[:3]
    strides = lists[3] if len(lists) > 3 else [1] * len(axes)
    if not is_static(axes):
        return None
    rank = node.operands[0].rank
    slices = {
        axis % rank: bounds
        for axis, bounds in zip(axes, zip(begins, ends, strides, strict=True), strict=True)
    }
    return slices if len(slices) == len(axes) else None


def known_run(bounds: Bounds, extent: Any) -> tuple[int, int] | None:
    """First element and end of a run of neighbours; None for strides, symbolic bounds and empty slices."""
    begin, end, stride = bounds
    if not is_static((begin, end, stride, extent)) or stride != 1:
        return None
    begin, end = (min(max(bound + extent if bound < 0 else bound, 0), extent) for bound in (begin, end))
    return (begin, end) if begin < end else None
