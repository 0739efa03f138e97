"""Winograd's convolution of images of any size: chunks of tiles, whatever lines and images they are of.

Results and what follows them element by element are computed tile by tile, and stored where the tile lies.
"""

from tvm import tirx
from tvm.s_tir import Schedule

from topi_ext.compute.winograd import DATA, DATA_ROWS, PRODUCT, RESULT_COLUMNS
from topi_ext.compute.winograd_any_size import NEAREST, WINDOW
from topi_ext.extents import fixed
from topi_ext.knobs import WinogradKnobs, check_strip
from topi_ext.schedule.blocks import SBlock, open_schedule
from topi_ext.schedule.cpu.loops import arrange_block, arrange_loops, finished
from topi_ext.schedule.cpu.winograd import (
    Loop,
    arrange_columns,
    arrange_data,
    arrange_products,
    open_winograd,
    own_loops,
)
from topi_ext.schedule.cpu.winograd_results import by_tiles
from topi_ext.schedule.last_chunk import end_with, mark_chunk, mark_tiles
from topi_ext.schedule.named_extents import with_named_extents
from topi_ext.schedule.prefetch import apply_prefetch
from topi_ext.workloads.convolution import ConvolutionWorkload

_STAGES = (NEAREST, WINDOW, DATA_ROWS, DATA, PRODUCT, RESULT_COLUMNS)


def schedule_winograd_any_size(
    func: tirx.PrimFunc, workload: ConvolutionWorkload, knobs: WinogradKnobs
) -> Schedule:
    """Arrange the loops of ``func``, Winograd's convolution of images of any size, as ``knobs`` say.

    ``workload`` has a typical size.
    """
    check_strip(workload, knobs)
    sch, result, around = open_winograd(with_named_extents(func), workload.out_layout)
    name = sch.get(result).name_hint
    others = [sch.get(block).name_hint for block in around.before]
    after = [sch.get(block).name_hint for block in around.after]
    tiled, tiles = by_tiles(sch.mod["main"], name, workload, knobs)
    sch = open_schedule(tiled)
    for other in others:
        if other not in _STAGES:
            arrange_block(sch, sch.get_sblock(other), knobs.out_lanes)
    stages = {stage: sch.get_sblock(stage) for stage in _STAGES}
    _check_same(sch, stages[PRODUCT], workload, knobs)
    chunk, vector = _result(sch, sch.get_sblock(name), knobs)
    arrange_columns(sch, stages[RESULT_COLUMNS], vector)
    mark_tiles(sch, arrange_products(sch, stages[PRODUCT], chunk, workload, knobs), knobs.tile_pixels)
    data = stages[DATA]
    if knobs.order == "pixels":
        sch.compute_at(data, chunk, preserve_unit_loops=True)
    _, channel, whole, place, _ = own_loops(sch, data)
    # Where a tile lies is divided for all channels at once.
    arrange_data(sch, data, stages[DATA_ROWS], [whole, place, channel])
    _window(sch, stages[WINDOW], stages[NEAREST], channel)
    if knobs.order == "channels":
        place = sch.fuse(whole, place)
        sch.parallel(place)
    # The products of the last register tile read as many tiles as those of others.
    mark_tiles(sch, place, whole=knobs.tile_pixels)
    arrange_loops(sch, [sch.get_sblock(other) for other in after], knobs.out_lanes)
    return open_schedule(apply_prefetch(finished(end_with(sch.mod["main"], tiles))))


def _check_same(sch: Schedule, product: SBlock, workload: ConvolutionWorkload, knobs: WinogradKnobs) -> None:
    """RuntimeError where the function was made for other knobs, whose weights lie in another order."""
    block = sch.get(product)
    found = [[fixed(extent) for extent in region.source.shape] for region in (*block.reads, *block.writes)]
    places, vectors = (knobs.tile + 2) ** 2, workload.out_channels // knobs.out_lanes
    chunks = [places, vectors, None, knobs.rows, knobs.out_lanes]
    if list(knobs.weight_shape(workload)) not in found or chunks not in found:
        raise RuntimeError(f"a function of {found} is not arranged as {knobs.to_dict()} say")


def _window(sch: Schedule, block: SBlock, read: SBlock, within: Loop) -> None:
    """What a tile reads, row by row: all choices at once would take LLVM as long as the whole kernel."""
    sch.compute_at(block, within, preserve_unit_loops=True)
    *_, row, _, _ = sch.get_loops(block)
    sch.compute_at(read, row, preserve_unit_loops=True)
    for stage in (block, read):
        sch.set_scope(stage, 0, "local")
        *_, column, lane = sch.get_loops(stage)
        sch.unroll(column)
        sch.vectorize(lane)


def _result(sch: Schedule, block: SBlock, knobs: WinogradKnobs) -> tuple[Loop, Loop]:
    """The loop over chunks, and the one over vectors of channels of a tile."""
    chunk, place, channel, row, column, lane = sch.get_loops(block)
    if knobs.order == "channels":
        outer, channel = sch.split(channel, [None, knobs.tile_channels])
        sch.reorder(outer, chunk, place, channel, row, column, lane)
        sch.parallel(outer)
    else:
        sch.parallel(chunk)
    mark_chunk(sch, chunk, knobs.rows)
    mark_tiles(sch, place)
    sch.unroll(row)
    sch.unroll(column)
    sch.vectorize(lane)
    return chunk, channel
