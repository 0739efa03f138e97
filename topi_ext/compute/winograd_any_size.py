"""Winograd's convolution of images whose number and size are known at run time.

The tiles of all images are numbered through, row by row, and cut into chunks of as many as the knobs say.
What a tile reads beyond the image is zero; the last chunk ends with the last tile, repeated.
"""

from dataclasses import replace
from typing import Any

from tvm import te, tirx

from topi_ext.compute.winograd import tile_products, tile_results
from topi_ext.indexing import BlockedCoordinate, logical_extent, physical_index
from topi_ext.knobs import WinogradKnobs, check_strip
from topi_ext.winograd import KERNEL
from topi_ext.workloads.convolution import ALGORITHM, ANNOTATION, TYPICAL, ConvolutionWorkload

NEAREST = "winograd_nearest"
"""The block that reads the elements nearest to what a tile needs: there is one for each, without a branch."""

WINDOW = "winograd_window"
"""The block that puts zeros around the image."""


def winograd_any_size(
    data: te.Tensor,
    weight: te.Tensor,
    workload: ConvolutionWorkload,
    knobs: WinogradKnobs,
    pad_value: int = 0,
) -> te.Tensor:
    """Convolve ``data``, images of any number and size in the workload's layout, with transformed weights.

    ``workload`` has a typical size; ``knobs.rows`` is the number of tiles in a chunk. ``weight`` is as
    :func:`topi_ext.compute.winograd` takes it, and ``pad_value``.
    """
    check_strip(workload, knobs)
    images, height, width = (logical_extent(workload.data_layout, data.shape, axis) for axis in "NHW")
    top, left, bottom, right = workload.padding
    out_height, out_width = height + (top + bottom - KERNEL + 1), width + (left + right - KERNEL + 1)
    counts = tile_counts(out_height, knobs.tile), tile_counts(out_width, knobs.tile)
    window = _window(data, workload, knobs, counts, pad_value)
    found = tile_products(window, weight, workload, knobs, [window.shape[1], knobs.rows])
    annotations = {
        ANNOTATION: replace(workload, batch=images, in_height=height, in_width=width).to_json(),
        ALGORITHM: f"winograd{knobs.tile}",
        TYPICAL: workload.to_json(),
    }
    return tile_results(
        found,
        workload,
        knobs,
        {"N": images, "H": out_height, "W": out_width},
        counts,
        annotations,
        place_of=lambda number: (number // knobs.rows, number % knobs.rows),
    )


def _window(
    data: te.Tensor,
    workload: ConvolutionWorkload,
    knobs: WinogradKnobs,
    counts: tuple[Any, Any],
    pad_value: int,
) -> te.Tensor:
    """What the tiles read, (blocks of channels, chunks, tiles of one, rows, columns, channels of a block).

    ``counts`` are the tiles of an image along rows and columns.
    """
    images, height, width = (logical_extent(workload.data_layout, data.shape, axis) for axis in "NHW")
    tile, in_block = knobs.tile, knobs.in_lanes
    rows, columns = counts
    tiles = images * rows * columns
    chunks = tirx.floordiv(tiles + (knobs.rows - 1), knobs.rows)

    def place_of(chunk: Any, place: Any, row: Any, column: Any) -> tuple[Any, Any, Any]:
        """Image, row and column that a tile reads at a place within it."""
        image, y, x = tile_place(te.min(chunk * knobs.rows + place, tiles - 1), rows, columns)
        return image, y * tile + (row - workload.padding[0]), x * tile + (column - workload.padding[1])

    def nearest(block: Any, chunk: Any, place: Any, row: Any, column: Any, lane: Any) -> Any:
        image, y, x = place_of(chunk, place, row, column)
        within = {
            "N": image,
            "C": BlockedCoordinate(block, lane, in_block),
            "H": te.max(te.min(y, height - 1), 0),
            "W": te.max(te.min(x, width - 1), 0),
        }
        return data(*physical_index(workload.data_layout, within))

    extent = tile + KERNEL - 1
    shape = (workload.in_channels // in_block, chunks, knobs.rows, extent, extent, in_block)
    # A block of its own: where a choice reads the image, TVM takes for granted what it chooses by.
    read = te.compute(shape, nearest, name=NEAREST)

    def bordered(block: Any, chunk: Any, place: Any, row: Any, column: Any, lane: Any) -> Any:
        _, y, x = place_of(chunk, place, row, column)
        inside = tirx.all(y >= 0, y < height, x >= 0, x < width)
        element = read(block, chunk, place, row, column, lane)
        return tirx.Select(inside, element, tirx.const(pad_value, data.dtype))

    return te.compute(shape, bordered, name=WINDOW)


def tile_counts(extent: Any, tile: int) -> Any:
    """Tiles along so many results."""
    return (extent + (tile - 1)) // tile


def tile_place(number: Any, rows: Any, columns: Any) -> tuple[Any, Any, Any]:
    """The image of a tile, and which it is from above and from the left.

    Neither is below zero: divisions that say so take one instruction.
    """
    line = tirx.truncdiv(number, columns)
    return tirx.truncdiv(line, rows), tirx.truncmod(line, rows), tirx.truncmod(number, columns)
