"""Sums that start from the bias instead of zero, for short reductions.

Of a depthwise convolution each sum is nine products, so setting it to zero and adding the bias afterwards are
a seventh of the arithmetic. A sum that starts from the bias needs neither, provided that the bias is loaded
into its register: a copy from another register is an operation of the vector units as well. Compilers load
once and copy, so the bias is kept in a buffer of its own, in the scope :data:`.START`, which on processors
where a load is cheaper is read again for each sum (:mod:`topi_ext.codegen.build`).
"""

from typing import Any

from tvm import tirx
from tvm.ir import Range, TensorLoad
from tvm.s_tir import SBlock as Block
from tvm.s_tir import SBlockRealize, Schedule
from tvm_ffi import structural_equal, structural_map, structural_walk

from topi_ext.codegen.scopes import START
from topi_ext.ir import holds, loads_of, nodes_of, substitute, uses
from topi_ext.schedule.blocks import SBlock


def keep_start(sch: Schedule, anchor: SBlock, epilogue: SBlock, place: Any, moving: list[bool]) -> None:
    """Copy what ``epilogue`` adds to the anchor's sums to a buffer of its own in the loop ``place``.

    ``moving`` says of the axes of both blocks which of them vary within ``place``. Nothing happens where the
    epilogue reads sums other than to add the same element, which must not depend on those axes. Once the
    reduction is decomposed and tiles overlap, :func:`apply_start` makes the sums start from the buffer.
    """
    sums = sch.get(anchor).writes[0].source
    node = sch.get(epilogue)
    addend = _addend(node, sums)
    axes = [axis.var for axis, moves in zip(node.iter_vars, moving, strict=True) if moves]
    if addend is None or any(uses(index, axis) for index in addend.indices for axis in axes):
        return
    read = [region.source.same_as(addend.source) for region in node.reads].index(True)
    start = sch.cache_read(epilogue, read, START)
    sch.compute_at(start, place, preserve_unit_loops=True)
    sch.vectorize(sch.get_loops(start)[-1])


def apply_start(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Start the sums of a scheduled function from the buffer that :func:`keep_start` has made, if any."""
    blocks = [realize.block for realize in nodes_of(func.body, SBlockRealize)]
    epilogue = next((block for block in blocks if any(_is_start(region) for region in block.reads)), None)
    if epilogue is None:
        return func
    start = next(region.source for region in epilogue.reads if _is_start(region))
    inputs = [region.source for region in epilogue.reads]
    zero = next(block for block in blocks if not block.reads and holds(inputs, block.writes[0].source))
    sums = zero.writes[0].source
    addend = _addend(epilogue, sums)
    assert addend is not None
    same = {own.var: other.var for own, other in zip(epilogue.iter_vars, zero.iter_vars, strict=True)}
    index = [substitute(place, same) for place in addend.indices]

    def on_add(add: tirx.Add) -> Any:
        pairs = ((add.a, add.b), (add.b, add.a))
        return next((side for side, other in pairs if _loads(side, sums) and _loads(other, start)), add)

    def on_block(block: Block) -> Block:
        if block.same_as(zero):
            reads = [tirx.BufferRegion(start, [Range.from_min_extent(place, 1) for place in index])]
            body = tirx.BufferStore(sums, tirx.BufferLoad(start, index), block.body.indices)
            return _replaced(block, reads, body)
        if block.same_as(epilogue):
            reads = [region for region in block.reads if not _is_start(region)]
            return _replaced(block, reads, structural_map(block.body, (tirx.Add, on_add)))
        return block

    return func.with_body(structural_map(func.body, (Block, on_block)))


def _addend(block: Any, sums: Any) -> TensorLoad | None:
    """The one element that ``block`` adds to every load of ``sums``; None if it does anything else with
    them.
    """
    sides: list[tuple[Any, Any]] = []
    structural_walk(block.body, (tirx.Add, lambda add: sides.extend([(add.a, add.b), (add.b, add.a)])))
    found = [other for side, other in sides if _loads(side, sums)]
    loads = loads_of(block.body)
    read = sum(load.source.same_as(sums) for load in loads)
    if not found or read != len(found) or not isinstance(found[0], TensorLoad):
        return None
    first = found[0]
    others = [load for load in loads if load.source.same_as(first.source)]
    alone = len(others) == len(found) and not first.source.same_as(sums)
    return first if alone and all(structural_equal(first, other) for other in found) else None


def _loads(expression: Any, buffer: Any) -> bool:
    return isinstance(expression, TensorLoad) and expression.source.same_as(buffer)


def _is_start(region: Any) -> bool:
    return bool(region.source.scope() == START)


def _replaced(block: Block, reads: list[Any], body: Any) -> Block:
    """The block with another body and the regions ``reads`` that it reads."""
    return Block(block.iter_vars, reads, block.writes, block.name_hint, body, annotations=block.annotations)
