"""Few rows by a constant matrix, for GPUs: dense layers of one image, and squeeze blocks."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from tvm import te, tirx

from topi_ext.compute.row_numbers import number_of_row
from topi_ext.cuda.multiprocessor import LANES

ROWS = "topi_ext.row_product"
"""Annotation of the block that multiplies."""

DATA = "rows"
"""The block that reads the rows, with zeros behind them."""

MOST_PADDED = 1.25
"""How much longer than they must be rows may become for the sake of vectors."""

MOST_ROWS = 4
"""More rows are worth a tile of a matrix product, which reads the weights once for all."""


def pack_rows(weight: np.ndarray) -> np.ndarray:
    """An (outputs, depth) matrix as (outputs, vectors, lanes of a vector), zeros behind the depth: as many
    vectors as whole warps read at once.
    """
    outputs, depth = weight.shape
    lanes = _vector(depth)
    vectors = -(-depth // (lanes * LANES)) * LANES
    padded = np.pad(weight, ((0, 0), (0, vectors * lanes - depth)))
    return np.ascontiguousarray(padded.reshape(outputs, vectors, lanes))


def row_product(data: te.Tensor, weight: te.Tensor, extents: Sequence[int]) -> te.Tensor:
    """(``extents``, outputs) of float32: rows of ``data`` by ``weight``, which :func:`pack_rows` made.

    ``data`` has the depth last, and as many rows before it as ``extents`` have. It is rounded to the dtype of
    the weights.
    """
    outputs, vectors, lanes = (int(extent) for extent in weight.shape)
    *before, depth = (int(extent) for extent in data.shape)

    def read(row: Any, vector: Any, lane: Any) -> Any:
        place = [row // prod(before[axis + 1 :]) % extent for axis, extent in enumerate(before)]
        value = data(*place, vector * lanes + lane).astype(weight.dtype)
        if vectors * lanes == depth:
            return value
        return tirx.if_then_else(vector < depth // lanes, value, tirx.const(0, weight.dtype))

    rows = te.compute((prod(before), vectors, lanes), read, name=DATA)
    vector, lane = te.reduce_axis((0, vectors), name="vector"), te.reduce_axis((0, lanes), name="lane")

    def element(*index: Any) -> Any:
        *place, output = index
        left = rows[number_of_row(place, extents), vector, lane].astype("float32")
        return te.sum(left * weight[output, vector, lane].astype("float32"), axis=[vector, lane])

    return te.compute((*extents, outputs), element, name="row_product", attrs={ROWS: 1})


def _vector(depth: int) -> int:
    """Lanes of a vector: the most that do not add many zeros to a short row."""
    sizes = [size for size in (4, 2, 1) if depth % size == 0]
    padded = {size: -(-depth // (size * LANES)) * size * LANES for size in sizes}
    return next(size for size in sizes if padded[size] <= MOST_PADDED * min(padded.values()))
