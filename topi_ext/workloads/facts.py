"""Properties of a convolution that decide how its kernels may loop, whatever their knobs.

Along which axis vectors lie, which axes tiles may cross, and which algorithms and instructions apply.
"""

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from topi_ext.codegen import neon_matrices
from topi_ext.indexing import block_of, physical_axes
from topi_ext.winograd import INTEGER_POINTS, KERNEL, POINTS, tile_grid, winograd_matrices
from topi_ext.workloads.convolution import BYTES, COLUMNS, PLANES, ROWS, WIDENED, ConvolutionWorkload

SKIPS_BELOW = 0.8
"""If at most this share of the kernel's rows or columns overlaps the image, the others are skipped; otherwise
the conditions would cost more than they save."""

DATA_LANES = 4
"""Lanes of 32 bits in a NEON register, whose lanes multiply-adds can read one by one."""


def lanes_are_pixels(workload: ConvolutionWorkload) -> bool:
    """Do vectors run along a row of pixels? They do in NCHW without blocks, whose channels are not
    contiguous.
    """
    return physical_axes(workload.out_layout)[-1] == ("W", 0)


def splits_groups(workload: ConvolutionWorkload) -> bool:
    """Must a tile stay within one group? Lanes of different groups would read different input channels."""
    return workload.groups > 1 and not workload.is_depthwise and workload.out_layout.endswith("C")


def tiled_channels(workload: ConvolutionWorkload) -> int:
    """The extent along which tiles of channels are laid: all output channels, or those of one group.

    It is rounded up to whole vectors if the vectors of a group are padded.
    """
    lanes = workload.padded_lanes or 1
    channels = workload.out_channels // (workload.groups if splits_groups(workload) else 1)
    return math.ceil(channels / lanes) * lanes


def fuses_rows(workload: ConvolutionWorkload) -> bool:
    """Are rows and columns fused, so that a tile may cross the end of a row? Only in pointwise
    convolutions, whose index stays affine.
    """
    return workload.is_pointwise and not workload.is_depthwise and "H" in workload.out_layout


def pixel_run(workload: ConvolutionWorkload) -> int:
    """Pixels of the result in the run along which tiles are laid: a row, or the image where rows are
    fused.
    """
    width = int(workload.out_width)
    return int(workload.out_height) * width if fuses_rows(workload) else width


def parts_of_block(workload: ConvolutionWorkload, lanes: int) -> int:
    """Vectors of ``lanes`` in one block of the result's channels; 1 without blocks."""
    return max(1, block_of(workload.out_layout, "C") // lanes)


def channel_run(workload: ConvolutionWorkload) -> int:
    """Contiguous channels of one pixel, in data whose channels are innermost."""
    block = block_of(workload.data_layout, "C")
    return block if block > 1 else workload.in_channels


def pads_by_chunk(workload: ConvolutionWorkload, tile: int) -> bool:
    """May each tile of ``tile`` channels copy its own padded input?

    It may if a tile needs all input channels, or exactly those that it computes. Otherwise the channels to
    copy are a quotient of the tile's, and would not move with a last tile that is moved back: so with the
    channel multiplier of a depthwise convolution, and with a tile that covers part of a block of the data.
    """
    if workload.groups == 1:
        return True
    if not workload.is_depthwise or workload.out_channels != workload.in_channels:
        return False
    return workload.out_channels % tile == 0 or tile % block_of(workload.data_layout, "C") == 0


@lru_cache(maxsize=1024)
def share_of_taps_inside(workload: ConvolutionWorkload, side: int, pixels: int = 1) -> float:
    """The share of the kernel's taps along one spatial axis that overlap the image; the others are skipped.

    ``side`` is the axis as :meth:`ConvolutionWorkload.along` numbers it. The share is the mean over all tiles
    of ``pixels`` along that axis, and 1 where so few taps see only padding that none is skipped.
    """
    axis = workload.along(side)
    if not (axis.pad_before or axis.pad_after) or "H" not in workload.out_layout:
        return 1.0
    length = int((workload.out_height, workload.out_width, workload.out_depth)[side])
    starts = np.minimum(np.arange(0, length, pixels), length - pixels) * axis.stride - axis.pad_before
    reach = (pixels - 1) * axis.stride
    places = starts[:, None] + np.arange(axis.taps) * axis.dilation
    share = np.count_nonzero((places + reach >= 0) & (places < axis.extent)) / places.size
    return share if share <= SKIPS_BELOW or side == PLANES else 1.0


def vector_steps(workload: ConvolutionWorkload, tile_pixels: int) -> int:
    """Input channels of a pixel, or words of them, that one iteration may load as a vector: up to
    :data:`DATA_LANES`, or 1.

    More than one requires contiguous channels of a pixel (of a block, for words), all pixels of a tile in one
    row, and no skipped padding.
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
        and share_of_taps_inside(workload, ROWS) == 1.0
        and share_of_taps_inside(workload, COLUMNS, tile_pixels) == 1.0
    )
    return steps if fits else 1


def suits_amx(workload: ConvolutionWorkload) -> bool:
    """Can AMX multiply it? Its words must run along all input channels of a pixel, which are contiguous.

    A block of 16 channels would fill a quarter of a tile register's row.
    """
    return (
        workload.word_axis == "I"
        and workload.groups == 1
        and physical_axes(workload.data_layout)[-1] == ("C", 0)
        and not lanes_are_pixels(workload)
        and not workload.paired_words
    )


def pairs_pixels(workload: ConvolutionWorkload) -> bool:
    """Can ARM's matrix instructions multiply it, two pixels at a time? Needs one group and a static row
    length.
    """
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
    """The words per pixel that one step of ARM's matrix instructions may take: those of one matrix, or of
    two.
    """
    words = channel_run(workload) // workload.word
    return tuple(steps for steps in (neon_matrices.WORDS, 2 * neon_matrices.WORDS) if words % steps == 0)


def suits_winograd(workload: ConvolutionWorkload) -> bool:
    """Is there a Winograd kernel? For 3x3, stride 1, dilation 1, one group, channels innermost; for float32,
    and for int16 that is summed one by one or in words along channels.

    Across the planes of a 3-D kernel any stride and dilation will do.
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
    """The sides of tiles that a workload allows; sums of integers need spare bits for their transforms."""
    if _is_float(workload):
        return tuple(POINTS)
    needed = {tile: winograd_matrices(tile, integers=True).spare_bits for tile in INTEGER_POINTS}
    return tuple(tile for tile, bits in needed.items() if bits <= workload.spare_bits)


def winograd_tiles(workload: ConvolutionWorkload, tile: int) -> tuple[int, int]:
    """Tiles along the height and the width of the result."""
    return tile_grid(int(workload.out_height), int(workload.out_width), tile)


def strip_of(workload: ConvolutionWorkload, tile: int, tiles: int) -> ConvolutionWorkload:
    """The workload of a column of ``tiles`` tiles, as kernels for dynamic sizes see the tiles of all
    images.
    """
    height, width = (count * tile + KERNEL - 1 for count in (tiles, 1))
    return replace(workload, batch=1, in_height=height, in_width=width, padding=(0, 0, 0, 0))
