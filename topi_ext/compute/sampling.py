"""Sampling an image at places that a tensor holds, as PyTorch's ``grid_sample`` defines it."""

from typing import Any

from tvm import te, tirx

from topi_ext.compute.selection import chosen

CORNERS = {"bilinear": 4, "nearest": 1}
"""Pixels that are read for one pixel of the result, by method."""

PADDINGS = ("zeros", "border")
"""What pixels outside are: nothing, or those at the edge."""


def grid_sample(
    pixels: te.Tensor,
    grid: te.Tensor,
    size: tuple[int, int],
    *,
    method: str,
    padding: str,
    align_corners: bool,
) -> te.Tensor:
    """``pixels`` (N, H * W, C) of an image of ``size`` (H, W) at the places ``grid`` (N, 2, P, Q); float32.

    The result is (N, P, Q, C). Of a place the grid has first the column, then the row, from -1 to 1. All
    channels share what a place comes to: which pixels are read, at which weights.
    """
    taps = CORNERS[method]
    batch, _, rows, columns = grid.shape
    shape = (batch, rows, columns, taps)

    def position(n: Any, p: Any, q: Any, side: int) -> Any:
        """In pixels, no further outside than an image that has nothing there."""
        extent, place = size[side], grid[n, 1 - side, p, q]
        span = extent - 1 if align_corners else extent
        moved = (place + 1.0) * (span / 2) - (0.0 if align_corners else 0.5)
        margin = 0 if padding == "border" else 2
        lowest, highest = (tirx.const(edge, "float32") for edge in (-margin, extent - 1 + margin))
        return te.max(te.min(moved, highest), lowest)

    def first(n: Any, p: Any, q: Any, side: int) -> Any:
        found = position(n, p, q, side)
        return te.nearbyint(found) if method == "nearest" else te.floor(found)

    def pixel(n: Any, p: Any, q: Any, tap: Any, side: int) -> Any:
        return first(n, p, q, side).astype("int32") + (tap // 2 if side == 0 else tap % 2)

    def corner(n: Any, p: Any, q: Any, tap: Any) -> Any:
        row, column = (te.max(te.min(pixel(n, p, q, tap, side), size[side] - 1), 0) for side in (0, 1))
        return row * size[1] + column

    def weight(n: Any, p: Any, q: Any, tap: Any) -> Any:
        value: Any = tirx.const(1.0, "float32")
        if method == "bilinear":
            for side, which in ((0, tap // 2), (1, tap % 2)):
                fraction = position(n, p, q, side) - first(n, p, q, side)
                value = value * chosen(which, [1.0 - fraction, fraction])
        if padding == "border":
            return value
        places = [pixel(n, p, q, tap, side) for side in (0, 1)]
        inside = te.all(*(te.all(at >= 0, at < extent) for at, extent in zip(places, size, strict=True)))
        return tirx.Select(inside, value, tirx.const(0.0, "float32"))

    corners = te.compute(shape, corner, name="corners")
    weights = te.compute(shape, weight, name="weights")

    def sampled(n: Any, p: Any, q: Any, channel: Any) -> Any:
        return sum(
            (pixels[n, corners[n, p, q, tap], channel] * weights[n, p, q, tap] for tap in range(1, taps)),
            pixels[n, corners[n, p, q, 0], channel] * weights[n, p, q, 0],
        )

    return te.compute((batch, rows, columns, pixels.shape[2]), sampled, name="grid_sample")
