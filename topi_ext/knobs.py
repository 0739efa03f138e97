"""The choices that schedules of a convolution leave open, and which of them fit a workload."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np

from topi_ext.codegen import matrix_vectors
from topi_ext.codegen.matrix_registers import REGISTERS, ROW_BYTES, ROWS, registers_held
from topi_ext.errors import RelayLayoutError
from topi_ext.indexing import WORD_BYTES, block_of, physical_axes
from topi_ext.winograd import INTEGER_POINTS, KERNEL, POINTS, tile_grid, winograd_matrices
from topi_ext.workload import BYTES, PLANES, WIDENED, ConvolutionWorkload, SeparableWorkload

DTYPE_BYTES = {
    **dict.fromkeys(("bool", "int8", "uint8"), 1),
    **dict.fromkeys(("bfloat16", "float16", "int16", "uint16"), 2),
    **dict.fromkeys(("float32", "int32", "uint32"), 4),
    **dict.fromkeys(("float64", "int64", "uint64"), 8),
}

Order = Literal["channels", "pixels"]
PadAt = Literal["stage", "chunk"]


@dataclass(frozen=True)
class ConvolutionKnobs:
    """Named knobs of the direct convolution.

    ``lanes``: output elements in one vector (channels, or pixels of a row for NCHW). Of a block of channels a
    depthwise convolution may take a part at a time, so that the weights of all taps stay in registers.
    ``tile_pixels`` x ``tile_channels``: accumulators kept in registers, in pixels (vectors of pixels
    for NCHW) and in vectors of channels (channels for NCHW).
    ``order``: which axis is outermost, and so split among threads: "channels" reads each weight
    once per thread, "pixels" each input row.
    ``rows``: rows of output (tiles, where rows are fused) that one chunk of order "pixels" takes.
    ``pad_at``: "stage" copies the padded image before the loops, "chunk" copies the rows of a chunk
    when it needs them.
    ``prefetch``: ask for the weights of the next tile, where they are read once.
    ``parallel``: split the outermost loop among the threads; without, the caller's thread does it all.
    ``steps``: channels of the data that a turn of the loop loads as one vector, whose lanes multiply-adds
    read; with 1 it takes one channel, and each element is loaded by itself. See :func:`most_steps`.
    ``matrix_rows``: pixels in one of the processor's matrices, a divisor of ``tile_pixels``; 0 where products
    are of vectors. ``steps`` are then the words of data in each of its rows, or of two such matrices, and of
    matrices in registers of their own a tile may have several ``tile_rows`` of such pixels.
    """

    lanes: int
    tile_pixels: int
    tile_channels: int
    order: Order = "channels"
    rows: int = 1
    pad_at: PadAt = "stage"
    prefetch: bool = True
    parallel: bool = True
    steps: int = 1
    matrix_rows: int = 0
    tile_rows: int = 1

    @property
    def data_matrices(self) -> int:
        """Registers that a tile's data takes."""
        return self.tile_rows * self.tile_pixels // self.matrix_rows

    def to_dict(self) -> dict[str, Any]:
        return _named("direct", self)


@dataclass(frozen=True)
class WinogradKnobs:
    """Named knobs of the Winograd convolution.

    ``tile``: results a side that one tile computes, 2 or 4. ``in_lanes``, ``out_lanes``: channels in one
    vector of the transformed input and of the results. ``tile_pixels`` x ``tile_channels``: accumulators of
    the products, in tiles and in vectors of output channels. ``order``: "pixels" hands chunks of ``rows``
    rows of tiles to the threads, "channels" the output channels. ``pad_at`` and ``prefetch``: as for the
    direct convolution; "chunk" is for order "pixels". Of images of any size a chunk has ``rows`` tiles, in
    both orders, and nothing is copied for a border.
    """

    tile: int
    in_lanes: int
    out_lanes: int
    tile_pixels: int
    tile_channels: int
    order: Order = "pixels"
    rows: int = 1
    pad_at: PadAt = "stage"
    prefetch: bool = True

    @property
    def weight_vector(self) -> int:
        """Output channels that lie side by side in the transformed weights: those of one register tile."""
        return self.out_lanes * self.tile_channels

    def weight_shape(self, workload: ConvolutionWorkload) -> tuple[int, ...]:
        """The shape of the transformed weights, in the order in which the threads walk them.

        Words of channels are innermost.
        """
        places, vectors = (self.tile + 2) ** 2, workload.out_channels // self.weight_vector
        outer = (places, vectors) if self.order == "pixels" else (vectors, places)
        words = () if workload.word == 1 else (workload.word,)
        return (*outer, workload.summed_planes // workload.word, self.weight_vector, *words)

    def to_dict(self) -> dict[str, Any]:
        return _named("winograd", self)


Knobs = ConvolutionKnobs | WinogradKnobs

_LATER = {"prefetch": True, "parallel": True, "steps": 1, "matrix_rows": 0, "tile_rows": 1}
"""What knobs are where a record does not name them."""


def _named(algorithm: str, knobs: Knobs) -> dict[str, Any]:
    # Records from before there was a choice do not name these.
    named = {item.name: getattr(knobs, item.name) for item in fields(knobs)}
    kept = {name: value for name, value in named.items() if _LATER.get(name) != value}
    return {"algorithm": algorithm, **kept}


def check_knobs(workload: ConvolutionWorkload, knobs: Knobs) -> None:
    """Refuse knobs that do not fit the workload, e.g. from a record that was edited by hand.

    Raises :class:`RelayLayoutError`: a tile longer than its axis would address memory before it.
    """
    if isinstance(knobs, WinogradKnobs):
        problem = _winograd_misfit(workload, knobs)
    else:
        problem = _misfit(workload, knobs)
    if problem:
        raise RelayLayoutError(f"knobs {knobs.to_dict()} do not fit {workload.to_json()}: {problem}")


def _misfit(workload: ConvolutionWorkload, knobs: ConvolutionKnobs) -> str | None:
    """What is wrong, if anything."""
    if knobs.lanes < 1 or knobs.tile_pixels < 1 or knobs.tile_channels < 1:
        return "a tile is empty"
    height, width = int(workload.out_height), int(workload.out_width)
    run = height * width if fuses_rows(workload) else width
    pixels = knobs.tile_pixels * (knobs.lanes if lanes_are_pixels(workload) else 1)
    channels = knobs.tile_channels * (1 if lanes_are_pixels(workload) else knobs.lanes)
    rows = math.ceil(run / pixels) if fuses_rows(workload) else math.ceil(height / max(1, knobs.tile_rows))
    block = max(block_of(workload.out_layout, "C"), workload.padded_lanes)
    problems = [
        (knobs.order not in get_args(Order), f"unknown order '{knobs.order}'"),
        (knobs.pad_at not in get_args(PadAt), f"unknown place to pad '{knobs.pad_at}'"),
        (pixels > run, f"tile of {pixels} pixels on a run of {run}"),
        (
            channels > tiled_channels(workload),
            f"tile of {channels} channels of {tiled_channels(workload)}",
        ),
        (
            block > 1 and knobs.lanes != block and not _is_part(workload, knobs),
            f"{knobs.lanes} lanes for blocks of {block}",
        ),
        (knobs.rows < 1 or rows % knobs.rows != 0, f"chunks of {knobs.rows} rows do not divide {rows}"),
        (
            not knobs.matrix_rows and knobs.steps not in (1, most_steps(workload, knobs.tile_pixels)),
            f"no vectors of {knobs.steps} channels of the data",
        ),
        (knobs.order == "pixels" and "H" not in workload.out_layout, "no rows to split among threads"),
        (
            isinstance(workload, SeparableWorkload) and (knobs.order, knobs.pad_at) != ("pixels", "chunk"),
            "two convolutions in one kernel go by chunks of rows",
        ),
        (
            knobs.order == "channels" and knobs.pad_at == "chunk" and not pads_by_chunk(workload, channels),
            "padding by chunk where a tile's input channels are no run of the same length",
        ),
        (knobs.matrix_rows != 0 and not _fits_matrices(workload, knobs), "its matrices fit no registers"),
        (
            workload.paired_words and not knobs.matrix_rows,
            "weights in pairs of words are multiplied as matrices alone",
        ),
        (
            knobs.tile_rows != 1 and not (knobs.matrix_rows and 1 < knobs.tile_rows <= height),
            f"tile of {knobs.tile_rows} rows",
        ),
        (
            knobs.pad_at == "chunk" and height % max(1, knobs.tile_rows) != 0,
            f"padding by chunk where tiles of {knobs.tile_rows} rows overlap",
        ),
        (
            knobs.pad_at == "chunk" and fuses_rows(workload) and run % pixels != 0,
            f"padding by chunk where tiles of {pixels} pixels overlap",
        ),
    ]
    return next((problem for found, problem in problems if found), None)


def _fits_matrices(workload: ConvolutionWorkload, knobs: ConvolutionKnobs) -> bool:
    """Are ``knobs`` those of products of matrices that registers hold?"""
    rows, words = knobs.matrix_rows, knobs.steps
    if workload.paired_words:
        whole = words in pair_steps(workload) and knobs.lanes % DATA_LANES == 0 and knobs.tile_rows == 1
        return whole and rows == matrix_vectors.ROWS and knobs.tile_pixels % rows == 0
    if not suits_matrices(workload) or rows < 1 or knobs.tile_pixels % rows:
        return False
    whole = 0 < words <= ROW_BYTES // WORD_BYTES and workload.in_channels % (words * workload.word) == 0
    held = registers_held(knobs.data_matrices, knobs.tile_channels)
    return whole and rows <= ROWS and knobs.lanes == ROW_BYTES // WORD_BYTES and held <= REGISTERS


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
    run = height * width if fuses_rows(workload) else width
    block = block_of(workload.out_layout, "C")
    return (
        workload.groups == 1
        and run >= matrix_vectors.ROWS
        and (block == 1 or block % DATA_LANES == 0)
        and workload.out_channels >= DATA_LANES
        and not lanes_are_pixels(workload)
    )


def channel_run(workload: ConvolutionWorkload) -> int:
    """Channels of one pixel that lie side by side in data whose channels are innermost."""
    block = block_of(workload.data_layout, "C")
    return block if block > 1 else workload.in_channels


def pair_steps(workload: ConvolutionWorkload) -> tuple[int, ...]:
    """Words that a step of products of matrices may take: of one matrix of each two pixels, or of two."""
    words = channel_run(workload) // workload.word
    return tuple(steps for steps in (matrix_vectors.WORDS, 2 * matrix_vectors.WORDS) if words % steps == 0)


def _is_part(workload: ConvolutionWorkload, knobs: ConvolutionKnobs) -> bool:
    """Does one vector after the other take the place of a block of channels?"""
    whole = block_of(workload.out_layout, "C") % knobs.lanes == 0 and not workload.padded_lanes
    return workload.is_depthwise and whole and knobs.tile_channels == 1


def parts_of_block(workload: ConvolutionWorkload, lanes: int) -> int:
    """How many vectors of ``lanes`` a block of the result's channels is computed in; 1 without blocks."""
    return max(1, block_of(workload.out_layout, "C") // lanes)


def _winograd_misfit(workload: ConvolutionWorkload, knobs: WinogradKnobs) -> str | None:
    if not suits_winograd(workload):
        return (
            "Winograd is for 3x3 kernels without strides, dilation and groups, for channels innermost, and "
            "for float32 or bytes that are multiplied as int16"
        )
    if knobs.tile not in POINTS:
        return f"no tiles of {knobs.tile} results"
    if min(knobs.in_lanes, knobs.out_lanes, knobs.tile_pixels, knobs.tile_channels, knobs.rows) < 1:
        return "a tile is empty"
    rows, columns = winograd_tiles(workload, knobs.tile)
    pixels = columns * (knobs.rows if knobs.order == "pixels" else rows)
    block = block_of(workload.out_layout, "C")
    problems = [
        (knobs.order not in get_args(Order), f"unknown order '{knobs.order}'"),
        (
            knobs.tile not in winograd_tile_sizes(workload),
            f"no room in int32 for tiles of {knobs.tile} results",
        ),
        (
            workload.in_channels % knobs.in_lanes != 0 or knobs.in_lanes % workload.word != 0,
            f"{knobs.in_lanes} lanes of {workload.in_channels} channels",
        ),
        (
            workload.out_channels % (knobs.out_lanes * knobs.tile_channels) != 0,
            f"tile of {knobs.tile_channels} times {knobs.out_lanes} channels of {workload.out_channels}",
        ),
        (block > 1 and knobs.out_lanes != block, f"{knobs.out_lanes} lanes for blocks of {block}"),
        (rows % knobs.rows != 0, f"chunks of {knobs.rows} rows do not divide {rows}"),
        (knobs.pad_at not in get_args(PadAt), f"unknown place to pad '{knobs.pad_at}'"),
        (
            knobs.pad_at == "chunk" and knobs.order == "channels",
            "padding by chunk where chunks are of channels",
        ),
        (pixels % knobs.tile_pixels != 0, f"{knobs.tile_pixels} tiles do not divide {pixels}"),
    ]
    return next((problem for found, problem in problems if found), None)


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


def check_strip(workload: ConvolutionWorkload, knobs: WinogradKnobs) -> None:
    """Refuse knobs that do not fit tiles of images of any size, of which ``knobs.rows`` are a chunk.

    Raises :class:`RelayLayoutError`.
    """
    check_knobs(strip_of(workload, knobs.tile, knobs.rows), knobs)


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


def may_prefetch(workload: ConvolutionWorkload, knobs: ConvolutionKnobs) -> bool:
    """Are weights read tile by tile of the channels, and in vectors of the tile's lanes?

    A product of one row does nothing but read weights, and is left to the hardware.
    """
    if knobs.order != "channels" or workload.groups > 1 or "H" not in workload.out_layout:
        return False
    axes = physical_axes(workload.kernel_layout)
    return axes[-2 if workload.word_axis else -1] == ("O", knobs.lanes)


def fuses_rows(workload: ConvolutionWorkload) -> bool:
    """May a tile run over the end of a row? Only where the index stays affine: pointwise."""
    return workload.is_pointwise and not workload.is_depthwise and "H" in workload.out_layout


MOST_MET = 0.8
"""Share of the kernel's rows or columns above which a condition on each of them is not worth its cost."""


@lru_cache(maxsize=1024)
def met_share(workload: ConvolutionWorkload, side: int, pixels: int = 1) -> float:
    """The share of the kernel's rows (``side`` 0), columns (1) or planes (2) that meet the image.

    The others are skipped. It is over all tiles of ``pixels`` along that side; 1 where none is skipped, as
    nearly all rows or columns meet it.
    """
    extent, taps, stride, before, after, dilation = workload.along(side)
    if not (before or after) or "H" not in workload.out_layout:
        return 1.0
    length = int((workload.out_height, workload.out_width, workload.out_depth)[side])
    starts = np.minimum(np.arange(0, length, pixels), length - pixels) * stride - before
    reach = (pixels - 1) * stride
    places = starts[:, None] + np.arange(taps) * dilation
    share = np.count_nonzero((places + reach >= 0) & (places < extent)) / places.size
    return share if share <= MOST_MET or side == PLANES else 1.0


DATA_LANES = 4
"""Elements of float32 in the vectors of data whose lanes are read: ARM's."""


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


def knobs_from_dict(workload: ConvolutionWorkload, found: Mapping[str, Any]) -> Knobs:
    """The knobs that ``to_dict`` wrote; RelayLayoutError for what is no set of knobs of the workload."""
    named = dict(found)
    kinds = {"direct": ConvolutionKnobs, "winograd": WinogradKnobs}
    try:
        knobs: Knobs = kinds[named.pop("algorithm", "direct")](**named)
        check_knobs(workload, knobs)
    except (KeyError, TypeError):
        raise RelayLayoutError(f"{dict(found)} are no knobs of {workload.to_json()}") from None
    return knobs
