"""What follows from a convolution for the loops of its kernels, whatever their knobs.

How its tiles may lie, what its vectors are along, and which algorithms it suits.
"""

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from topi_ext.codegen import neon_matrices
from topi_ext.indexing import block_of, physical_axes
from topi_ext.winograd import INTEGER_POINTS, KERNEL, POINTS, tile_grid, winograd_matrices
from topi_ext.workload import BYTES, PLANES, WIDENED, ConvolutionWorkload

MOST_MET = 0.8
"""Share of the kernel's rows or columns above which a condition on each of them is not worth its cost."""

DATA_LANES = 4
"""Elements of float32 in the vectors of data whose lanes are read: ARM's."""


def lanes_are_pixels(workload: ConvolutionWorkload) -> bool:
    """NCHW without blocks has no channel-contiguous vector: its vectors run along a row."""
    return physical_axes(workload.out_layout)[-1] == ("W", 0)


def splits_groups(workload: ConvolutionWorkload) -> bool:
    """Does a tile stay within a group? Lanes of several groups would read different inputs."""
    return workload.groups > 1 and not workload.is_depthwise and workload.out_layout.endswith("C")


def tiled_channels(workload: ConvolutionWorkload) -> int:
    """Output channels along which tiles are laid: those of a group where tiles stay within one.

    They include the channels that fill up the last vector of padded ones.
    """
    lanes = workload.padded_lanes or 1
    channels = workload.out_channels // (workload.groups if splits_groups(workload) else 1)
    return math.ceil(channels / lanes) * lanes


def fuses_rows(workload: ConvolutionWorkload) -> bool:
    """May a tile run over the end of a row? Only where the index stays affine: pointwise."""
    return workload.is_pointwise and not workload.is_depthwise and "H" in workload.out_layout


def pixel_run(workload: ConvolutionWorkload) -> int:
    """Pixels of the result in the run along which tiles are laid: a row, or the image where rows are
    fused.
    """
    width = int(workload.out_width)
    return int(workload.out_height) * width if fuses_rows(workload) else width


def parts_of_block(workload: ConvolutionWorkload, lanes: int) -> int:
    """How many vectors of ``lanes`` a block of the result's channels is computed in; 1 without blocks."""
    return max(1, block_of(workload.out_layout, "C") // lanes)


def channel_run(workload: ConvolutionWorkload) -> int:
    """Channels of one pixel that lie side by side in data whose channels are innermost."""
    block = block_of(workload.data_layout, "C")
    return block if block > 1 else workload.in_channels


def pads_by_chunk(workload: ConvolutionWorkload, tile: int) -> bool:
    """May a tile of that many channels pad its own input? It needs all channels, or those that it computes.

    Elsewhere the channels to copy depend on the tile by a division, and would not move with a tile
    that overlaps its neighbour: the multiplier of a depthwise convolution, or a block of the data that
    is only partly in the tile.
    """
    if workload.groups == 1:
        return True
    if not workload.is_depthwise or workload.out_channels != workload.in_channels:
        return False
    return workload.out_channels % tile == 0 or tile % block_of(workload.data_layout, "C") == 0


@lru_cache(maxsize=1024)
def met_share(workload: ConvolutionWorkload, side: int, pixels: int = 1) -> float:
    """The share of the kernel's rows (``side`` 0), columns (1) or planes (2) that meet the image.

    The others are skipped. It is over all tiles of ``pixels`` along that side; 1 where none is skipped, as
    nearly all rows or columns meet it.
    """
    axis = workload.along(side)
    if not (axis.pad_before or axis.pad_after) or "H" not in workload.out_layout:
        return 1.0
    length = int((workload.out_height, workload.out_width, workload.out_depth)[side])
    starts = np.minimum(np.arange(0, length, pixels), length - pixels) * axis.stride - axis.pad_before
    reach = (pixels - 1) * axis.stride
    places = starts[:, None] + np.arange(axis.taps) * axis.dilation
    share = np.count_nonzero((places + reach >= 0) & (places < axis.extent)) / places.size
    return share if share <= MOST_MET or side == PLANES else 1.0


def most_steps(workload: ConvolutionWorkload, tile_pixels: int) -> int:
    """How many channels of its pixels a turn of the loop may load as vectors, or words of bytes of them: at
    most :data:`DATA_LANES`, or 1.

    The channels of a pixel must lie side by side, those of a block where words are summed; and the pixels of
    every tile in one row. No turn may be skipped.
    """
    block = block_of(workload.data_layout, "C")
    if workload.dtype in BYTES and workload.word_axis == "I":
        words = channel_run(workload) // workload.word
        steps = math.gcd(words, DATA_LANES)
    elif workload.dtype == workload.weight_dtype == workload.out_dtype == "float32" and block == 1:
        steps = DATA_LANES if workload.in_channels % DATA_LANES == 0 else 1
    else:
        return 1
    fits = (
        workload.groups == 1
        and not workload.depth
        and physical_axes(workload.data_layout)[-1][0] == "C"
        and not lanes_are_pixels(workload)
        and int(workload.out_width) % tile_pixels == 0
        and (tile_pixels == 1 or workload.strides[1] == 1)
        and met_share(workload, 0) == met_share(workload, 1, tile_pixels) == 1.0
    )
    return steps if fits else 1


def suits_matrices(workload: ConvolutionWorkload) -> bool:
    """Are there products of matrices of words: of pixels that have all their channels side by side?

    A block of 16 of them would fill a quarter of a register.
    """
    return (
        workload.word_axis == "I"
        and workload.groups == 1
        and physical_axes(workload.data_layout)[-1] == ("C", 0)
        and not lanes_are_pixels(workload)
        and not workload.paired_words
    )


def pairs_pixels(workload: ConvolutionWorkload) -> bool:
    """Are there products of matrices of two pixels, of one group and in one run of known length?"""
    width, height = workload.out_width, workload.out_height
    if not (workload.paired_words and isinstance(width, int) and isinstance(height, int)):
        return False
    if physical_axes(workload.data_layout)[-1][0] != "C":
        return False
    block = block_of(workload.out_layout, "C")
    return (
        workload.groups == 1
        and pixel_run(workload) >= neon_matrices.ROWS
        and (block == 1 or block % DATA_LANES == 0)
        and workload.out_channels >= DATA_LANES
        and not lanes_are_pixels(workload)
    )


def pair_steps(workload: ConvolutionWorkload) -> tuple[int, ...]:
    """Words that a step of products of matrices may take: of one matrix of each two pixels, or of two."""
    words = channel_run(workload) // workload.word
    return tuple(steps for steps in (neon_matrices.WORDS, 2 * neon_matrices.WORDS) if words % steps == 0)


def suits_winograd(workload: ConvolutionWorkload) -> bool:
    """Is there a Winograd form: 3x3, every pixel, one group, channels innermost, and of float32, or of int16
    one by one or in words of channels?

    A kernel of several planes may have any stride and dilation across them.
    """
    return (
        workload.operator in ("conv2d", "conv3d")
        and workload.kernel == (3, 3)
        and workload.strides == (1, 1)
        and workload.dilation == (1, 1)
        and workload.groups == 1
        and (_is_float(workload) or (workload.dtype == WIDENED and workload.word_axis != "W"))
        and not workload.padded_lanes
        and all(
            "H" in layout and "W" in layout and physical_axes(layout)[-1][0] == "C"
            for layout in (workload.data_layout, workload.out_layout)
        )
    )


def _is_float(workload: ConvolutionWorkload) -> bool:
    return workload.dtype == workload.out_dtype == "float32"


def winograd_tile_sizes(workload: ConvolutionWorkload) -> tuple[int, ...]:
    """The tiles that a workload has room for: those of integers need spare bits."""
    if _is_float(workload):
        return tuple(POINTS)
    needed = {tile: winograd_matrices(tile, integers=True).spare_bits for tile in INTEGER_POINTS}
    return tuple(tile for tile, bits in needed.items() if bits <= workload.spare_bits)


def winograd_tiles(workload: ConvolutionWorkload, tile: int) -> tuple[int, int]:
    """Rows and columns of tiles in the image of results."""
    return tile_grid(int(workload.out_height), int(workload.out_width), tile)


def strip_of(workload: ConvolutionWorkload, tile: int, tiles: int) -> ConvolutionWorkload:
    """An image of one column of so many tiles, as which kernels of any size see the tiles of all images."""
    height, width = (count * tile + KERNEL - 1 for count in (tiles, 1))
    return replace(workload, batch=1, in_height=height, in_width=width, padding=(0, 0, 0, 0))


__all__ = [
    "DATA_LANES",
    "MOST_MET",
    "channel_run",
    "fuses_rows",
    "lanes_are_pixels",
    "met_share",
    "most_steps",
    "pads_by_chunk",
    "pair_steps",
    "pairs_pixels",
    "parts_of_block",
    "pixel_run",
    "splits_groups",
    "strip_of",
    "suits_matrices",
    "suits_winograd",
    "tiled_channels",
    "winograd_tile_sizes",
    "winograd_tiles",
]
