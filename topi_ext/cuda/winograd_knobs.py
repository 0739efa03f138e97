"""Knobs of Winograd's convolution on a GPU, what keeps them from a workload, and the product that it is.

Three kernels follow one another: tiles of the image are transformed, multiplied, and transformed back. Each
of the ``(tile + 2)^2`` places in a tile is a group of one grouped product of 1x1 pixels, tiles being its
pixels.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from topi_ext.cuda.gemm_knobs import GemmKnobs, misfit
from topi_ext.cuda.kernel_knobs import KernelKnobs, refuse
from topi_ext.cuda.multiprocessor import Multiprocessor
from topi_ext.cuda.workload import GemmConvolution
from topi_ext.errors import CudaError
from topi_ext.winograd import KERNEL, POINTS, tile_grid, winograd_matrices

THREADS = 128
"""Threads of a block that transforms."""

MOST_ELEMENTS = (1 << 31) - 1
"""The most elements of a tensor: kernels count in 32 bits."""

_WIDEST = {2: 4, 4: 2}
"""Channels of a thread's vector by the size of the tile: a tile is 64 or 72 registers."""


@dataclass(frozen=True)
class WinogradGemmKnobs(KernelKnobs):
    """``tile``: results a side that one tile computes; ``product``: the knobs of the grouped product."""

    ALGORITHM: ClassVar[str] = "winograd"
    KERNEL: ClassVar[str] = "Winograd's convolution"

    tile: int
    product: GemmKnobs

    def to_dict(self) -> dict[str, Any]:
        """The tile beside the product's knobs."""
        return {**self.product.to_dict(), "algorithm": self.ALGORITHM, "tile": self.tile}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "WinogradGemmKnobs":
        """What :meth:`to_dict` wrote; CudaError for anything else."""
        product = {name: value for name, value in fields.items() if name != "tile"}
        if fields.get("algorithm") == cls.ALGORITHM and type(fields.get("tile")) is int:
            try:
                found = GemmKnobs.from_dict({**product, "algorithm": GemmKnobs.ALGORITHM})
                return WinogradGemmKnobs(fields["tile"], found)
            except CudaError:
                pass  # Of both together is said what is wrong.
        raise CudaError(f"{dict(fields)} are no knobs of {cls.KERNEL}")


@dataclass(frozen=True)
class TransformThreads:
    """How threads divide a transform: vectors of ``vector`` channels, ``lanes`` of them side by side in a
    block, for each of ``tiles`` tiles.
    """

    vector: int
    lanes: int
    tiles: int

    @property
    def channels(self) -> int:
        """Channels of a block."""
        return self.vector * self.lanes


def data_threads(workload: GemmConvolution, tile: int) -> TransformThreads:
    """Those of the image's transform; a block's tiles are any neighbours in their order."""
    return _threads(workload.in_channels, tile, tiles_of(workload, tile))


def result_threads(workload: GemmConvolution, tile: int) -> TransformThreads:
    """Those of the results' transform; a block's tiles are neighbours in a row."""
    return _threads(workload.out_channels, tile, grid_of(workload, tile)[1])


def _threads(channels: int, tile: int, tiles: int) -> TransformThreads:
    vector = next(size for size in (4, 2, 1) if size <= _WIDEST[tile] and channels % size == 0)
    vectors = channels // vector
    lanes = max(count for count in range(1, min(vectors, THREADS) + 1) if vectors % count == 0)
    return TransformThreads(vector, lanes, min(THREADS // lanes, tiles))


def suits_winograd(workload: GemmConvolution) -> bool:
    """Is there a Winograd form: 3x3, every pixel, one group, float32?"""
    return (
        workload.kernel == (KERNEL, KERNEL)
        and workload.strides == workload.dilation == (1, 1)
        and workload.groups == 1
        and workload.dtype == "float32"
    )


def grid_of(workload: GemmConvolution, tile: int) -> tuple[int, int]:
    """Rows and columns of tiles in an image of results."""
    return tile_grid(workload.out_height, workload.out_width, tile)


def tiles_of(workload: GemmConvolution, tile: int) -> int:
    """Tiles of all images."""
    rows, columns = grid_of(workload, tile)
    return workload.batch * rows * columns


def product_of(workload: GemmConvolution, tile: int) -> GemmConvolution:
    """The grouped product of transformed tiles by transformed weights."""
    places = winograd_matrices(tile).extent ** 2
    return GemmConvolution(
        batch=tiles_of(workload, tile),
        in_height=1,
        in_width=1,
        in_channels=places * workload.in_channels,
        out_channels=places * workload.out_channels,
        kernel=(1, 1),
        strides=(1, 1),
        padding=(0, 0, 0, 0),
        dilation=(1, 1),
        groups=places,
        dtype=workload.dtype,
    )


def winograd_misfit(
    workload: GemmConvolution, knobs: WinogradGemmKnobs, multiprocessor: Multiprocessor
) -> str | None:
    """What keeps knobs from a workload and a multiprocessor, if anything."""
    if not suits_winograd(workload):
        return "Winograd is for 3x3 kernels of float32 without strides, dilation and groups"
    if knobs.tile not in POINTS:
        return f"no tiles of {knobs.tile} results"
    problem = misfit(product_of(workload, knobs.tile), knobs.product, multiprocessor)
    elements = elements_between(workload, knobs)
    if problem is None and elements > MOST_ELEMENTS:
        return f"{elements} elements between two kernels"
    return problem


def elements_between(workload: GemmConvolution, knobs: WinogradGemmKnobs) -> int:
    """Those of the larger tensor between two kernels, products being padded to whole blocks."""
    product = product_of(workload, knobs.tile)
    rows, columns = (
        -(-extent // block) * block
        for extent, block in (
            (product.rows, knobs.product.block_m),
            (product.columns, knobs.product.block_n),
        )
    )
    return max(product.rows * product.in_channels, product.groups * rows * columns)


def check_winograd(
    workload: GemmConvolution, knobs: WinogradGemmKnobs, multiprocessor: Multiprocessor
) -> None:
    """Raise CudaError where :func:`winograd_misfit` finds something."""
    refuse(workload, knobs, winograd_misfit(workload, knobs, multiprocessor))
