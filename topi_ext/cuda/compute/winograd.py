"""Winograd's convolution of NHWC data for GPUs: the transform of the image, a grouped product, and the
transform of what that gives, each a function of its own.

Matrices, and how a row of one is computed, are those of :mod:`topi_ext.compute.winograd`.
"""

from typing import Any

import numpy as np
from tvm import te, tirx

from topi_ext.compute.winograd import DATA, DATA_ROWS, RESULT_COLUMNS, row_of
from topi_ext.cuda.annotation import describe_kernel
from topi_ext.cuda.compute.implicit_gemm import pack_weight, padded, partial_products
from topi_ext.cuda.winograd_knobs import (
    WinogradGemmKnobs,
    data_threads,
    grid_of,
    product_of,
    result_threads,
    tiles_of,
)
from topi_ext.cuda.workload import GemmConvolution
from topi_ext.winograd import transform_weight, winograd_matrices

WINDOW = "winograd_window"
"""The block that reads what a tile needs."""

SPREAD = "spread"
"""The block that writes the transformed image."""

TRANSFORM = "topi_ext.winograd_transform"
"""Annotation of the blocks that the two transforms are arranged around: the workload and its knobs."""


def pack_winograd(weight: np.ndarray, workload: GemmConvolution, knobs: WinogradGemmKnobs) -> np.ndarray:
    """An OHWI weight in Winograd's domain, as the product reads it: a group for each place."""
    product = product_of(workload, knobs.tile)
    spread = transform_weight(weight.transpose(0, 3, 1, 2), knobs.tile, 1, True)
    places_apart = spread.reshape(product.out_channels, 1, 1, workload.in_channels)
    return pack_weight(places_apart, product, knobs.product)


def products_shape(workload: GemmConvolution, knobs: WinogradGemmKnobs) -> tuple[int, int, int]:
    """Places, tiles and output channels of what :func:`winograd_products` gives, padded to whole tiles of
    the product.
    """
    product = product_of(workload, knobs.tile)
    rows, columns, _ = padded(product, knobs.product)
    return product.groups, rows, columns


def transformed_image(data: te.Tensor, workload: GemmConvolution, knobs: WinogradGemmKnobs) -> te.Tensor:
    """NHWC data in Winograd's domain: (tiles, 1, 1, places times channels), in the order of images, rows and
    columns of tiles. Zeros lie around the image.
    """
    matrices, threads = winograd_matrices(knobs.tile), data_threads(workload, knobs.tile)
    extent, channels, dtype = matrices.extent, workload.in_channels, workload.dtype
    rows, columns = grid_of(workload, knobs.tile)
    tiles = tiles_of(workload, knobs.tile)
    # Blocks of threads are whole; what the last one computes beyond the tiles is never written.
    whole = -(-tiles // threads.tiles) * threads.tiles

    def read(number: Any, row: Any, column: Any, channel: Any) -> Any:
        y = number // columns % rows * knobs.tile + row - workload.padding[0]
        x = number % columns * knobs.tile + column - workload.padding[1]
        inside = [y >= 0, y < workload.in_height, x >= 0, x < workload.in_width]
        inside += [number < tiles] if whole > tiles else []
        value = data[number // (rows * columns), y, x, channel].astype(dtype)
        return tirx.if_then_else(tirx.all(*inside), value, tirx.const(0, dtype))

    window = te.compute((whole, extent, extent, channels), read, name=WINDOW)

    def data_row(number: Any, row: Any, column: Any, channel: Any) -> Any:
        values = [window(number, at, column, channel) for at in range(extent)]
        return row_of(matrices.data, matrices.data_groups, row, values, dtype)

    data_rows = te.compute((whole, extent, extent, channels), data_row, name=DATA_ROWS)

    def data_point(number: Any, row: Any, column: Any, channel: Any) -> Any:
        values = [data_rows(number, row, at, channel) for at in range(extent)]
        return row_of(matrices.data, matrices.data_groups, column, values, dtype)

    points = te.compute((whole, extent, extent, channels), data_point, name=DATA)

    def element(number: Any, y: Any, x: Any, index: Any) -> Any:
        place = index // channels
        return points(number, place // extent, place % extent, index % channels)

    attributes = {TRANSFORM: describe_kernel(workload, knobs)}
    return te.compute((tiles, 1, 1, extent**2 * channels), element, name=SPREAD, attrs=attributes)


def winograd_products(
    spread: te.Tensor, weight: te.Tensor, workload: GemmConvolution, knobs: WinogradGemmKnobs
) -> te.Tensor:
    """What :func:`transformed_image` gives by what :func:`pack_winograd` makes: :func:`products_shape`."""
    product = product_of(workload, knobs.tile)
    described = describe_kernel(workload, knobs)
    return partial_products(spread, weight, product, knobs.product, described=described)


def transformed_products(
    products: te.Tensor, workload: GemmConvolution, knobs: WinogradGemmKnobs
) -> te.Tensor:
    """The NHWC result of what :func:`winograd_products` gives."""
    matrices, threads = winograd_matrices(knobs.tile), result_threads(workload, knobs.tile)
    tile, extent, channels, dtype = knobs.tile, matrices.extent, workload.out_channels, workload.dtype
    rows, columns = grid_of(workload, tile)
    whole = -(-columns // threads.tiles) * threads.tiles

    def read(image: Any, y: Any, x: Any, place: Any, channel: Any) -> Any:
        value = products(place, (image * rows + y) * columns + x, channel)
        return value if whole == columns else tirx.if_then_else(x < columns, value, tirx.const(0, dtype))

    window = te.compute((workload.batch, rows, whole, extent**2, channels), read, name=WINDOW)

    def result_column(image: Any, y: Any, x: Any, row: Any, column: Any, channel: Any) -> Any:
        values = [window(image, y, x, row * extent + at, channel) for at in range(extent)]
        return row_of(matrices.result, matrices.result_groups, column, values, dtype)

    shape = (workload.batch, rows, whole, extent, tile, channels)
    result_columns = te.compute(shape, result_column, name=RESULT_COLUMNS)

    def element(image: Any, y: Any, x: Any, channel: Any) -> Any:
        values = [result_columns(image, y // tile, x // tile, at, x % tile, channel) for at in range(extent)]
        return row_of(matrices.result, matrices.result_groups, y % tile, values, dtype)

    tiled = (workload.batch, rows * tile, whole * tile, channels)
    attributes = {TRANSFORM: describe_kernel(workload, knobs)}
    results = te.compute(tiled, element, name="conv2d", attrs=attributes)
    extents = (workload.batch, workload.out_height, workload.out_width, channels)
    return te.compute(extents, lambda *index: results(*index), name="result")
