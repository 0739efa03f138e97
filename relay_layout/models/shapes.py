"""Shapes of values, and the arithmetic that operations on them share."""

from relay_layout.errors import ModelError

Dimension = int | str
"""An extent, or the name of a symbolic one; only the batch dimension may be symbolic."""

Shape = tuple[Dimension, ...]
Pair = tuple[int, int]
Padding = tuple[int, int, int, int]
"""Padding of an image: top, left, bottom, right."""


def static_extent(shape: Shape, axis: int) -> int:
    """The extent of ``shape`` along ``axis``; ModelError where it is symbolic."""
    extent = shape[axis]
    if isinstance(extent, str):
        raise ModelError(f"axis {axis} of {written(shape)} is symbolic; only the batch may be")
    return extent


def image(shape: Shape) -> tuple[Dimension, int, int, int]:
    """[N,C,H,W] as four extents; ModelError for another rank."""
    if len(shape) != 4:
        raise ModelError(f"an image operation needs [N,C,H,W], not {written(shape)}")
    return (shape[0], static_extent(shape, 1), static_extent(shape, 2), static_extent(shape, 3))


def slid(
    extents: Pair,
    kernel: Pair,
    strides: Pair,
    padding: Padding,
    dilation: Pair = (1, 1),
    *,
    ceil_mode: bool = False,
) -> Pair:
    """Positions that a window takes over rows and columns; ModelError where it does not fit."""
    height, width = (
        _slid_axis(
            extents[axis],
            dilation[axis] * (kernel[axis] - 1) + 1,
            strides[axis],
            padding[axis],
            padding[axis + 2],
            ceil_mode=ceil_mode,
        )
        for axis in (0, 1)
    )
    return height, width


def written(shape: Shape) -> str:
    """A shape as messages show it: ``[N,3,224,224]``."""
    return "[" + ",".join(str(extent) for extent in shape) + "]"


def _slid_axis(extent: int, reach: int, stride: int, before: int, after: int, *, ceil_mode: bool) -> int:
    room = extent + before + after - reach
    if room < 0:
        raise ModelError(
            f"a window reaching {reach} does not fit an extent of {extent} padded by {before} and {after}"
        )
    steps = -(-room // stride) if ceil_mode else room // stride
    # torch drops such a window, TVM and old ONNX keep it: there is no result that all of them agree on.
    if ceil_mode and steps * stride >= extent + before:
        raise ModelError(
            f"with ceil_mode the last window starts past the extent of {extent} padded by {before} before it"
        )
    return steps + 1
