"""ONNX's Pad, and padding by amounts that depend on the sizes of images."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.frontend.extents.arithmetic import greatest, least, simplify
from relay_layout.frontend.onnx.node import Node
from relay_layout.frontend.onnx.operators.windows import window
from relay_layout.frontend.operators.padding import filled_beyond, read_beyond
from relay_layout.frontend.operators.scattering import cut_axes
from relay_layout.frontend.operators.sliding_windows import Window
from relay_layout.frontend.values import Unsupported, Value, dtype_of, shape_of, written
from relay_layout.ir import Extent, is_static

_MODES = {"constant": "constant", "edge": "replicate", "reflect": "reflect", "wrap": "circular"}


def pad(node: Node) -> Value:
    """Pad: amounts below zero take elements away, before others are added."""
    data = node.tensor(0)
    before, after = _widths(node, len(shape_of(data)))
    mode = node.attributes.get("mode", "constant")
    if mode not in _MODES:
        raise Unsupported(f"pads in the unknown mode '{mode}'")
    if mode == "constant":
        if node.opset >= 11 and node.has(2) and not isinstance(node.input(2), np.ndarray):
            return _padded_by_tensor(node, data, before, after)
        return filled_around(node, data, before, after, _value(node, dtype_of(data)))
    data, before, after = _cropped(node, data, before, after)
    _check_edges(node, shape_of(data), (before, after))
    if mode == "reflect":
        _check_reflections(node, shape_of(data), (before, after))
    for axis, widths in enumerate(zip(before, after, strict=True)):
        if not is_static(widths):
            extent = shape_of(data)[axis]
            bounds = [node.plain(simplify(bound)) for bound in (0 - widths[0], extent + widths[1])]
            data = node.emit(read_beyond(node.emit, data, axis, bounds, _MODES[mode]), "padded")
            before[axis] = after[axis] = 0
    return _padded_by_numbers(data, before, after, _MODES[mode], 0)


def _check_edges(node: Node, shape: Sequence[Extent], sides: Sequence[Sequence[Extent]]) -> None:
    """There is an element at each edge that is padded."""
    for axis, (extent, *widths) in enumerate(zip(shape, *sides, strict=True)):
        if all(isinstance(width, int) and width == 0 for width in widths):
            continue
        if isinstance(extent, int) and extent == 0:
            raise Unsupported(f"has no elements along axis {axis} of {written(shape)} to pad with")
        node.requirements.more(extent, 0)


def _check_reflections(node: Node, shape: Sequence[Extent], sides: Sequence[Sequence[Extent]]) -> None:
    """Each element beyond the edge is one of those behind it."""
    for side in sides:
        for extent, width in zip(shape, side, strict=True):
            if isinstance(width, int) and width == 0:
                continue
            spare = simplify(extent - width)
            if isinstance(spare, int) and spare < 1:
                raise Unsupported(
                    f"reflects {width} elements of an axis of {written([extent])}, which has fewer behind "
                    "its edge: pad less, or in mode 'edge'"
                )
            if isinstance(width, int):
                node.requirements.more(extent, width)
            else:
                node.requirements.more(spare, 0)


def filled_around(node: Node, data: Any, before: list[Extent], after: list[Extent], value: float) -> Any:
    """``data`` with so much of ``value`` around it; amounts below zero take elements away."""
    data, before, after = _cropped(node, data, before, after)
    for axis, widths in enumerate(zip(before, after, strict=True)):
        if not is_static(widths):
            around = [node.plain(width) for width in widths]
            data = node.emit(filled_beyond(node.emit, data, axis, around, node.like(value, data)), "padded")
            before[axis] = after[axis] = 0
    return _padded_by_numbers(data, before, after, "constant", value)


def _padded_by_tensor(node: Node, data: Any, before: list[Extent], after: list[Extent]) -> Any:
    """``data`` with the one element of the node's input 2, known at run time, around it."""
    whole = relax.op.ones(relax.ShapeExpr(shape_of(data)), dtype_of(data))
    padded, ones = (
        node.emit(filled_around(node, tensor, list(before), list(after), 0), "padded")
        for tensor in (data, node.emit(whole, "ones"))
    )
    outside = node.emit(relax.op.equal(ones, node.like(0, data)), "outside")
    value = node.expression(node.reshaped(node.input(2), []))
    return relax.op.where(outside, value, padded)


def windowed(
    node: Node, data: Any, kernel: Sequence[int], outside: float, *, rounds_up: bool = False
) -> tuple[Any, Window]:
    """Data and the node's window over them, whose padding is numbers.

    What open extents decide is around the data already, filled with ``outside``.
    """
    found = window(node, kernel, shape_of(data)[2:], rounds_up=rounds_up)
    is_open = [not is_static(widths) for widths in zip(found.before, found.after, strict=True)]
    if not any(is_open):
        return data, found

    def parted(widths: Sequence[Extent], is_wanted: bool) -> list[Extent]:
        return [width if which is is_wanted else 0 for width, which in zip(widths, is_open, strict=True)]

    before, after = ([0, 0, *parted(widths, True)] for widths in (found.before, found.after))
    data = node.emit(filled_around(node, data, before, after, outside), "around")
    inside = replace(
        found, before=tuple(parted(found.before, False)), after=tuple(parted(found.after, False))
    )
    return data, inside


def _padded_by_numbers(data: Any, before: list[int], after: list[int], mode: str, value: float) -> Any:
    widths = [width for pair in zip(before, after, strict=True) for width in pair]
    return relax.op.nn.pad(data, widths, mode, value) if any(widths) else data


def _widths(node: Node, rank: int) -> tuple[list[Extent], list[Extent]]:
    # Opset 1 has another name for them.
    name = "pads" if node.opset > 1 else "paddings"
    pads = list(node.attributes.get(name, ())) if node.opset < 11 else node.extents(1)
    axes = list(range(rank))
    if node.has(3):
        axes = [node.axis(int(axis), rank) for axis in node.constant(3).reshape(-1)]
    if len(pads) != 2 * len(axes) or len(set(axes)) != len(axes):
        raise Unsupported(f"has pads {written(pads)} for axes {axes}")
    before: list[Extent] = [0] * rank
    after: list[Extent] = [0] * rank
    for index, axis in enumerate(axes):
        before[axis], after[axis] = pads[index], pads[index + len(axes)]
    return before, after


def _cropped(
    node: Node, data: Any, before: list[Extent], after: list[Extent]
) -> tuple[Any, list[Extent], list[Extent]]:
    """``data`` without what amounts below zero take away, and the amounts that are left."""
    added = ([greatest(width, 0) for width in side] for side in (before, after))
    shape = shape_of(data)
    begins = [greatest(simplify(0 - width), 0) for width in before]
    ends = [simplify(extent + least(width, 0)) for extent, width in zip(shape, after, strict=True)]
    axes = cut_axes(shape, begins, ends)
    if not axes:
        return data, *added
    if any(is_static((begins[axis], ends[axis])) and ends[axis] < begins[axis] for axis in axes):
        pads = written([*before, *after])
        raise Unsupported(f"takes more from {written(shape)} than there is, with pads {pads}")
    for axis in axes:
        node.requirements.no_more(begins[axis], ends[axis])
    kept = relax.op.strided_slice(
        data,
        axes,
        [relax.prim_value(node.plain(begins[axis])) for axis in axes],
        [relax.prim_value(node.plain(ends[axis])) for axis in axes],
        assume_inbound=True,
    )
    return node.emit(kept, "cropped"), *added


def _value(node: Node, dtype: str) -> float | int:
    if node.opset < 11:
        return float(node.attributes.get("value", 0.0))
    if not node.has(2):
        return 0
    number: float | int = np.asarray(node.constant(2), dtype=dtype).reshape(-1)[0].item()
    return number
