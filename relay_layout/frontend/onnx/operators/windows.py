"""The sliding window of a convolution or pooling, read from a node's attributes and checked."""

from collections.abc import Sequence

from tvm import tirx

from relay_layout.frontend.extents.arithmetic import greatest, simplify
from relay_layout.frontend.onnx.node import Node
from relay_layout.frontend.operators.sliding_windows import Window
from relay_layout.frontend.values import Unsupported
from relay_layout.ir import Extent

_TOO_LARGE = 2**31


def window(
    node: Node, kernel: Sequence[int], spatial: Sequence[Extent], *, rounds_up: bool = False
) -> Window:
    """The node's window over an image of extents ``spatial``, with ``auto_pad`` worked out.

    Padding depends on open extents where ``auto_pad`` makes it. A window that ``rounds_up`` may reach beyond
    the padding, by less than a stride.
    """
    rank = len(spatial)
    fixed = given_window(node, kernel, rank)
    if len(kernel) != rank or not all(1 <= extent < _TOO_LARGE for extent in kernel):
        raise Unsupported(f"has kernel_shape {list(kernel)} for {rank} spatial dimensions")
    mode = node.attributes.get("auto_pad", "NOTSET")
    if mode == "NOTSET":
        _check_fit(node, fixed, spatial, rounds_up=rounds_up)
        return fixed
    if mode == "VALID":
        unpadded = fixed.padded((0,) * rank, mode)
        _check_fit(node, unpadded, spatial)
        return unpadded
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise Unsupported(f"has the unknown auto_pad '{mode}'")
    totals = [
        _same_padding(extent, reach, stride)
        for extent, reach, stride in zip(spatial, fixed.reach, fixed.strides, strict=True)
    ]
    return fixed.padded(totals, mode)


def given_window(node: Node, kernel: Sequence[int], rank: int) -> Window:
    """The node's window with the padding that it gives, whatever its ``auto_pad``."""
    strides = integers(node, "strides", [1] * rank, least=1)
    dilation = integers(node, "dilations", [1] * rank, least=1)
    pads = integers(node, "pads", [0] * (2 * rank), least=0)
    return Window(tuple(kernel), strides, dilation, pads[:rank], pads[rank:])


def integers(node: Node, name: str, default: Sequence[int], *, least: int) -> tuple[int, ...]:
    """An attribute of as many integers as its default has, none below ``least``."""
    given = tuple(node.attributes.get(name, ())) or tuple(default)
    if len(given) != len(default) or not all(least <= number < _TOO_LARGE for number in given):
        raise Unsupported(f"has {name} {list(given)} where {len(default)} integers from {least} up are due")
    return given


def _same_padding(extent: Extent, reach: int, stride: int) -> Extent:
    """Padding that leaves ceil(extent / stride) positions for the window."""
    positions = (extent + stride - 1) // stride
    return greatest(simplify((positions - 1) * stride + reach - extent), 0)


def _check_fit(node: Node, window: Window, spatial: Sequence[Extent], *, rounds_up: bool = False) -> None:
    sides = zip(window.before, window.after, window.strides, strict=True)
    for extent, reach, (before, after, stride) in zip(spatial, window.reach, sides, strict=True):
        spare = stride - 1 if rounds_up else 0
        if isinstance(extent, int) and extent + before + after + spare < reach:
            raise Unsupported(
                f"has a window reaching {reach}, which does not fit "
                f"an extent of {extent} padded by {before} and {after}"
            )
        if isinstance(extent, int):
            continue
        # What is due of a single size is found in the graph.
        is_of_one = len(tirx.analysis.undefined_vars(extent)) == 1
        ask = node.requirements.granted if is_of_one else node.requirements.more
        ask(extent, reach - before - after - spare - 1)
