"""Two products with a softmax between them, as of attention: blocks of rows, whose scores stay in the cache.

Each by itself would write the scores of all rows to memory and read them again. Here a block of rows is taken
through the first product, each of its rows through all steps of the softmax, and the block through the second
product, before the next one.
"""

from dataclasses import dataclass
from itertools import product
from math import ceil, prod
from typing import Any

from tvm import tirx
from tvm.s_tir import SBlockRealize, Schedule
from tvm_ffi import structural_map

from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.ir import conjuncts, holds, loads_of, sequence, stored_by, substitute, uses
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
"""Rows of a block that are considered."""

FEWEST_ROWS = 8
"""Rows that a block has even if their scores take more of the cache than they should."""

PRODUCTS = 2

_ALWAYS = tirx.const(True, "bool")


class Attention(ProcessorRule):
    """Schedules functions of two products, of which the second one's rows are made of the first one's."""

    def schedule(self, func: tirx.PrimFunc, processor: Processor) -> Schedule | None:
        """None for symbolic rows, columns and depths, fewer than 4 columns, and what is no such pair."""
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
    """Rows, columns and depth of a product."""
    return [loop_extent(sch, loop) for loop in sch.get_loops(block)[-3:]]


def _made_of(sch: Schedule, buffer: Any, blocks: list[SBlock]) -> tuple[list[SBlock], list[SBlock]]:
    """Which of ``blocks`` need ``buffer``, and which others there are beside the one that computes it."""
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
    """The form by which all blocks take fewest cycles: of products, and of reading their second operands.

    These come from the second-level cache, of which a block's scores take no more than a quarter: once for
    each block where the columns of a tile stay in the first-level cache, and else for each of its tiles.
    ``images`` are the batch and the heads; threads share the blocks of all.
    """
    most = max(FEWEST_ROWS, processor.l2_bytes // (4 * scores * _WIDTH))

    def cycles(tile: Tile, height: int, extent: int, summed: int) -> float:
        """Of one product of a block of ``height`` rows."""
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

    A column of tiles stores to as many rows; of 1024 scores these would all meet in one set of the cache.
    """
    line = LINE_BYTES // DTYPE_BYTES[str(sch.get(block).writes[0].source.dtype)]
    sch.storage_align(block, 0, -2, 2 * line, line)


def _by_blocks(
    func: tirx.PrimFunc, scores: Any, batch: int, all_and_own: tuple[int, int], parallel: bool
) -> tirx.PrimFunc:
    """The function with one loop over all blocks of rows around what is done to each.

    What does not need ``scores``, the first product's result, comes before.
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
        # The last block ends with the rows: what two blocks share is computed twice.
        start = tirx.min(start, rows - block_rows)
    row = tirx.Var("own_row", block.ty)
    own = sequence([inside(nest, [*images, start + row]) for nest in steps])
    each = tirx.For(row, tirx.const(0, row.ty.dtype), block_rows, tirx.ForKind.SERIAL, own)
    whole = sequence([_starting(first, images, start), each, _starting(second, images, start)])
    return with_nests(func, [*apart, loop(whole)])


def _starting(nest: Any, images: list[Any], start: Any) -> Any:
    """What a product does to the block of rows that begins at ``start``."""
    place = tirx.Var("block", start.ty)
    origin = {place: tirx.const(0, place.ty.dtype)}

    def on_block(realize: SBlockRealize) -> SBlockRealize:
        values = [
            substitute(value, origin) + start if uses(value, place) else value
            for value in realize.iter_values
        ]
        # All rows of the block exist.
        kept = [condition for condition in conjuncts(realize.predicate) if not uses(condition, place)]
        return SBlockRealize(values, tirx.all(*kept) if kept else _ALWAYS, realize.block)

    return structural_map(inside(nest, [*images, place]), (SBlockRealize, on_block))


__all__ = ["Attention", "Form", "best_form"]
