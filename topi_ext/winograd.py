"""The matrices of Winograd's minimal filtering, and weights in its domain.

A tile of m x m results of a convolution with an r x r kernel takes (m + r - 1)^2 products instead of
(m r)^2: Y = A^T [(G g G^T) * (B^T d B)] A. The matrices come from the interpolation points of Toom and
Cook (Winograd, Arithmetic Complexity of Computations, 1980; Lavin and Gray, CVPR 2016). The points
decide how much of float32 survives: small ones whose powers stay near one lose least (Barabasz et al.,
ACM TOMS 2020). Of integers nothing is lost: points are whole, and what G divides by is left to the end, where
it divides without a remainder.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import lcm, prod

import numpy as np

POINTS: dict[int, tuple[Fraction, ...]] = {
    2: (Fraction(0), Fraction(1), Fraction(-1)),
    4: (Fraction(0), Fraction(3, 4), Fraction(-3, 4), Fraction(3, 2), Fraction(-3, 2)),
}
"""Interpolation points by the size of the tile, infinity left out.

In pairs of opposite sign, whose sums are shared. Measured over 256 channels in float32: off by 6e-7 of the
largest result for 2 and 2e-6 for 4, where the direct convolution is off by 5e-7; the points 1 and 2 that
are used elsewhere are off by 8e-6.
"""

INTEGER_POINTS: dict[int, tuple[Fraction, ...]] = {
    2: tuple(map(Fraction, (0, 1, -1))),
    4: tuple(map(Fraction, (0, 1, -1, 2, -2))),
}
"""Points of integers. Tiles of bytes become numbers up to 4 and 68 times as large, by the size of the tile,
weights up to 9 and 49 times: both are int16."""

KERNEL = 3
"""Rows and columns of the kernels that these matrices are for."""

Matrix = tuple[tuple[Fraction, ...], ...]
Groups = tuple[tuple[int, ...], ...]
"""Columns of a matrix, in groups of which rows share sums."""


@dataclass(frozen=True)
class WinogradMatrices:
    """``data`` is B^T, ``kernel`` G, ``result`` A^T, for ``tile`` results and ``extent`` inputs a side.

    Those of integers give ``scale`` times the results along either side.
    """

    tile: int
    data: Matrix
    kernel: Matrix
    result: Matrix
    scale: int = 1

    @property
    def extent(self) -> int:
        return self.tile + KERNEL - 1

    @property
    def data_groups(self) -> Groups:
        """Even and odd powers: the rows of a pair of points differ in the sign of one of them."""
        return tuple(range(0, self.extent, 2)), tuple(range(1, self.extent, 2))

    @property
    def result_groups(self) -> Groups:
        """Zero, the pairs of points of opposite sign, infinity: a row takes a sum or a difference of each."""
        return (0,), *((place, place + 1) for place in range(1, self.extent - 1, 2)), (self.extent - 1,)

    @property
    def spare_bits(self) -> int:
        """Bits of int32 that results must leave free, as they are computed ``scale`` squared times as large.

        Sums wrap around, and division by odd factors undoes that; powers of two must fit.
        """
        return (self.scale**2 & -(self.scale**2)).bit_length() - 1


@cache
def winograd_matrices(tile: int, *, integers: bool = False) -> WinogradMatrices:
    """F(tile x tile, 3 x 3), of whole numbers where data are ``integers``; KeyError for a tile without
    points.
    """
    points = (INTEGER_POINTS if integers else POINTS)[tile]
    data: list[tuple[Fraction, ...]] = []
    kernel: list[tuple[Fraction, ...]] = []
    for point in points:
        others = [other for other in points if other != point]
        scale = prod((point - other for other in others), start=Fraction(1))
        data.append((*_polynomial(others), Fraction(0)))
        kernel.append(tuple(point**power / scale for power in range(KERNEL)))
    data.append(tuple(_polynomial(points)))
    kernel.append(tuple(Fraction(int(power == KERNEL - 1)) for power in range(KERNEL)))
    result = [
        (*(point**power for point in points), Fraction(int(power == tile - 1))) for power in range(tile)
    ]
    found = WinogradMatrices(tile, tuple(data), tuple(kernel), tuple(result))
    return _whole(found) if integers else found


def _whole(found: WinogradMatrices) -> WinogradMatrices:
    """With the rows of G whole, and the columns of A^T as much larger as makes them whole and undoes that."""
    divisors = [int(max(1 / abs(value) for value in row if value)) * _sign(row[0]) for row in found.kernel]
    scale = lcm(*divisors)
    kernel = [tuple(value * by for value in row) for row, by in zip(found.kernel, divisors, strict=True)]
    result = [
        tuple(value * scale / by for value, by in zip(row, divisors, strict=True)) for row in found.result
    ]
    return WinogradMatrices(found.tile, found.data, tuple(kernel), tuple(result), scale)


def _sign(value: Fraction) -> int:
    return -1 if value < 0 else 1


def tile_grid(height: int, width: int, tile: int) -> tuple[int, int]:
    """Rows and columns of tiles that cover so many results."""
    return -(-height // tile), -(-width // tile)


def _polynomial(roots: Sequence[Fraction]) -> list[Fraction]:
    """Coefficients, constant first, of the monic polynomial with these roots."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *coefficients]
        scaled = [-root * value for value in coefficients] + [Fraction(0)]
        coefficients = [left + right for left, right in zip(shifted, scaled, strict=True)]
    return coefficients


def transform_weight(
    weight: np.ndarray, tile: int, vector: int, places_first: bool, *, word: int = 1
) -> np.ndarray:
    """OIHW weights [O, I, 3, 3] as the products read them, ``vector`` output channels side by side.

    [extent^2, O / vector, I, vector] where ``places_first``, for kernels that walk all output channels place
    by place; else [O / vector, extent^2, I, vector]. Of OIDHW weights the inputs of each plane follow those
    of the plane before. Computed in float64 and rounded once; integers become int16. Words of inputs
    are innermost: [..., I / word, vector, word].
    """
    integers = np.issubdtype(weight.dtype, np.integer)
    if weight.ndim == len("OIDHW"):
        outputs, inputs, planes, *window = weight.shape
        weight = weight.swapaxes(1, 2).reshape(outputs, planes * inputs, *window)
    matrices = winograd_matrices(tile, integers=integers)
    kernel = np.array([[float(value) for value in row] for row in matrices.kernel])
    spread = np.einsum("ah,oihw,bw->aboi", kernel, weight.astype(np.float64), kernel)
    extent, _, out_channels, in_channels = spread.shape
    blocks = spread.reshape(extent**2, out_channels // vector, vector, in_channels)
    order = (0, 1, 3, 2) if places_first else (1, 0, 3, 2)
    ordered = blocks.transpose(order)
    if word > 1:
        ordered = ordered.reshape(*ordered.shape[:2], -1, word, vector).swapaxes(-1, -2)
    return np.ascontiguousarray(ordered.astype(np.int16 if integers else weight.dtype))
