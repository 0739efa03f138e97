"""Winograd convolution: tiles of the image transformed, multiplied and transformed back a chunk at a time.

A chunk's transformed input, its products and its results stay in the cache between the stages. The
products are as many matrix products as a tile has positions, each with the register tile of the direct
convolution, where a pixel is now a whole tile.
"""

from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule

from topi_ext.compute.padding import PADDING
from topi_ext.compute.winograd import DATA, DATA_ROWS, PRODUCT, RESULT_COLUMNS
from topi_ext.indexing import block_of, physical_axes
from topi_ext.knobs import WinogradKnobs, check_knobs
from topi_ext.schedule.blocks import (
    AnchorNeighbours,
    SBlock,
    anchor_of,
    fuse_epilogue,
    open_schedule,
)
from topi_ext.schedule.cpu.loops import arrange_block, arrange_loops, finished, place_padding
from topi_ext.schedule.phases import store_in_place
from topi_ext.schedule.prefetch import apply_prefetch, prefetch_weights
from topi_ext.workloads.convolution import WIDENED, ConvolutionWorkload

WEIGHT_BYTES = 4
"""Bytes of one float32, or of a word of int16."""

Loop = Any
"""A loop of a schedule (``tvm.s_tir.schedule.LoopRV``)."""


def schedule_winograd(func: tirx.PrimFunc, workload: ConvolutionWorkload, knobs: WinogradKnobs) -> Schedule:
    """Arrange the loops of ``func``, a Winograd convolution of ``workload``, as ``knobs`` say."""
    check_knobs(workload, knobs)
    sch, result, around = open_winograd(func, workload.out_layout)
    names = {sch.get(block).name_hint: block for block in around.before}
    stages = {name: names.pop(name) for name in (DATA_ROWS, DATA, PRODUCT, RESULT_COLUMNS)}
    pad = next((block for name, block in names.items() if name.startswith(PADDING)), None)
    for block in names.values():
        if block is not pad:
            arrange_block(sch, block, knobs.out_lanes)
    chunk, tile_column = _result(sch, result, workload, knobs)
    arrange_columns(sch, stages[RESULT_COLUMNS], tile_column)
    arrange_products(sch, stages[PRODUCT], chunk, workload, knobs)
    _data(sch, stages, chunk if knobs.order == "pixels" else None)
    if pad is not None:
        place_padding(sch, pad, chunk if knobs.pad_at == "chunk" else None)
    arrange_loops(sch, around.after, knobs.out_lanes)
    return open_schedule(apply_prefetch(finished(sch.mod["main"])))


def open_winograd(func: tirx.PrimFunc, layout: str) -> tuple[Schedule, SBlock, AnchorNeighbours]:
    """A schedule of ``func``, the block that stores its results, and the blocks around the convolution.

    That block is the epilogue where there is one, which takes over the last step of the convolution.
    """
    sch = open_schedule(func)
    sch, _ = store_in_place(sch, layout)
    anchor = anchor_of(sch)
    around = fuse_epilogue(sch, anchor)
    if around.epilogue is None:
        return sch, anchor, around
    sch.compute_inline(anchor)
    return sch, around.epilogue, around


def _result(
    sch: Schedule, block: SBlock, workload: ConvolutionWorkload, knobs: WinogradKnobs
) -> tuple[Loop, Loop]:
    """The loop over chunks, which are split among threads, and the one over the tiles of a row."""
    axes = physical_axes(workload.out_layout)
    loops = dict(zip(axes, sch.get_loops(block), strict=True))
    out_block = block_of(workload.out_layout, "C")
    channel = loops["C", 0]
    if out_block > 1:
        lane = loops["C", out_block]
    else:
        channel, lane = sch.split(channel, [None, knobs.out_lanes])
    row, in_row = sch.split(loops["H", 0], [None, knobs.tile])
    column, in_column = sch.split(loops["W", 0], [None, knobs.tile])
    tile = [in_row, in_column, lane]
    image = [loops[axis, 0] for axis in "ND" if (axis, 0) in loops]
    if knobs.order == "pixels":
        chunk, row = sch.split(row, [None, knobs.rows])
        sch.reorder(*image, chunk, channel, row, column, *tile)
    else:
        chunk, channel = sch.split(channel, [None, knobs.tile_channels])
        sch.reorder(*image, chunk, channel, row, column, *tile)
    parallel = sch.fuse(*image, chunk)
    sch.parallel(parallel)
    sch.unroll(in_row)
    sch.unroll(in_column)
    sch.vectorize(lane)
    return parallel, column


def arrange_columns(sch: Schedule, block: SBlock, within: Loop) -> None:
    """Columns of the results, of the one tile and vector of channels of the loop ``within``."""
    sch.compute_at(block, within, preserve_unit_loops=True)
    sch.set_scope(block, 0, "local")
    _unroll_vectors(sch, block)


def arrange_products(
    sch: Schedule, block: SBlock, chunk: Loop, workload: ConvolutionWorkload, knobs: WinogradKnobs
) -> Loop:
    """Schedule the products of a chunk, in register tiles; the result is the loop over these along pixels."""
    finished = sch.cache_write(block, 0, "local")
    sch.compute_at(finished, chunk, preserve_unit_loops=True)
    place, channel, *_, pixel, lane = own_loops(sch, finished)
    channel, tile_channel = sch.split(channel, [None, knobs.tile_channels])
    pixel, tile_pixel = sch.split(pixel, [None, knobs.tile_pixels])
    sch.reorder(place, channel, pixel, tile_channel, tile_pixel, lane)
    sch.unroll(tile_channel)
    sch.unroll(tile_pixel)
    sch.vectorize(lane)
    sch.compute_at(block, pixel, preserve_unit_loops=True)
    _, tile_channel, *_, tile_pixel, lane, outer, inner = own_loops(sch, block)
    sch.reorder(outer, inner, tile_pixel, tile_channel, lane)
    sch.unroll(tile_channel)
    sch.unroll(tile_pixel)
    sch.vectorize(lane)
    if workload.dtype == WIDENED and workload.word == 1:
        _load_data(sch, block, outer, inner)
    sch.decompose_reduction(block, outer)
    if knobs.prefetch:
        steps = workload.summed_planes // workload.word
        prefetch_weights(sch, inner, steps, knobs.weight_vector * WEIGHT_BYTES)
    return pixel


def _load_data(sch: Schedule, block: SBlock, outer: Loop, inner: Loop) -> None:
    """Load what a turn of ``outer`` multiplies of the data as vectors, of which ``inner`` reads lanes."""
    loaded = sch.cache_read(block, 0, "local")
    sch.compute_at(loaded, outer, preserve_unit_loops=True)
    *_, pixel, lane = sch.get_loops(loaded)
    sch.unroll(pixel)
    sch.vectorize(lane)
    sch.unroll(inner)


def arrange_data(sch: Schedule, block: SBlock, rows: SBlock, order: list[Loop]) -> None:
    """The transformed input, whose loops over tiles and channels are in ``order``; ``rows`` are computed for
    one tile and vector of channels at a time.
    """
    place, *_, lane = own_loops(sch, block)
    sch.reorder(*order, place, lane)
    sch.unroll(place)
    sch.vectorize(lane)
    sch.compute_at(rows, order[-1], preserve_unit_loops=True)
    sch.set_scope(rows, 0, "local")
    _unroll_vectors(sch, rows)


def _data(sch: Schedule, stages: dict[str, SBlock], chunk: Loop | None) -> None:
    """The transformed input: of a chunk where the chunk needs it, or of the whole image before."""
    block = stages[DATA]
    if chunk is not None:
        sch.compute_at(block, chunk, preserve_unit_loops=True)
    _, channel, pixel, _ = own_loops(sch, block)
    arrange_data(sch, block, stages[DATA_ROWS], [channel, pixel])
    if chunk is None:
        sch.parallel(sch.fuse(channel, pixel))


def own_loops(sch: Schedule, block: SBlock) -> list[Loop]:
    """The loops over a block's own axes, without outer loops that it shares with other blocks."""
    return list(sch.get_loops(block))[-len(sch.get(block).iter_vars) :]


def _unroll_vectors(sch: Schedule, block: SBlock) -> None:
    """Vectorize over channels, and unroll the loops over rows and columns around that."""
    *_, row, column, lane = sch.get_loops(block)
    sch.unroll(row)
    sch.unroll(column)
    sch.vectorize(lane)
