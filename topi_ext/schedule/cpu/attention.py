"""Attention, two products with a softmax between them, in blocks of rows whose scores stay in the cache.

Scheduled one by one, they would write the scores of all rows to memory and read them back. Here one block of
rows after the other passes through the first product, row by row through all steps of the softmax, and
through the second product.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from math import ceil, prod
from typing import Any

from tvm import tirx
from tvm.s_tir import SBlockRealize, Schedule
from tvm_ffi import structural_map

from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.extents import fixed
from topi_ext.ir import conjunction, conjuncts, holds, loads_of, sequence, stored_by, substitute, uses
from topi_ext.machine.processor import LAST_CACHE_BYTES, LINE_BYTES, Processor
from topi_ext.schedule.blocks import (
    SBlock,
    child_blocks,
    fuse_epilogue,
    inline_copies,
    loop_extent,
    open_schedule,
)
from topi_ext.schedule.cpu.loops import LEAST_VECTOR, arrange, arrange_block, finished, with_plain_loops
from topi_ext.schedule.cpu.product import (
    USUAL_EXTENT,
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
from topi_ext.schedule.dynamic_tiles import either, with_known_tiles, with_short_temporaries
from topi_ext.schedule.named_extents import with_named_extents
from topi_ext.schedule.nests import fused_loops, inside, nests_of, outer_loops, with_nests
from topi_ext.schedule.work import block_cycles

_WIDTH = 4
"""Bytes of an element."""

MOST_ROWS = 128
"""The largest block that is considered."""

ROWS_OF_ANY_SIZE = {1: 1, 8: 8, 16: 16, 32: 512}
"""Rows of a block where their number is not known, and from how many rows on: the last block may compute most
of its rows for the second time.
"""

MANY_ROWS = 4096
"""From so many rows on, blocks of any height are considered where their number is not known: what each block
reads again may not stay in a cache."""

PACKED_FROM = 1000
"""Rows from which on second operands are packed. Measured on a Zen 5: 256 by 64 gain nothing, 1024 by 64 and
4096 by 64 are done in 0.95 and 0.92 of the time, 4096 by 512 in 0.7."""

_NEAR_BYTES_PER_CYCLE = 32
"""From the second-level cache, of what is read for every tile of rows of a block."""

_TILED = "topi_ext.tiled_attention"
"""Annotation of the blocks that write the accumulators of a tile."""

PRODUCTS = 2
"""Matrix products of an attention: scores, and the weighted sum of values."""


class Attention(ProcessorRule):
    """Schedules functions of two products, where rows of the second depend on the same rows of the first."""

    def schedule(self, func: tirx.PrimFunc, processor: Processor) -> Schedule | None:
        """None for a symbolic depth or width of the values, for fewer than 4 columns, and for any other
        function.
        """
        found = _Attention.of(func, processor)
        if found is None:
            return None
        rows, scores, depth, columns = found.extents
        if depth is None or columns is None or columns < LEAST_VECTOR:
            return None
        if rows is None or scores is None:
            forms = forms_of_any_size(depth, columns, found.multiplying())
            return open_schedule(_of_any_size(func, forms, processor))
        if scores < LEAST_VECTOR:
            return None
        form = best_form(rows, scores, depth, columns, found.multiplying(), found.images)
        return open_schedule(found.by_blocks(form, rows))


@dataclass(frozen=True)
class _Attention:
    """The blocks of an attention in a schedule of its own: the two products, the steps between them, and what
    is ``apart`` because it depends on no score.
    """

    sch: Schedule
    processor: Processor
    first: SBlock
    steps: list[SBlock]
    second: SBlock
    epilogue: SBlock | None
    apart: list[SBlock]

    @classmethod
    def of(cls, func: tirx.PrimFunc, processor: Processor) -> "_Attention | None":
        """None for other functions."""
        sch = open_schedule(func)
        inline_copies(sch)
        products = [block for block in child_blocks(sch) if is_product(sch, block)]
        if len(products) != PRODUCTS:
            return None
        first, second = products
        around = fuse_epilogue(sch, second)
        steps, apart = _made_of(sch, sch.get(first).writes[0].source, around.before)
        if around.after or not steps:
            return None
        # The second product reads each of its rows many times.
        steps = [*inline_cheap(sch, steps[:-1], processor.lanes(4)), steps[-1]]
        found = cls(sch, processor, first, steps, second, around.epilogue, apart)
        return found if common_rows(sch, steps) > found.batch else None

    @property
    def extents(self) -> tuple[int | None, int | None, int | None, int | None]:
        """Rows, scores of a row, depth, and columns of the result; None for symbolic ones."""
        (rows, scores, depth), (_, columns, _) = (
            [loop_extent(self.sch, loop) for loop in self.sch.get_loops(block)[-3:]]
            for block in (self.first, self.second)
        )
        return rows, scores, depth, columns

    @property
    def batch(self) -> int:
        """How many axes of both products are before their rows."""
        return len(self.sch.get_loops(self.first)) - 3

    @property
    def images(self) -> int:
        """How many matrices are multiplied; symbolic extents count as one."""
        loops = self.sch.get_loops(self.first)[: self.batch]
        return prod(loop_extent(self.sch, loop) or 1 for loop in loops)

    def multiplying(self) -> Processor:
        """The processor as the products see it."""
        pairs = all(multiplies_pairs(self.sch, block) for block in (self.first, self.second))
        return multiplying(self.processor, pairs=pairs)

    def by_blocks(self, form: "Form", least_rows: int) -> tirx.PrimFunc:
        """The function in blocks of rows, of which there are at least so many; once, because it uses up the
        schedule.
        """
        sch, lanes = self.sch, self.processor.lanes(4)
        batch, made = self.batch, sch.get(self.first).writes[0].source
        symbolic = None in self.extents
        work = sum(block_cycles(sch, block, lanes) for block in (self.first, *self.steps, self.second))
        parallel = work > self.processor.parallel_cycles
        if least_rows >= PACKED_FROM:
            self._pack(self.first, form.first)
            self._pack(self.second, form.second)
        for block in self.apart:
            arrange_block(sch, block, lanes, self.processor.parallel_cycles)
        for block in self.steps:
            width = form.first.lanes if symbolic else lanes
            arrange(sch, block, Arrangement(width, parallel=False, rows=batch + 1, symbolic_rows=symbolic))
        for block in (self.first, self.second):
            sch.annotate(block, _TILED, 1)
        stored = arrange_product(sch, self.first, None, form.first, block_rows=form.rows)
        for block in (stored, self.steps[-1]):
            _spread_rows(sch, block)
        arrange_product(sch, self.second, self.epilogue, form.second, block_rows=form.rows)
        func = with_known_tiles(sch.mod["main"], _TILED) if symbolic else sch.mod["main"]
        return finished(_by_blocks(func, made, batch, form.rows, parallel))

    def _pack(self, product: SBlock, tile: "Tile") -> None:
        """Let tiles read the second operand of a product from a copy in which what one reads is one run.

        In the operand itself that is a cache line here and there, further apart than what the processor asks
        for ahead. None where the last tile overlaps the one before, and of a product by itself.
        """
        sch, width = self.sch, tile.vectors * tile.lanes
        columns = loop_extent(sch, sch.get_loops(product)[-2])
        if columns is None or columns % width or columns == width or len(sch.get(product).reads) < 2:
            return
        copy = sch.cache_read(product, 1, "global")
        sch.transform_layout(
            copy,
            ("write", 0),
            lambda *place: [*place[:-2], place[-1] // width, place[-2], place[-1] % width],
        )
        self.apart.append(copy)


def _of_any_size(
    func: tirx.PrimFunc, forms: Iterable[tuple[int, "Form"]], processor: Processor
) -> tirx.PrimFunc:
    """The function for any number of rows and of scores, which takes the last of ``forms`` that fits; each is
    for so many rows on.
    """
    plain = with_named_extents(func)

    def attention() -> _Attention:
        found = _Attention.of(plain, processor)
        if found is None:
            raise RuntimeError("an attention is none any more with names for its extents")
        return found

    found = attention()
    rows, scores = (found.sch.get(loop).extent for loop in found.sch.get_loops(found.first)[-3:-1])
    if (fixed(scores) or 0) >= LEAST_VECTOR:
        (least_rows, first), *more = forms
        whole = attention().by_blocks(first, least_rows)
    else:
        # Fewer scores than a vector has are for plain loops.
        more = list(forms)
        whole = with_short_temporaries(with_plain_loops(plain, processor), scores, LEAST_VECTOR - 1)
    for least_rows, form in more:
        fits = tirx.all(rows >= least_rows, scores >= form.first.vectors * form.first.lanes)
        whole = either(fits, attention().by_blocks(form, least_rows), whole)
    return whole


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
    rows: int,
    scores: int,
    depth: int,
    columns: int,
    processor: Processor,
    images: int = 1,
    heights: Iterable[int] | None = None,
) -> Form:
    """The form with the fewest cycles for products, for reading their second operands, and for scores that do
    not stay in the second-level cache.

    A quarter of this cache is left to a block's scores. Second operands are read once per block from beyond
    it, and again for each tile of rows where the columns of a tile do not fit the first-level cache.
    ``images`` is the batch times the heads; threads share the blocks of all of them. ``heights`` are the rows
    of blocks that are considered.
    """

    def cycles(tile: Tile, height: int, extent: int, summed: int) -> float:
        """The cycles of one product, for a block of ``height`` rows."""
        panel, operand = summed * tile.vectors * tile.lanes * _WIDTH, summed * extent * _WIDTH
        again = 0 if panel <= processor.l1_bytes // 2 else height // tile.rows - 1
        near = panel <= processor.l2_bytes // 2
        read = operand / rate(operand) + again * operand / (_NEAR_BYTES_PER_CYCLE if near else rate(operand))
        return summed * step_cycles(tile, height, extent, processor) + read

    def rate(size: int) -> float:
        """Bytes per cycle at which ``size`` bytes are read again and again."""
        within = size <= LAST_CACHE_BYTES
        return processor.cache_bytes_per_cycle if within else processor.memory_bytes_per_cycle

    def spilled(form: Form) -> float:
        """The cycles to write a block's scores, to change them, and to read them for each column of tiles."""
        size = form.rows * scores * _WIDTH
        if size <= processor.l2_bytes // 4:
            return 0.0
        times = 3 + ceil(columns / (form.second.vectors * form.second.lanes))
        return times * size / rate(processor.threads * size)

    def total(form: Form) -> float:
        both = cycles(form.first, form.rows, scores, depth), cycles(form.second, form.rows, columns, scores)
        return ceil(images * ceil(rows / form.rows) / processor.threads) * (sum(both) + spilled(form))

    forms = [
        Form(height, first, second)
        for height in heights or range(1, min(rows, MOST_ROWS) + 1)
        for first, second in product(tiles(height, scores, processor), tiles(height, columns, processor))
        if height % first.rows == height % second.rows == 0
    ]
    # Of equal ones the larger tiles, which read less.
    return min(forms, key=lambda form: (total(form), -form.first.rows - form.second.rows))


def forms_of_any_size(depth: int, columns: int, processor: Processor) -> list[tuple[int, Form]]:
    """Forms for an unknown number of rows and of scores, each with the fewest rows that it is for, those of
    fewer rows and scores first.
    """
    usual = dict.fromkeys(ROWS_OF_ANY_SIZE, USUAL_EXTENT) | {1: LEAST_VECTOR, 8: processor.lanes(4)}
    forms = [
        (least_rows, best_form(height, usual[height], depth, columns, processor, heights=[height]))
        for height, least_rows in ROWS_OF_ANY_SIZE.items()
    ]
    return [*forms, (MANY_ROWS, best_form(MANY_ROWS, MANY_ROWS, depth, columns, processor))]


def _spread_rows(sch: Schedule, block: SBlock) -> None:
    """Let rows of a block's result begin an odd number of cache lines apart.

    The tiles in a column store to many rows, which would all map to the same cache set for, say, 1024 scores.
    """
    line = LINE_BYTES // DTYPE_BYTES[str(sch.get(block).writes[0].source.dtype)]
    sch.storage_align(block, 0, -2, 2 * line, line)


def _by_blocks(
    func: tirx.PrimFunc, scores: Any, batch: int, block_rows: int, parallel: bool
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
    loop, values = fused_loops(outer_loops(first, batch + 1), parallel)
    *images, block = values
    start = block * block_rows
    rows = scores.shape[-2]
    known = fixed(rows)
    if known is None or known % block_rows:
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
