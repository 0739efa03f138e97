"""Nests of loops: around a block, and put into one where they begin with the same loops."""

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.s_tir import SBlock, SBlockRealize
from tvm.s_tir.analysis import get_sblock_read_write_region

from topi_ext.extents import fixed
from topi_ext.ir import changed, loads_of, sequence, stored_by, substitute


def nests_of(func: tirx.PrimFunc) -> list[Any]:
    """The loop nests of a scheduled function, one for each block that is not in the loops of another one."""
    body = func.body.block.body
    return list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]


def nested_block(nest: Any) -> SBlockRealize | None:
    """The block in a nest of loops around nothing else; None where that is none."""
    while isinstance(nest, tirx.For):
        nest = nest.body
    return nest if isinstance(nest, SBlockRealize) else None


def is_plain(block: SBlock) -> bool:
    """Are all axes of a block spatial, with ranges that begin at 0?"""
    return all(
        axis.iter_type == tirx.IterVar.DataPar and fixed(axis.dom.min) == 0 for axis in block.iter_vars
    )


def with_body(block: SBlock, axes: list[Any], body: Any, init: Any | None) -> SBlock:
    """The block with other axes and statements, and what these read and write; all else is as it was."""
    bare = SBlock(axes, [], [], block.name_hint, body, init)
    buffers = {one: one for one in (*(load.source for load in loads_of(body)), *stored_by(body))}
    reads, writes = get_sblock_read_write_region(bare, buffers)
    return changed(block, iter_vars=axes, reads=reads, writes=writes, body=body, init=init)


def nest_of(axes: list[Any], body: Any, name: str) -> tuple[SBlock, Any]:
    """A block with spatial ``axes`` with one statement, and the serial loops around it."""
    block = with_body(SBlock(axes, [], [], name, body), axes, body, None)
    return block, loops_around(block)


def loops_around(block: SBlock) -> Any:
    """A block in serial loops over its axes."""
    axes = block.iter_vars
    counters = [tirx.Var(f"{axis.var.name}_loop", axis.var.ty) for axis in axes]
    loops: Any = SBlockRealize(counters, tirx.const(True, "bool"), block)
    for counter, axis in zip(reversed(counters), reversed(axes), strict=True):
        loops = tirx.For(counter, axis.dom.min, axis.dom.extent, tirx.ForKind.SERIAL, loops)
    return loops


def with_nests(
    func: tirx.PrimFunc, nests: Sequence[Any], buffers: Sequence[Any] | None = None
) -> tirx.PrimFunc:
    """The function with other loop nests, and with other intermediate buffers if ``buffers`` are given."""
    realize, root = func.body, func.body.block
    kept = root.alloc_buffers if buffers is None else buffers
    block = changed(root, body=sequence(nests), alloc_buffers=kept)
    return func.with_body(SBlockRealize(realize.iter_values, realize.predicate, block))


def one_loop(func: tirx.PrimFunc, count: int, parallel: bool) -> tirx.PrimFunc:
    """The function with one loop in place of the ``count`` outer loops that all its nests share."""
    nests = nests_of(func)
    loop, values = fused_loops(outer_loops(nests[0], count), parallel)
    return with_nests(func, [loop(sequence([inside(nest, values) for nest in nests]))])


def fused_loops(loops: list[tirx.For], parallel: bool) -> tuple[Any, list[Any]]:
    """A function from a body to one loop over the index space of ``loops``, and the values of their
    variables in it.
    """
    count = loops[0].extent
    for each in loops[1:]:
        count = count * each.extent
    row = tirx.Var("row", loops[0].loop_var.ty)
    values, inner = [], row
    for each in reversed(loops[1:]):
        values.append(tirx.floormod(inner, each.extent))
        inner = tirx.floordiv(inner, each.extent)
    kind = tirx.ForKind.PARALLEL if parallel else tirx.ForKind.SERIAL

    def loop(body: Any) -> tirx.For:
        return tirx.For(row, tirx.const(0, row.ty.dtype), count, kind, body)

    return loop, [inner, *reversed(values)]


def inside(nest: Any, values: list[Any]) -> Any:
    """The body of a nest inside its outer loops, at these values of their variables."""
    loops = outer_loops(nest, len(values))
    return substitute(
        loops[-1].body, {loop.loop_var: value for loop, value in zip(loops, values, strict=True)}
    )


def outer_loops(nest: Any, count: int) -> list[tirx.For]:
    """The ``count`` outer loops of a nest; RuntimeError if it has fewer."""
    loops: list[tirx.For] = []
    while len(loops) < count:
        if not isinstance(nest, tirx.For) or nest.kind != tirx.ForKind.SERIAL:
            raise RuntimeError("a block has lost its loops over rows")
        loops.append(nest)
        nest = nest.body
    return loops
