"""3x3 convolution by Winograd's minimal filtering, for every combination of plain and blocked layouts.

Five stages, each a block that the schedule places: rows of the input tiles, columns of them, a matrix
product for each position in the tile, columns of the results, and the results. Tiles are numbered
through rows, planes and images, so that the products see one axis of pixels. A kernel of several planes
takes the same tile of as many planes of the data, and sums over them as over channels.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from tvm import te, tirx

from topi_ext.codegen.dot_products import dot
from topi_ext.compute.padding import pad
from topi_ext.compute.selection import chosen
from topi_ext.extents import as_int
from topi_ext.indexing import BlockedCoordinate, block_of, logical_extent, physical_axes, physical_index
from topi_ext.knobs import WinogradKnobs, check_knobs
from topi_ext.winograd import KERNEL, Groups, Matrix, WinogradMatrices, winograd_matrices
from topi_ext.workloads.convolution import ALGORITHM, ANNOTATION, PLANES, TYPICAL, ConvolutionWorkload
from topi_ext.workloads.facts import winograd_tiles

DATA_ROWS = "winograd_data_rows"
DATA = "winograd_data"
PRODUCT = "winograd_product"
RESULT_COLUMNS = "winograd_result_columns"

_WRAP = 1 << 32
"""Where sums of int32 wrap around."""


def winograd(
    data: te.Tensor,
    weight: te.Tensor,
    workload: ConvolutionWorkload,
    knobs: WinogradKnobs,
    pad_value: int = 0,
) -> te.Tensor:
    """Convolve ``data``, stored in the workload's layout, with transformed weights.

    Integers are computed in int16 and summed in int32, which gives the numbers of the direct convolution.
    ``pad_value`` fills the border.
    ``weight`` has the shape ``knobs.weight_shape(workload)``, :func:`topi_ext.winograd.transform_weight`
    makes it. Where the batch of ``data`` is symbolic, the workload has a typical batch.
    Among the knobs, only ``tile`` changes the result, and only its rounding.
    """
    check_knobs(workload, knobs)
    # Of the tensor itself: symbols of the graph have no value inside the function.
    batch = as_int(logical_extent(workload.data_layout, data.shape, "N"))
    tile, in_block = knobs.tile, knobs.in_lanes
    rows, columns = winograd_tiles(workload, tile)
    planes = int(workload.out_depth)
    tiles = batch * planes * rows * columns
    top, left, _, _ = workload.padding
    below = rows * tile + KERNEL - 1 - top - workload.in_height
    right = columns * tile + KERNEL - 1 - left - workload.in_width
    depth = workload.along(PLANES)
    padded = pad(
        data,
        workload.data_layout,
        {"D": depth.pad_before, "H": top, "W": left},
        {"D": depth.pad_after, "H": below, "W": right},
        value=pad_value,
    )

    def pixel(tap: Any, number: Any, row: Any, column: Any, channel: BlockedCoordinate) -> Any:
        image = number // (rows * columns)
        place = {
            "N": image // planes,
            "C": channel,
            "D": image % planes * depth.stride + tap * depth.dilation,
            "H": number // columns % rows * tile + row,
            "W": number % columns * tile + column,
        }
        return padded(*physical_index(workload.data_layout, place))

    channel_blocks = workload.in_channels // in_block

    def read(block: Any, number: Any, row: Any, column: Any, lane: Any) -> Any:
        tap, channel = (0, block) if depth.taps == 1 else (block // channel_blocks, block % channel_blocks)
        return pixel(tap, number, row, column, BlockedCoordinate(channel, lane, in_block))

    result_columns = tile_products(read, weight, workload, knobs, [tiles])
    extents = {"N": batch, "D": planes, "H": workload.out_height, "W": workload.out_width}
    annotations = {ANNOTATION: replace(workload, batch=batch).to_json(), ALGORITHM: f"winograd{tile}"}
    if isinstance(workload.batch, int) and not isinstance(batch, int):
        annotations[TYPICAL] = workload.to_json()
    return tile_results(result_columns, workload, knobs, extents, (rows, columns), annotations)


def tile_products(
    read: Callable[..., Any],
    weight: te.Tensor,
    workload: ConvolutionWorkload,
    knobs: WinogradKnobs,
    tiles: Sequence[Any],
) -> te.Tensor:
    """Columns of the results of all tiles: (blocks of output channels, *tiles, extent, tile, lanes).

    ``tiles`` are the extents of the axes that number them; ``read(block, *number, row, column, lane)`` is an
    element of what a tile reads, whose sums :func:`tile_results` finishes.
    """
    matrices, dtype = _matrices(knobs, workload.out_dtype), workload.dtype
    extent, tile, in_block, out_block = matrices.extent, knobs.tile, knobs.in_lanes, knobs.out_lanes
    in_blocks, out_blocks = workload.summed_planes // in_block, workload.out_channels // out_block

    def data_row(block: Any, *index: Any) -> Any:
        *number, row, column, lane = index
        values = [read(block, *number, at, column, lane).astype(dtype) for at in range(extent)]
        return row_of(matrices.data, matrices.data_groups, row, values, dtype)

    data_rows = te.compute((in_blocks, *tiles, extent, extent, in_block), data_row, name=DATA_ROWS)

    def data_point(place: Any, block: Any, *index: Any) -> Any:
        *number, lane = index
        row, column = place // extent, place % extent
        values = [data_rows(block, *number, row, at, lane) for at in range(extent)]
        return row_of(matrices.data, matrices.data_groups, column, values, dtype)

    spread = te.compute((extent * extent, in_blocks, *tiles, in_block), data_point, name=DATA)

    outer = te.reduce_axis((0, in_blocks), "rc")
    word = workload.word
    inner = te.reduce_axis((0, in_block // word), "rb")

    def product(place: Any, block: Any, *index: Any) -> Any:
        *number, lane = index
        column = block % knobs.tile_channels * out_block + lane
        places = (place, block // knobs.tile_channels)
        step = (outer * (in_block // word) + inner, column)
        row = (*(places if knobs.order == "pixels" else places[::-1]), *step)
        values = [spread(place, outer, *number, inner * word + at) for at in range(word)]
        if word == 1:
            value, factor = (each.astype(workload.out_dtype) for each in (values[0], weight(*row)))
            return te.sum(value * factor, axis=[outer, inner])
        factors = [weight(*row, at) for at in range(word)]
        return te.sum(dot(values, factors, workload.out_dtype), axis=[outer, inner])

    products = te.compute((extent * extent, out_blocks, *tiles, out_block), product, name=PRODUCT)

    def result_column(block: Any, *index: Any) -> Any:
        *number, row, column, lane = index
        values = [products(row * extent + at, block, *number, lane) for at in range(extent)]
        return row_of(matrices.result, matrices.result_groups, column, values, workload.out_dtype)

    return te.compute((out_blocks, *tiles, extent, tile, out_block), result_column, name=RESULT_COLUMNS)


def tile_results(
    result_columns: te.Tensor,
    workload: ConvolutionWorkload,
    knobs: WinogradKnobs,
    extents: Mapping[str, Any],
    tiles: tuple[Any, Any],
    attributes: Mapping[str, str],
    *,
    place_of: Callable[[Any], Sequence[Any]] = lambda number: [number],
) -> te.Tensor:
    """The convolution in the workload's layout, of what :func:`tile_products` gave.

    ``extents`` are those of images, rows and columns, and of planes (D) if there are several; ``tiles`` is
    how many there are from above and from the left in a plane, ``place_of(number)`` where the one of that
    number lies on the axes that number them.
    """
    rows, columns = tiles
    tile, lanes, out_axes = knobs.tile, knobs.out_lanes, physical_axes(workload.out_layout)
    extents = {**extents, "C": workload.out_channels // block_of(workload.out_layout, "C")}

    def element(*index: Any) -> Any:
        place = dict(zip(out_axes, index, strict=True))
        block, lane = _vector_of(place, lanes)
        row, column = place["H", 0], place["W", 0]
        image = place["N", 0] * extents.get("D", 1) + place.get(("D", 0), 0)
        number = (image * rows + row // tile) * columns + column // tile
        return _tile_result(result_columns, knobs, block, place_of(number), row % tile, column % tile, lane)

    shape = [factor or extents[name] for name, factor in out_axes]
    return te.compute(shape, element, name=workload.operator, attrs=dict(attributes))


def _vector_of(place: Mapping[tuple[str, int], Any], lanes: int) -> tuple[Any, Any]:
    """The vector of ``lanes`` channels and the lane of an element at a place in a layout."""
    channel, lane = place["C", 0], place.get(("C", lanes))
    return (channel // lanes, channel % lanes) if lane is None else (channel, lane)


def _tile_result(
    columns: te.Tensor,
    knobs: WinogradKnobs,
    block: Any,
    number: Sequence[Any],
    row: Any,
    column: Any,
    lane: Any,
) -> Any:
    """A result of the tile ``number``, at ``row`` and ``column`` within it, of :func:`tile_products`."""
    matrices = _matrices(knobs, str(columns.dtype))
    values = [columns(block, *number, at, column, lane) for at in range(matrices.extent)]
    total = row_of(matrices.result, matrices.result_groups, row, values, str(columns.dtype))
    return total if matrices.scale == 1 else _divided(total, matrices.scale**2)


def _matrices(knobs: WinogradKnobs, out_dtype: str) -> WinogradMatrices:
    return winograd_matrices(knobs.tile, integers=out_dtype == "int32")


def _divided(total: Any, divisor: int) -> Any:
    """An int32 that wrapped around, by what divides it without a remainder.

    Odd factors are multiplied away by their inverse; the rest shifts out what is zero.
    """
    even = divisor & -divisor
    inverse = pow(divisor // even, -1, _WRAP)
    if inverse != 1:
        total = total * tirx.const(inverse - _WRAP if inverse >= _WRAP // 2 else inverse, "int32")
    return total >> tirx.const(even.bit_length() - 1, "int32")


def row_of(matrix: Matrix, groups: Groups, row: Any, values: Sequence[Any], dtype: str) -> Any:
    """Element ``row`` of the matrix times ``values``: a choice that unrolling decides.

    ``groups`` are the columns whose sums rows share.
    """
    return chosen(row, [_times(coefficients, groups, values, dtype) for coefficients in matrix])


def _times(coefficients: Sequence[Fraction], groups: Groups, values: Sequence[Any], dtype: str) -> Any:
    """One row of a matrix times ``values``; each group as a factor times a sum that other rows share."""
    total: Any = None
    for group in groups:
        used = [place for place in group if coefficients[place]]
        if not used:
            continue
        factor = coefficients[used[-1]]
        shared: Any = None
        for place in reversed(used):
            shared = _plus(shared, coefficients[place] / factor, values[place], dtype)
        total = _plus(total, factor, shared, dtype)
    return total


def _plus(total: Any, factor: Fraction, value: Any, dtype: str) -> Any:
    """``total + factor * value``, without the multiplication where it does nothing."""
    if total is not None and factor == -1:
        return total - value
    number = float(factor) if dtype.startswith("float") else int(factor)
    term = value if factor == 1 else value * tirx.const(number, dtype)
    return term if total is None else total + term
