"""The knobs of schedules of convolutions on CPUs, and which values of them fit a workload."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from topi_ext.codegen import amx, neon_matrices
from topi_ext.errors import RelayLayoutError
from topi_ext.indexing import WORD_BYTES, block_of, physical_axes
from topi_ext.winograd import POINTS
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.facts import (
    DATA_LANES,
    fuses_rows,
    lanes_are_pixels,
    pads_by_chunk,
    pair_steps,
    pixel_run,
    strip_of,
    suits_amx,
    suits_winograd,
    tiled_channels,
    vector_steps,
    winograd_tile_sizes,
    winograd_tiles,
)
from topi_ext.workloads.separable import SeparableWorkload

Order = Literal["channels", "pixels"]
PadAt = Literal["stage", "chunk"]


@dataclass(frozen=True)
class ConvolutionKnobs:
    """The knobs of the direct convolution."""

    lanes: int
    """Output elements in one vector: channels, or for NCHW pixels of a row.

    Fewer than the block of channels of a depthwise convolution if the weights of all taps are to stay in
    registers.
    """

    tile_pixels: int
    """Pixels of the register tile; for NCHW vectors of pixels."""

    tile_channels: int
    """Vectors of output channels in the register tile; for NCHW output channels."""

    order: Order = "channels"
    """The outermost axis, along which threads share the work. With "channels" each weight is read by one
    thread, with "pixels" each input row is."""

    rows: int = 1
    """Rows of the result in one chunk of order "pixels"; where rows are fused, register tiles."""

    pad_at: PadAt = "stage"
    """When the padded image is copied: "stage" copies all of it before the loops, "chunk" the rows of each
    chunk within it."""

    prefetch: bool = True
    """Prefetch the weights of the next tile, if each weight is read once."""

    parallel: bool = True
    """Parallelize the outermost loop; otherwise the calling thread does all the work."""

    steps: int = 1
    """Input channels that one iteration of the reduction loads as a vector, whose lanes the multiply-adds
    read; with 1 each element is loaded by itself (:func:`topi_ext.workloads.facts.vector_steps`). With
    matrix instructions, the words per pixel that a step takes."""

    matrix_rows: int = 0
    """Pixels in one matrix operand, a divisor of ``tile_pixels``; 0 without matrix instructions."""

    tile_rows: int = 1
    """Image rows in one register tile, of ``tile_pixels`` each; more than one only with AMX."""

    @property
    def data_matrices(self) -> int:
        """Matrix operands that hold the data of a register tile."""
        return self.tile_rows * self.tile_pixels // self.matrix_rows

    def to_dict(self) -> dict[str, Any]:
        return _named("direct", self)


@dataclass(frozen=True)
class WinogradKnobs:
    """The knobs of the Winograd convolution."""

    tile: int
    """Results along each side of a Winograd tile, 2 or 4: m of F(m x m, 3 x 3)."""

    in_lanes: int
    """Input channels in one vector of the transformed input."""

    out_lanes: int
    """Output channels in one vector of the results."""

    tile_pixels: int
    """Winograd tiles in one register tile of the products."""

    tile_channels: int
    """Vectors of output channels in one register tile of the products."""

    order: Order = "pixels"
    """What threads share: chunks of Winograd tiles ("pixels"), or output channels ("channels")."""

    rows: int = 1
    """Rows of Winograd tiles in one chunk; for images of dynamic size, tiles in one chunk, in both orders."""

    pad_at: PadAt = "stage"
    """As of :class:`ConvolutionKnobs`; "chunk" needs order "pixels". Images of dynamic size are not
    copied."""

    prefetch: bool = True
    """As of :class:`ConvolutionKnobs`."""

    @property
    def weight_vector(self) -> int:
        """Contiguous output channels in the transformed weights: those of one register tile."""
        return self.out_lanes * self.tile_channels

    def weight_shape(self, workload: ConvolutionWorkload) -> tuple[int, ...]:
        """The shape of the transformed weights, in the order in which the loops read them.

        (points, vectors, reduced, weight_vector) for order "pixels", with the first two exchanged for
        "channels"; if channels are summed in words, the elements of a word are a further, innermost
        dimension.
        """
        places, vectors = (self.tile + 2) ** 2, workload.out_channels // self.weight_vector
        outer = (places, vectors) if self.order == "pixels" else (vectors, places)
        words = () if workload.word == 1 else (workload.word,)
        return (*outer, workload.summed_planes // workload.word, self.weight_vector, *words)

    def to_dict(self) -> dict[str, Any]:
        return _named("winograd", self)


Knobs = ConvolutionKnobs | WinogradKnobs

_ADDED_DEFAULTS = {"prefetch": True, "parallel": True, "steps": 1, "matrix_rows": 0, "tile_rows": 1}
"""Knobs that records leave out at these values, so that records keep the form they had before the knob."""


def _named(algorithm: str, knobs: Knobs) -> dict[str, Any]:
    named = {item.name: getattr(knobs, item.name) for item in fields(knobs)}
    kept = {name: value for name, value in named.items() if _ADDED_DEFAULTS.get(name) != value}
    return {"algorithm": algorithm, **kept}


def check_knobs(workload: ConvolutionWorkload, knobs: Knobs) -> None:
    """Raise :class:`RelayLayoutError` for knobs that do not fit the workload, e.g. from an edited record.

    A tile longer than its axis, for instance, would access memory before the tensor.
    """
    if isinstance(knobs, WinogradKnobs):
        problem = next(_winograd_misfits(workload, knobs), None)
    else:
        problem = next(_misfits(workload, knobs), None)
    if problem:
        raise RelayLayoutError(f"knobs {knobs.to_dict()} do not fit {workload.to_json()}: {problem}")


def _misfits(workload: ConvolutionWorkload, knobs: ConvolutionKnobs) -> Iterator[str]:
    """The reasons why the knobs do not fit the workload."""
    if knobs.lanes < 1 or knobs.tile_pixels < 1 or knobs.tile_channels < 1:
        yield "a tile is empty"
    if knobs.order not in get_args(Order):
        yield f"unknown order '{knobs.order}'"
    if knobs.pad_at not in get_args(PadAt):
        yield f"unknown place to pad '{knobs.pad_at}'"
    yield from _tile_misfits(workload, knobs)
    if knobs.order == "pixels" and "H" not in workload.out_layout:
        yield "no rows to split among threads"
    if isinstance(workload, SeparableWorkload) and (knobs.order, knobs.pad_at) != ("pixels", "chunk"):
        yield "two convolutions in one kernel go by chunks of rows"
    if knobs.matrix_rows != 0 and not _fits_matrices(workload, knobs):
        yield "its matrices fit no registers"
    if workload.paired_words and not knobs.matrix_rows:
        yield "weights in pairs of words are multiplied as matrices alone"
    if knobs.tile_rows != 1 and not (knobs.matrix_rows and 1 < knobs.tile_rows <= int(workload.out_height)):
        yield f"tile of {knobs.tile_rows} rows"
    if knobs.pad_at == "chunk":
        yield from _chunk_padding_misfits(workload, knobs)


def _tile_misfits(workload: ConvolutionWorkload, knobs: ConvolutionKnobs) -> Iterator[str]:
    """The reasons that concern the register tile and the chunks of rows."""
    run, pixels = pixel_run(workload), _tile_pixels(workload, knobs)
    if pixels > run:
        yield f"tile of {pixels} pixels on a run of {run}"
    channels = _tile_channels(workload, knobs)
    if channels > tiled_channels(workload):
        yield f"tile of {channels} channels of {tiled_channels(workload)}"
    block = max(block_of(workload.out_layout, "C"), workload.padded_lanes)
    if block > 1 and knobs.lanes != block and not _is_part(workload, knobs):
        yield f"{knobs.lanes} lanes for blocks of {block}"
    fused = fuses_rows(workload)
    rows = math.ceil(run / pixels if fused else int(workload.out_height) / max(1, knobs.tile_rows))
    if knobs.rows < 1 or rows % knobs.rows != 0:
        yield f"chunks of {knobs.rows} rows do not divide {rows}"
    if not knobs.matrix_rows and knobs.steps not in (1, vector_steps(workload, knobs.tile_pixels)):
        yield f"no vectors of {knobs.steps} channels of the data"


def _chunk_padding_misfits(workload: ConvolutionWorkload, knobs: ConvolutionKnobs) -> Iterator[str]:
    """The reasons that concern padding each chunk by itself."""
    run, pixels = pixel_run(workload), _tile_pixels(workload, knobs)
    if knobs.order == "channels" and not pads_by_chunk(workload, _tile_channels(workload, knobs)):
        yield "padding by chunk where a tile's input channels are no run of the same length"
    if int(workload.out_height) % knobs.tile_rows != 0:
        yield f"padding by chunk where tiles of {knobs.tile_rows} rows overlap"
    if fuses_rows(workload) and run % pixels != 0:
        yield f"padding by chunk where tiles of {pixels} pixels overlap"


def _tile_pixels(workload: ConvolutionWorkload, knobs: ConvolutionKnobs) -> int:
    """Pixels of a row that a register tile covers."""
    return knobs.tile_pixels * (knobs.lanes if lanes_are_pixels(workload) else 1)


def _tile_channels(workload: ConvolutionWorkload, knobs: ConvolutionKnobs) -> int:
    """Output channels that a register tile covers."""
    return knobs.tile_channels * (1 if lanes_are_pixels(workload) else knobs.lanes)


def _fits_matrices(workload: ConvolutionWorkload, knobs: ConvolutionKnobs) -> bool:
    """Do the matrices of ``knobs`` suit the workload, and fit the registers?"""
    rows, words = knobs.matrix_rows, knobs.steps
    if workload.paired_words:
        whole = words in pair_steps(workload) and knobs.lanes % DATA_LANES == 0 and knobs.tile_rows == 1
        return whole and rows == neon_matrices.ROWS and knobs.tile_pixels % rows == 0
    if not suits_amx(workload) or rows < 1 or knobs.tile_pixels % rows:
        return False
    whole = 0 < words <= amx.ROW_BYTES // WORD_BYTES and workload.in_channels % (words * workload.word) == 0
    held = amx.registers_held(knobs.data_matrices, knobs.tile_channels)
    return whole and rows <= amx.ROWS and knobs.lanes == amx.LANES and held <= amx.REGISTERS


def _is_part(workload: ConvolutionWorkload, knobs: ConvolutionKnobs) -> bool:
    """Is a block of channels computed in several vectors, one after the other?"""
    whole = block_of(workload.out_layout, "C") % knobs.lanes == 0 and not workload.padded_lanes
    return workload.is_depthwise and whole and knobs.tile_channels == 1


def _winograd_misfits(workload: ConvolutionWorkload, knobs: WinogradKnobs) -> Iterator[str]:
    """The reasons why the knobs of a Winograd kernel do not fit the workload."""
    if not suits_winograd(workload):
        yield (
            "Winograd is for 3x3 kernels without strides, dilation and groups, for channels innermost, and "
            "for float32 or bytes that are multiplied as int16"
        )
    if knobs.tile not in POINTS:
        yield f"no tiles of {knobs.tile} results"
    if min(knobs.in_lanes, knobs.out_lanes, knobs.tile_pixels, knobs.tile_channels, knobs.rows) < 1:
        yield "a tile is empty"
    if knobs.order not in get_args(Order):
        yield f"unknown order '{knobs.order}'"
    if knobs.tile not in winograd_tile_sizes(workload):
        yield f"no room in int32 for tiles of {knobs.tile} results"
    if workload.in_channels % knobs.in_lanes != 0 or knobs.in_lanes % workload.word != 0:
        yield f"{knobs.in_lanes} lanes of {workload.in_channels} channels"
    if workload.out_channels % (knobs.out_lanes * knobs.tile_channels) != 0:
        yield f"tile of {knobs.tile_channels} times {knobs.out_lanes} channels of {workload.out_channels}"
    block = block_of(workload.out_layout, "C")
    if block > 1 and knobs.out_lanes != block:
        yield f"{knobs.out_lanes} lanes for blocks of {block}"
    rows, columns = winograd_tiles(workload, knobs.tile)
    if rows % knobs.rows != 0:
        yield f"chunks of {knobs.rows} rows do not divide {rows}"
    if knobs.pad_at not in get_args(PadAt):
        yield f"unknown place to pad '{knobs.pad_at}'"
    if knobs.pad_at == "chunk" and knobs.order == "channels":
        yield "padding by chunk where chunks are of channels"
    pixels = columns * (knobs.rows if knobs.order == "pixels" else rows)
    if pixels % knobs.tile_pixels != 0:
        yield f"{knobs.tile_pixels} tiles do not divide {pixels}"


def check_strip(workload: ConvolutionWorkload, knobs: WinogradKnobs) -> None:
    """Raise :class:`RelayLayoutError` for knobs that do not fit a Winograd kernel for images of dynamic
    size.
    """
    check_knobs(strip_of(workload, knobs.tile, knobs.rows), knobs)


def may_prefetch(workload: ConvolutionWorkload, knobs: ConvolutionKnobs) -> bool:
    """Can the weights of the next tile be prefetched?

    They can in order "channels", if the kernel's layout has vectors of ``lanes``. Products of one row, which
    do little but read weights, are left to the hardware's prefetcher.
    """
    if knobs.order != "channels" or workload.groups > 1 or "H" not in workload.out_layout:
        return False
    axes = physical_axes(workload.kernel_layout)
    return axes[-2 if workload.word_axis else -1] == ("O", knobs.lanes)


def knobs_from_dict(workload: ConvolutionWorkload, found: Mapping[str, Any]) -> Knobs:
    """The knobs that ``to_dict`` wrote; RelayLayoutError for others, and for those that do not fit the
    workload.
    """
    named = dict(found)
    kinds = {"direct": ConvolutionKnobs, "winograd": WinogradKnobs}
    try:
        knobs: Knobs = kinds[named.pop("algorithm", "direct")](**named)
        check_knobs(workload, knobs)
    except (KeyError, TypeError):
        raise RelayLayoutError(f"{dict(found)} are no knobs of {workload.to_json()}") from None
    return knobs
