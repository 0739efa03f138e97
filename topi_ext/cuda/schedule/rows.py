"""Few rows by a matrix: a warp for each output, whose lanes read weights in vectors, several at once.

Nothing is in shared memory: a weight is read once, and the rows stay in the first-level cache.
"""

from tvm.s_tir import Schedule
from tvm.tirx import PrimFunc

from topi_ext.cuda.compute.row_product import DATA, ROWS
from topi_ext.cuda.multiprocessor import LANES
from topi_ext.cuda.schedule.epilogue import epilogue_of
from topi_ext.divisors import largest_divisor
from topi_ext.schedule.blocks import child_blocks, loop_extent, open_schedule

WARPS = 4
"""The most warps of a block."""

ASKED = 8
"""Vectors of weights that a lane asks for at once at most."""


def schedule_rows(func: PrimFunc) -> Schedule | None:
    """Arrange a function around ``cuda.compute.row_product``; None where what follows it is no epilogue."""
    sch = open_schedule(func)
    found = [block for block in child_blocks(sch) if ROWS in sch.get(block).annotations]
    if len(found) != 1:
        return None
    (product,) = found
    out = epilogue_of(sch, product)
    if out is None:
        return None
    if out is product:
        out = sch.cache_write(product, 0, "local")
    *_, output, vector, _ = sch.get_loops(product)
    turns = (loop_extent(sch, vector) or LANES) // LANES
    _, _, lane = sch.split(vector, [None, largest_divisor(turns, ASKED), LANES])
    partial = sch.rfactor(lane, 0)
    (total,) = sch.get_consumers(partial)
    *rows, output, turn, several, lane, element = sch.get_loops(partial)
    warps = largest_divisor(loop_extent(sch, output) or 1, WARPS)
    output, warp = sch.split(output, [None, warps])
    sch.reorder(*rows, output, warp, lane, turn, several, element)
    row = sch.fuse(*rows) if rows else sch.add_unit_loop(output)
    for loop, thread in ((row, "blockIdx.y"), (output, "blockIdx.x"), (warp, "threadIdx.y")):
        sch.bind(loop, thread)
    sch.bind(lane, "threadIdx.x")
    data, weights = sch.get_sblock(DATA), sch.cache_read(partial, 1, "local")
    sch.set_scope(data, 0, "local")
    for copy in (weights, data):
        # Unrolled, the loads of several vectors come before what is made of the first.
        sch.compute_at(copy, several, preserve_unit_loops=True)
        sch.vectorize(sch.get_loops(copy)[-1])
    for loop in (several, element):
        sch.unroll(loop)
    for block in (total, out):
        sch.reverse_compute_at(block, output, preserve_unit_loops=True)
    parts, *_, column = sch.get_loops(total)[2:]
    sch.reorder(column, parts)
    for loop, thread in ((column, "y"), (parts, "x"), (sch.get_loops(out)[-1], "y")):
        sch.bind(loop, f"threadIdx.{thread}")
    sch.decompose_reduction(partial, turn)
    sch.set_scope(partial, 0, "local")
    sch.set_scope(total, 0, "local")
    return sch
