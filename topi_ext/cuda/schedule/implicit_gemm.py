"""Implicit GEMM: tiles in shared memory, operands and sums in registers, the epilogue from shared memory.

A block of threads computes ``block_m`` x ``block_n`` results. Tiles of both operands arrive in shared memory
``stages`` deep, by asynchronous copies where the architecture has them; for ldmatrix they are swizzled, for
other instructions their rows are padded, so that rows lie in different banks. Sums leave through shared
memory, so that bias, activation and residual work on runs of neighbouring channels and results are written in
whole lines.
"""

from dataclasses import replace
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.tirx import PrimFunc

from topi_ext.compute.row_numbers import number_of_row
from topi_ext.cuda.codegen.intrinsics import SHARED
from topi_ext.cuda.gemm_knobs import GemmKnobs
from topi_ext.cuda.multiprocessor import Multiprocessor
from topi_ext.cuda.schedule.bulk_copies import lies_as_read, with_bulk_copies, with_early_weights
from topi_ext.cuda.schedule.epilogue import epilogue_of, result_run
from topi_ext.cuda.schedule.tiles import ScalarTiles, TensorTiles, Tiles, WarpgroupTiles
from topi_ext.cuda.workload import GemmConvolution
from topi_ext.schedule.blocks import annotated_block, child_blocks, open_schedule, simplified

_TILES: dict[str, type[Tiles]] = {"fma": ScalarTiles, "dp4a": ScalarTiles, "wgmma": WarpgroupTiles}


def schedule_product(
    func: PrimFunc,
    workload: GemmConvolution,
    knobs: GemmKnobs,
    multiprocessor: Multiprocessor,
) -> Schedule | None:
    """Arrange a function around ``partial_products``; None where what follows them is no epilogue. Data that
    are converted while they are gathered are copied by every thread, whatever the knobs say.
    """
    sch = open_schedule(func)
    found = annotated_block(sch)
    if found is None:
        return None
    product, out = found[0], epilogue_of(sch, found[0])
    if out is None:
        return None
    names = [str(sch.get(block).name_hint) for block in (product, out)]
    is_partial = names[0] == names[1]
    blocks = [str(sch.get(block).name_hint) for block in child_blocks(sch)]
    gathers = blocks[: blocks.index(names[0])]
    if knobs.copies == "bulk" and not lies_as_read(sch, workload):
        knobs = replace(knobs, copies="async")
    if not is_partial:
        _flatten(sch, out, workload)
        sch = open_schedule(simplified(sch.mod["main"]))
        product, out = (sch.get_sblock(name) for name in names)
    tiles = _TILES.get(knobs.instruction, TensorTiles)(sch, product, workload, knobs, multiprocessor)
    tiles.copy_operands()
    for block in child_blocks(sch):
        if sch.get(block).name_hint in gathers:
            sch.compute_inline(block)
    tiles.load_operands()
    if is_partial:
        out = sch.cache_write(tiles.outer, 0, SHARED)
    else:
        sch.set_scope(tiles.outer, 0, SHARED)
    store = tiles.keep_sums()
    sch.reverse_compute_at(out, tiles.block_loop, preserve_unit_loops=True)
    tiles.store_results(out, result_run(workload.columns if not is_partial else knobs.block_n))
    init = sch.decompose_reduction(tiles.outer, tiles.tile_loop)
    tiles.finish(store, init)
    tiles.pipeline()
    if knobs.copies == "bulk":
        return open_schedule(with_bulk_copies(sch.mod["main"], workload, knobs))
    if knobs.stages > 1 and multiprocessor.has_dependent_launch:
        return open_schedule(with_early_weights(sch.mod["main"]))
    return sch


def _flatten(sch: Schedule, block: Any, workload: GemmConvolution) -> None:
    """An epilogue over the result's axes as one over (group,) rows and columns of the product."""
    columns = workload.columns
    extents = [int(axis.dom.extent) for axis in sch.get(block).iter_vars[:-1]]

    def rows(*index: Any) -> tuple[Any, ...]:
        *place, channel = index
        row = number_of_row(place, extents)
        if workload.groups == 1:
            return row, channel
        return channel // columns, row, channel % columns

    sch.transform_block_layout(block, tirx.IndexMap.from_func(rows, ndim=len(extents) + 1))
