"""Attention, two products with a softmax between them, in blocks of rows whose scores stay in the cache.

Scheduled one by one, they would write the scores of all rows to memory and read them back. Here one block of
rows after the other passes through the first product, row by row through all steps of the softmax, and
through the second product.
"""

from dataclasses import dataclass
from itertools import product
from math import ceil, prod
from typing import Any

from tvm import tirx
from tvm.s_tir import SBlockRealize, Schedule
from tvm_ffi import structural_map

from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.ir import conjunction, conjuncts, holds, loads_of, sequence, stored_by, substitute, uses
from topi_ext.processor import LINE_BYTES, Processor
from topi_ext.schedule.blocks import (
    SBlock,
    child_blocks,
    fuse_epilogue,
    inline_copies,
    loop_extent,
    open_schedule,
)
from topi_ext.schedule.cpu.loops import LEAST_VECTOR, arrange, arrange_block, finished
from topi_ext.schedule.cpu.product import (
    Tile,
    arrange_product,
    is_product,
    multiplies_pairs,
    multiplying,
    step_cycles,
    tiles,
)
from topi_ext.schedule.cpu.reductions import Arrangement
from topi_ext.schedule.cpu.rows import common_rows, inline_cheap
from topi_ext.schedule.cpu.rule import ProcessorRule
from topi_ext.schedule.nests import fused_loops, inside, nests_of, outer_loops, with_nests
from topi_ext.schedule.work import block_cycles

_WIDTH = 4
"""Bytes of an element."""

MOST_ROWS = 128
"""The largest block that is considered."""

FEWEST_ROWS = 8
"""The smallest block, even if its scores take more than their share of the cache."""

PRODUCTS = 2
"""Matrix products of an attention: scores, and the weighted sum of values."""


class Attention(ProcessorRule):
    """Schedules functions of two products, where rows of the second depend on the same rows of the first."""

    def schedule(self, func: tirx.PrimFunc, processor: Processor) -> Schedule | None:
        """None for symbolic rows, columns or depth, for fewer than 4 columns, and for any other function."""
        return _schedule(func, processor)


def _schedule(func: tirx.PrimFunc, processor: Processor) -> Schedule | None:
    sch = open_schedule(func)
    inline_copies(sch)
    products = [block for block in child_blocks(sch) if is_product(sch, block)]
    if len(products) != PRODUCTS:
        return None
    first, second = products
    (rows, scores, depth), (_, columns, _) = (_extents(sch, block) for block in products)
    if rows is None or scores is None or depth is None or columns is None:
        return None
    if min(scores, columns) < LEAST_VECTOR:
        return None
    around = fuse_epilogue(sch, second)
    made = sch.get(first).writes[0].source
    steps, apart = _made_of(sch, made, around.before)
    if around.after or not steps:
        return None
    lanes = processor.lanes(4)
    # The second product reads each of its rows many times.
    steps = [*inline_cheap(sch, steps[:-1], lanes), steps[-1]]
    batch = len(sch.get_loops(first)) - 3
    if common_rows(sch, steps) <= batch:
        return None
    images = prod(loop_extent(sch, loop) or 1 for loop in sch.get_loops(first)[:batch])
    pairs = all(multiplies_pairs(sch, block) for block in products)
    form = best_form(rows, scores, depth, columns, multiplying(processor, pairs=pairs), images)
    work = sum(block_cycles(sch, block, lanes) for block in (first, *steps, second))
    parallel = work > processor.parallel_cycles
    for block in apart:
        arrange_block(sch, block, lanes, processor.parallel_cycles)
    for block in steps:
        arrange(sch, block, Arrangement(lanes, parallel=False, rows=batch + 1))
    stored = arrange_product(sch, first, None, form.first, block_rows=form.rows)
    for block in (stored, steps[-1]):
        _spread_rows(sch, block)
    arrange_product(sch, second, around.epilogue, form.second, block_rows=form.rows)
    blocked = _by_blocks(sch.mod["main"], made, batch, (rows, form.rows), parallel)
    return open_schedule(finished(blocked))


def _extents(sch: Schedule, block: SBlock) -> list[int | None]:
    """Rows, columns and depth of a product; None for symbolic ones."""
    return [loop_extent(sch, loop) for loop in sch.get_loops(block)[-3:]]


def _made_of(sch: Schedule, buffer: Any, blocks: list[SBlock]) -> tuple[list[SBlock], list[SBlock]]:
    """Those of ``blocks`` that depend on ``buffer``, and the others but for the one that computes it."""
    made, needing, others = [buffer], [], []
    for block in blocks:
        node = sch.get(block)
        if node.writes[0].source.same_as(buffer):
            continue
        if any(holds(made, load.source) for load in loads_of(node.body)):
            needing.append(block)
            made.append(node.writes[0].source)
        else:
            others.append(block)
    return needing, others


@dataclass(frozen=True)
class Form:
    """Rows of a block, and the tiles of both products, whose rows divide them."""

    rows: int
    first: Tile
    second: Tile


def best_form(
    rows: int, scores: int, depth: int, columns: int, processor: Processor, images: int = 1
) -> Form:
    """The form with the fewest cycles for products and for reading their second operands.

    These operands are read from the second-level cache, a quarter of which is left to a block's scores: once
    per block if the columns of a tile fit the first-level cache, otherwise once per tile. ``images`` is the
    batch times the heads; threads share the blocks of all of them.
    """
    most = max(FEWEST_ROWS, processor.l2_bytes // (4 * scores * _WIDTH))

    def cycles(tile: Tile, height: int, extent: int, summed: int) -> float:
        """The cycles of one product, for a block of ``height`` rows."""
        panel = summed * tile.vectors * tile.lanes * _WIDTH
        times = 1 if panel <= processor.l1_bytes // 2 else height // tile.rows
        read = times * summed * extent * _WIDTH / processor.cache_bytes_per_cycle
        return summed * step_cycles(tile, height, extent, processor) + read

    def total(form: Form) -> float:
        both = cycles(form.first, form.rows, scores, depth), cycles(form.second, form.rows, columns, scores)
        return ceil(images * ceil(rows / form.rows) / processor.threads) * sum(both)

    forms = [
        Form(height, first, second)
        for height in range(1, min(rows, most, MOST_ROWS) + 1)
        for first, second in product(tiles(height, scores, processor), tiles(height, columns, processor))
        if height % first.rows == height % second.rows == 0
    ]
    # Of equal ones the larger tiles, which read less.
    return min(forms, key=lambda form: (total(form), -form.first.rows - form.second.rows))


def _spread_rows(sch: Schedule, block: SBlock) -> None:
    """Let rows of a block's result begin an odd number of cache lines apart.

    The tiles in a column store to many rows, which would all map to the same cache set for, say, 1024 scores.
    """
    line = LINE_BYTES // DTYPE_BYTES[str(sch.get(block).writes[0].source.dtype)]
    sch.storage_align(block, 0, -2, 2 * line, line)


def _by_blocks(
    func: tirx.PrimFunc, scores: Any, batch: int, all_and_own: tuple[int, int], parallel: bool
) -> tirx.PrimFunc:
    """The function with one loop over all blocks of rows, around everything that is done to a block.

    Whatever does not depend on ``scores``, the result of the first product, is computed before the loop.
    """
    apart, around, made = [], [], [scores]
    for nest in nests_of(func):
        stored = stored_by(nest)
        if holds(stored, scores) or any(holds(made, load.source) for load in loads_of(nest)):
            around.append(nest)
            made += stored
        else:
            apart.append(nest)
    first, *steps, second = around
    rows, block_rows = all_and_own
    loop, values = fused_loops(outer_loops(first, batch + 1), parallel)
    *images, block = values
    start = block * block_rows
    if rows % block_rows:
        # The last block is moved back to end with the rows; rows in two blocks are computed twice.
        start = tirx.min(start, rows - block_rows)
    row = tirx.Var("own_row", block.ty)
    own = sequence([inside(nest, [*images, start + row]) for nest in steps])
    each = tirx.For(row, tirx.const(0, row.ty.dtype), block_rows, tirx.ForKind.SERIAL, own)
    whole = sequence([_starting(first, images, start), each, _starting(second, images, start)])
    return with_nests(func, [*apart, loop(whole)])


def _starting(nest: Any, images: list[Any], start: Any) -> Any:
    """The nest of a product for the block of rows that begins at ``start``."""
    place = tirx.Var("block", start.ty)
    origin = {place: tirx.const(0, place.ty.dtype)}

    def on_block(realize: SBlockRealize) -> SBlockRealize:
        values = [
            substitute(value, origin) + start if uses(value, place) else value
            for value in realize.iter_values
        ]
        # All rows of the block exist.
        kept = [condition for condition in conjuncts(realize.predicate) if not uses(condition, place)]
        return SBlockRealize(values, conjunction(kept), realize.block)

    return structural_map(inside(nest, [*images, place]), (SBlockRealize, on_block))


__all__ = ["Attention", "Form", "best_form"]
