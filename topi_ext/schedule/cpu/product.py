"""Products of two activations, such as attention's: a register tile of rows by vectors of columns.

Products by constant weights are lowered as convolutions; here no operand can be packed at compile time.
In bfloat16 the second operand is read in words of two rows (:mod:`topi_ext.compute.pair_product`), bytes in
words of four (:mod:`topi_ext.compute.byte_product`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, prod
from typing import Any

from tvm import tirx
from tvm.ir import Call, TensorLoad
from tvm.s_tir import Schedule
from tvm_ffi import structural_equal

from topi_ext.codegen.dot_products import is_dot, operands
from topi_ext.extents import fixed
from topi_ext.ir import IF_THEN_ELSE, loads_of, nodes_of, uses
from topi_ext.machine.processor import Processor
from topi_ext.schedule.blocks import (
    SBlock,
    child_blocks,
    fuse_epilogue,
    fusible,
    inline_copies,
    is_reduction,
    loop_extent,
    open_schedule,
)
from topi_ext.schedule.cpu.loops import LEAST_VECTOR, arrange_block, arrange_loops, finished, with_plain_loops
from topi_ext.schedule.cpu.rule import ProcessorRule
from topi_ext.schedule.dynamic_tiles import either, with_known_tiles
from topi_ext.schedule.loop_peeling import mark_peeled
from topi_ext.schedule.overlap import overlap_tail
from topi_ext.schedule.work import block_cycles

_SUMMED = {"float32": 4, "float64": 8, "int32": 4}
"""Types of what is summed, and their bytes."""

_TILED = "topi_ext.tiled_product"
"""Annotation of the block that writes the accumulators of a tile."""

USUAL_EXTENT = 256
"""Rows or columns that are assumed when choosing tiles, where the number is not known."""

_FEW_ROWS = 8
"""Rows of the tile, one vector wide, for matrices that are smaller than the chosen tile."""

_ENOUGH = 4
"""Images from which on threads share these, rather than the rows of each."""

MOST_VECTORS, MOST_ROWS = 4, 16
"""The largest tile that is considered."""


class Product(ProcessorRule):
    """Schedules ``C[..., m, n] = sum over k of A[..., m, k] * B[..., k, n]``, in float32, float64,
    int32, bfloat16 or bytes.
    """

    def schedule(self, func: tirx.PrimFunc, processor: Processor) -> Schedule | None:
        """None for fewer than 4 columns, and for any other function."""
        sch = open_schedule(func)
        anchor = _product_in(sch)
        if anchor is None:
            return None
        extents = [loop_extent(sch, loop) for loop in sch.get_loops(anchor)[-3:-1]]
        rows, columns = (USUAL_EXTENT if extent is None else extent for extent in extents)
        if columns < LEAST_VECTOR:
            return None
        size = _SUMMED[sch.get(anchor).body.buffer.dtype]
        tile = best_tile(rows, columns, multiplying(processor, pairs=multiplies_pairs(sch, anchor)), size)
        if None not in extents:
            return open_schedule(_arranged(sch, anchor, tile, processor))
        return open_schedule(_of_any_size(func, tile, processor))


def _product_in(sch: Schedule) -> SBlock | None:
    """The first block that is a product, after blocks that only copy have been inlined."""
    inline_copies(sch)
    return next((block for block in child_blocks(sch) if is_product(sch, block)), None)


def _arranged(sch: Schedule, anchor: SBlock, tile: "Tile", processor: Processor) -> tirx.PrimFunc:
    """The function with its product in tiles, and the blocks before and after it vectorised."""
    sch.annotate(anchor, _TILED, 1)
    around = fuse_epilogue(sch, anchor)
    parallel = block_cycles(sch, anchor, tile.lanes) > processor.parallel_cycles
    arrange_product(sch, anchor, around.epilogue, tile, parallel=parallel)
    for block in around.before:
        arrange_block(sch, block, tile.lanes, processor.parallel_cycles)
    arrange_loops(sch, around.after, tile.lanes, processor.parallel_cycles)
    return finished(sch.mod["main"])


def _of_any_size(func: tirx.PrimFunc, tile: "Tile", processor: Processor) -> tirx.PrimFunc:
    """The function for any number of rows and columns, which takes the largest tile that fits these."""
    sch = open_schedule(func)
    rows, columns = (sch.get(loop).extent for loop in sch.get_loops(_product_in(sch))[-3:-1])

    def tiled(each: Tile) -> tirx.PrimFunc:
        sch = open_schedule(func)
        return with_known_tiles(_arranged(sch, _product_in(sch), each, processor), _TILED)

    whole = tiled(Tile(1, 1, tile.lanes))
    if fixed(columns) is None:
        whole = either(columns >= tile.lanes, whole, with_plain_loops(func, processor))
    for each in dict.fromkeys((Tile(min(tile.rows, _FEW_ROWS), 1, tile.lanes), tile)):
        fits = tirx.all(rows >= each.rows, columns >= each.vectors * each.lanes)
        whole = either(fits, tiled(each), whole)
    return whole


@dataclass(frozen=True)
class Tile:
    """Accumulators: ``rows`` by ``vectors`` of columns, each of so many ``lanes``."""

    rows: int
    vectors: int
    lanes: int


def best_tile(rows: int, columns: int, processor: Processor, size: int = 4) -> Tile:
    """The tile of elements of ``size`` bytes with the fewest cycles; among equals, the one that loads
    least.
    """

    def cost(tile: Tile) -> tuple[float, float]:
        cycles = step_cycles(tile, rows, columns, processor, size)
        return cycles, (tile.rows + tile.vectors) / (tile.rows * tile.vectors)

    return min(tiles(rows, columns, processor, size), key=cost)


def multiplying(processor: Processor, *, pairs: bool) -> Processor:
    """The processor as products see it: for ``pairs``, its pair instructions stand for multiply-adds."""
    if not pairs:
        return processor
    rate = processor.fma_per_cycle // max(1, processor.bfloat16_instructions)
    return replace(processor, fma_per_cycle=max(1, rate), fma_latency=processor.bfloat16_latency)


def tiles(rows: int, columns: int, processor: Processor, size: int = 4) -> list[Tile]:
    """All tiles whose accumulators fit the registers; vectors are as long as registers, or as columns allow.

    One register is left for each vector of a row of B, and one for the element of A that is broadcast.
    """
    lanes = min(processor.lanes(size), 1 << (columns.bit_length() - 1))
    registers = processor.vector_registers - processor.registers_in_flight
    return [
        Tile(height, vectors, lanes)
        for vectors, height in product(range(1, MOST_VECTORS + 1), range(1, MOST_ROWS + 1))
        if height <= rows and vectors * lanes <= columns and height * vectors + vectors + 1 <= registers
    ]


def step_cycles(tile: Tile, rows: int, columns: int, processor: Processor, size: int = 4) -> float:
    """Cycles of all tiles for one step along the depth, with overlaps, loads and latency counted."""
    count = ceil(rows / tile.rows) * ceil(columns / (tile.vectors * tile.lanes))
    passes = processor.passes(tile.lanes * size)
    loads = (tile.rows + passes * tile.vectors) / processor.loads_per_cycle
    products = passes * tile.rows * tile.vectors / processor.fma_per_cycle
    return count * max(products, loads, processor.fma_latency)


def arrange_product(
    sch: Schedule,
    anchor: SBlock,
    epilogue: SBlock | None,
    tile: Tile,
    *,
    block_rows: int | None = None,
    parallel: bool = False,
) -> SBlock:
    """Arrange the loops of a product and of its elementwise ``epilogue``; return the block that stores.

    The outer loop runs over the batch and tiles of rows, on all threads if ``parallel``. With ``block_rows``,
    a multiple of the tile's rows, it runs over blocks of rows instead, inside the loops over the batch, and
    around that over columns. The last block may then overrun the rows; the caller must move it back.
    """
    if epilogue is None:
        epilogue = sch.cache_write(anchor, 0, "global")
    *batch, row, column, depth = sch.get_loops(anchor)
    rows_are_known = loop_extent(sch, row) is not None
    # Where the numbers are not known, the last tile may have to be moved back.
    rows, columns = loop_extent(sch, row) or 1, loop_extent(sch, column) or 1
    column, vector, lane = sch.split(column, [None, tile.vectors, tile.lanes])
    if block_rows is None:
        row, tile_row = sch.split(row, [None, tile.rows])
        sch.reorder(*batch, row, column, depth, tile_row, vector, lane)
        outer, place = row, column
        if rows_are_known:
            outer = sch.fuse(*batch, row) if batch else row
        if parallel:
            sch.parallel(outer if rows_are_known else _shared(sch, batch, row))
    else:
        factors = [None, block_rows // tile.rows, tile.rows]
        outer, place, tile_row = sch.split(row, factors, disable_predication=True)
        sch.reorder(*batch, outer, column, place, depth, tile_row, vector, lane)
    sch.reverse_compute_at(epilogue, place, preserve_unit_loops=True)
    own_row, run = sch.get_loops(epilogue)[-2:]
    own_vector, own_lane = sch.split(run, [None, tile.lanes])
    for loop in (tile_row, vector, own_row, own_vector):
        sch.unroll(loop)
    for loop in (lane, own_lane):
        sch.vectorize(loop)
    if _has_conditions(sch, anchor):
        mark_peeled(sch, depth)
    sch.decompose_reduction(anchor, depth)
    if block_rows is None and rows % tile.rows:
        overlap_tail(sch, outer)
    if columns % (tile.vectors * tile.lanes):
        overlap_tail(sch, column)
    return epilogue


def _shared(sch: Schedule, batch: list[Any], row: Any) -> Any:
    """The loop that threads share where the number of rows is not known, without dividing by that number."""
    extents = [loop_extent(sch, loop) for loop in batch]
    enough = None in extents or prod(extent or 1 for extent in extents) >= _ENOUGH
    return sch.fuse(*fusible(sch, batch)) if batch and enough else row


def is_product(sch: Schedule, block: SBlock) -> bool:
    """Is a block a product whose second operand and result have the columns innermost?

    It multiplies numbers of one type, or pairs of bfloat16 or four bytes that lie in words of the second
    operand.
    """
    if not is_reduction(sch, block):
        return False
    node = sch.get(block)
    axes = [axis.var for axis in node.iter_vars]
    kinds = [axis.iter_type for axis in node.iter_vars]
    if len(axes) < 3 or kinds != [tirx.IterVar.DataPar] * (len(axes) - 1) + [tirx.IterVar.CommReduce]:
        return False
    if len(sch.get_loops(block)) != len(axes) or not isinstance(node.body, tirx.BufferStore):
        return False
    store = node.body
    if not isinstance(store.value, tirx.Add) or store.buffer.dtype not in _SUMMED:
        return False
    if not all(index.same_as(axis) for index, axis in zip(store.indices, axes[:-1], strict=True)):
        return False
    return _multiplies(store.value.b, axes[-3:], str(store.buffer.dtype))


def _multiplies(added: Any, axes: Sequence[tirx.Var], dtype: str) -> bool:
    """Is an element of a row multiplied by one of a column, or several by those of a word?"""
    row, column, depth = axes
    if is_dot(added):
        values, factors = ([_only_load(element) for element in side] for side in operands(added))
    elif isinstance(added, tirx.Mul):
        values, factors = ([_load_of(side, dtype)] for side in (added.a, added.b))
    else:
        return False
    pairs = [(load, (row, depth * len(values) + place)) for place, load in enumerate(values)]
    pairs += [(load, (depth, column)) for load in factors]
    return all(load is not None and _is_over(load, last, axes) for load, last in pairs)


def _has_conditions(sch: Schedule, anchor: SBlock) -> bool:
    """Is the last pair of an odd depth treated differently from the others?"""
    return any(call.op.name == IF_THEN_ELSE for call in nodes_of(sch.get(anchor).body, Call))


def _load_of(element: Any, dtype: str) -> Any:
    return element if isinstance(element, TensorLoad) and element.source.dtype == dtype else None


def _only_load(element: Any) -> Any:
    """The only load in an expression; None if there are none or several."""
    loads = loads_of(element)
    return loads[0] if len(loads) == 1 else None


def multiplies_pairs(sch: Schedule, block: SBlock) -> bool:
    """Does a block add dot products of pairs of bfloat16?"""
    store = sch.get(block).body
    if not isinstance(store, tirx.BufferStore) or not isinstance(store.value, tirx.Add):
        return False
    return is_dot(store.value.b) and str(store.buffer.dtype) == "float32"


def _is_over(load: Any, last: tuple[Any, Any], axes: Sequence[tirx.Var]) -> bool:
    """Are an operand's last two indices ``last``, while the ones before use none of ``axes``?"""
    *image, inner, innermost = load.indices if len(load.indices) > 1 else (None, None)
    return all(map(structural_equal, (inner, innermost), last)) and not any(
        uses(index, axis) for index in image for axis in axes
    )
