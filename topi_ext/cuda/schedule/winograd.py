"""The two transforms of Winograd's convolution: a thread has a vector of channels of a tile in registers.

What a thread reads, it asks for at once. Everything is unrolled, so that the matrices become sums and
differences.
"""

from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.tirx import PrimFunc

from topi_ext.compute.row_numbers import number_of_row
from topi_ext.compute.winograd import DATA, DATA_ROWS, RESULT_COLUMNS
from topi_ext.cuda.annotation import described_kernel
from topi_ext.cuda.compute.winograd import SPREAD, TRANSFORM, WINDOW
from topi_ext.cuda.schedule.epilogue import epilogue_of
from topi_ext.cuda.schedule.loops import in_vectors, unrolled
from topi_ext.cuda.winograd_knobs import WinogradGemmKnobs, data_threads, result_threads
from topi_ext.cuda.workload import GemmConvolution
from topi_ext.schedule.blocks import child_blocks, open_schedule, simplified

OUTER = 3
"""Loops around what a thread does: blocks, and within them tiles and vectors of channels."""


def schedule_transform(func: PrimFunc) -> Schedule | None:
    """Arrange a function around either transform of ``cuda.compute.winograd``; None of any other, and where
    what follows the results is no epilogue.
    """
    sch = open_schedule(func)
    for block in child_blocks(sch):
        annotations = sch.get(block).annotations
        if TRANSFORM not in annotations:
            continue
        kernel = described_kernel(str(annotations[TRANSFORM]))
        assert kernel is not None
        workload, knobs = kernel
        assert isinstance(workload, GemmConvolution)
        assert isinstance(knobs, WinogradGemmKnobs)
        if sch.get(block).name_hint == SPREAD:
            return _image(sch, block, workload, knobs)
        return _results(sch, block, workload, knobs)
    return None


def _image(sch: Schedule, out: Any, workload: GemmConvolution, knobs: WinogradGemmKnobs) -> Schedule:
    channels, threads = workload.in_channels, data_threads(workload, knobs.tile)
    extents = [int(axis.dom.extent) for axis in sch.get(out).iter_vars[:-1]]

    def places_apart(*index: Any) -> tuple[Any, ...]:
        *tile, element = index
        return number_of_row(tile, extents), element // channels, element % channels

    moved = tirx.IndexMap.from_func(places_apart, ndim=len(extents) + 1, index_dtype="int32")
    sch.transform_block_layout(out, moved)
    sch = open_schedule(simplified(sch.mod["main"]))
    out = sch.get_sblock(SPREAD)
    number, place, channel = sch.get_loops(out)
    number, among = sch.split(number, [None, threads.tiles])
    channel, lane, element = sch.split(channel, [None, threads.lanes, threads.vector])
    sch.reorder(number, channel, among, lane, place, element)
    _bind(sch, [number, channel], among, lane)
    for stage in (DATA, DATA_ROWS, WINDOW):
        _in_registers(sch, stage, lane)
    in_vectors(sch, [place, element])
    return sch


def _results(
    sch: Schedule, results: Any, workload: GemmConvolution, knobs: WinogradGemmKnobs
) -> Schedule | None:
    out, threads = epilogue_of(sch, results), result_threads(workload, knobs.tile)
    if out is None:
        return None
    image, y, x, channel = sch.get_loops(results)
    y, row = sch.split(y, [None, knobs.tile])
    x, among, column = sch.split(x, [None, threads.tiles, knobs.tile])
    channel, lane, element = sch.split(channel, [None, threads.lanes, threads.vector])
    sch.reorder(image, y, x, channel, among, lane, row, column, element)
    _bind(sch, [image, y, x, channel], among, lane)
    for stage in (RESULT_COLUMNS, WINDOW):
        _in_registers(sch, stage, lane)
    sch.set_scope(results, 0, "local")
    sch.reverse_compute_at(out, lane, preserve_unit_loops=True)
    unrolled(sch, [row, column, element])
    in_vectors(sch, sch.get_loops(out)[OUTER:])
    return sch


def _in_registers(sch: Schedule, stage: str, lane: Any) -> None:
    """What a thread needs of a stage; what is read from memory is read in vectors."""
    block = sch.get_sblock(stage)
    sch.compute_at(block, lane, preserve_unit_loops=True)
    sch.set_scope(block, 0, "local")
    (in_vectors if stage == WINDOW else unrolled)(sch, sch.get_loops(block)[OUTER:])


def _bind(sch: Schedule, blocks: list[Any], tiles: Any, lane: Any) -> None:
    sch.bind(sch.fuse(*blocks), "blockIdx.x")
    sch.bind(tiles, "threadIdx.y")
    sch.bind(lane, "threadIdx.x")
