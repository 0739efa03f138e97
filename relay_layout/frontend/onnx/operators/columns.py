"""ONNX's Col2Im: images put together of their windows."""

from collections.abc import Sequence
from math import prod
from typing import Any

from tvm import relax

from relay_layout.frontend.extents.arithmetic import product, simplify
from relay_layout.frontend.onnx.node import Node
from relay_layout.frontend.onnx.operators.padding import filled_around
from relay_layout.frontend.onnx.operators.windows import given_window
from relay_layout.frontend.operators.sliding_windows import Window
from relay_layout.frontend.values import Unsupported, Value, shape_of, written
from relay_layout.ir import Extent


def columns_to_image(node: Node) -> Value:
    """Col2Im: each column is a window of the image, and where windows overlap they are added.

    ``[N, C * elements, windows]`` to ``[N, C, *image]``. The elements of a window are cut into parts as long
    as its strides. Each part, of all windows, lines up without gaps to an image, and of these, each shifted
    by its place, the sum is taken.
    """
    data, image = node.tensor(0), node.extents(1)
    shape, block = shape_of(data), [int(extent) for extent in node.constant(2).reshape(-1)]
    sliding = given_window(node, block, len(image))
    if len(block) != len(image) or len(shape) != 3 or not isinstance(shape[1], int):
        raise Unsupported(f"makes {written(shape)} an image {written(image)} of blocks {block}")
    counts = [simplify(count) for count in sliding.counts(image)]
    windows = product(counts)
    for count in counts:
        node.requirements.more(count, 0)
    is_short = any(isinstance(count, int) and count < 1 for count in counts)
    if is_short or shape[1] % prod(block) or not node.requirements.assume_equal(shape[2], windows):
        raise Unsupported(
            f"has columns {written(shape)} where [N,C*{prod(block)},{written([windows])[1:-1]}] are due "
            f"for an image {written(image)}"
        )
    outer = [shape[0], shape[1] // prod(block)]
    elements = node.emit(relax.op.reshape(data, relax.ShapeExpr([*outer, *block, *counts])), "windows")
    parts = [
        -(-extent * dilation // stride)
        for extent, dilation, stride in zip(block, sliding.dilation, sliding.strides, strict=True)
    ]
    whole = _lined_up(node, _in_parts(node, elements, sliding, parts), sliding, parts)
    before = [0, 0, *(-width for width in sliding.before)]
    after = [
        simplify(extent + width - present)
        for extent, width, present in zip(image, sliding.before, shape_of(whole)[2:], strict=True)
    ]
    return filled_around(node, whole, before, [0, 0, *after], 0)


def _in_parts(node: Node, elements: Any, sliding: Window, parts: Sequence[int]) -> Any:
    """``[N, C, *kernel, *counts]`` as ``[*parts, N, C, first count, first stride, second count, ...]``."""
    rank = len(parts)
    shape = shape_of(elements)
    outer, counts = list(shape[:2]), list(shape[2 + rank :])
    spread = [2 + 2 * axis + 1 for axis in range(rank)]
    pairs = [extent for kernel in sliding.kernel for extent in (kernel, 1)]
    apart = node.emit(relax.op.reshape(elements, relax.ShapeExpr([*outer, *pairs, *counts])), "apart")
    ends = [0] * len(shape_of(apart))
    for axis, dilation in zip(spread, sliding.dilation, strict=True):
        ends[axis] = dilation - 1
    dilated = _followed_by_zeros(node, apart, ends)
    reaches = [kernel * dilation for kernel, dilation in zip(sliding.kernel, sliding.dilation, strict=True)]
    flat = node.emit(relax.op.reshape(dilated, relax.ShapeExpr([*outer, *reaches, *counts])), "dilated")
    lengths = [part * stride for part, stride in zip(parts, sliding.strides, strict=True)]
    missing = [length - reach for length, reach in zip(lengths, reaches, strict=True)]
    filled = _followed_by_zeros(node, flat, [0, 0, *missing, *[0] * rank])
    split = [extent for pair in zip(parts, sliding.strides, strict=True) for extent in pair]
    cut = node.emit(relax.op.reshape(filled, relax.ShapeExpr([*outer, *split, *counts])), "parts")
    first = [2 + 2 * axis for axis in range(rank)]
    inner = [place for axis in range(rank) for place in (2 + 2 * rank + axis, 3 + 2 * axis)]
    return node.emit(relax.op.permute_dims(cut, [*first, 0, 1, *inner]), "parts")


def _followed_by_zeros(node: Node, data: Any, after: Sequence[int]) -> Any:
    """``data`` with so many zeros after each axis."""
    widths = [width for end in after for width in (0, end)]
    return node.emit(relax.op.nn.pad(data, widths), "filled") if any(after) else data


def _lined_up(node: Node, data: Any, sliding: Window, parts: Sequence[int]) -> Any:
    """The image that windows cover, before it is cut, of ``data`` as :func:`_in_parts` has them."""
    rank = len(parts)
    for axis, number in enumerate(parts):
        data = _summed(node, data, _filled(sliding, axis), number, 2 + rank - 1 + axis)
    shape = shape_of(data)
    lengths: list[Extent] = [
        simplify(count * stride) for count, stride in zip(shape[2::2], sliding.strides, strict=True)
    ]
    return node.emit(relax.op.reshape(data, relax.ShapeExpr([*shape[:2], *lengths])), "image")


def _filled(sliding: Window, axis: int) -> list[int]:
    """The parts along an axis in which there are elements of a window."""
    places = range(sliding.kernel[axis])
    return sorted({place * sliding.dilation[axis] // sliding.strides[axis] for place in places})


def _summed(node: Node, data: Any, places: Sequence[int], number: int, counts: int) -> Any:
    """The sum of parts, each shifted by its place: ``data`` without its first axis, of ``number`` parts.

    What remains has ``number`` - 1 more along its axis ``counts``. Parts beside ``places`` are zero.
    """
    total = None
    for place in places:
        part = node.emit(relax.op.strided_slice(data, [0], [place], [place + 1]), "part")
        part = node.emit(relax.op.squeeze(part, [0]), "part")
        widths = [0] * (2 * len(shape_of(part)))
        widths[2 * counts : 2 * counts + 2] = place, number - 1 - place
        part = node.emit(relax.op.nn.pad(part, widths), "shifted") if any(widths) else part
        total = part if total is None else node.emit(relax.op.add(total, part), "sum")
    return total
