"""Software prefetch of weights that come from memory, one panel ahead.

A network's weights do not stay in the cache from one run to the next, and the hardware's prefetchers stop
at the end of each page.
"""

from typing import Any

from tvm import tirx
from tvm.ir import Call, TensorLoad
from tvm.s_tir import SBlockRealize, Schedule

from topi_ext.codegen.dot_products import is_dot
from topi_ext.ir import loads_of, nodes_of, substitute, unmarked, with_loops
from topi_ext.machine.processor import LINE_BYTES

PREFETCH = "topi_ext.prefetch"
"""Loop annotation: how many rows ahead weights are asked for, in how many streams, and rows of a step."""

_READ, _KEEP_IN_L2, _DATA = 0, 2, 1
"""Operands of LLVM's prefetch: for reading, with moderate locality, into a data cache."""


PANEL_BYTES = 256 << 10
"""A longer panel would push out of the cache what is asked for."""

ROWS_AHEAD = 128
"""How far ahead rows of such a panel are asked for; about the latency of the memory."""


def prefetch_weights(
    sch: Schedule, loop: Any, rows: int, row_bytes: int, streams: int = 1, at_once: int = 1
) -> None:
    """Mark ``loop``: each of its steps asks for weights that the next tile, or a later step, will read.

    The body must read them, its last operand, in rows of ``row_bytes`` that follow each other in memory,
    ``at_once`` for each step and ``rows`` for a tile: rows of lanes, or of lanes of words. Where a tile reads
    several ``streams``, their first axis tells them apart.
    """
    panel = rows * row_bytes * streams
    ahead = rows * streams if panel <= PANEL_BYTES else ROWS_AHEAD
    sch.annotate(loop, PREFETCH, [ahead, streams, at_once])


def apply_prefetch(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Insert the prefetches into every marked loop of a scheduled function."""

    def on_loop(loop: tirx.For) -> tirx.For:
        if PREFETCH not in loop.annotations:
            return loop
        requests = _requests(loop.body, *map(int, loop.annotations[PREFETCH]))
        return unmarked(loop, PREFETCH, tirx.SeqStmt([*requests, loop.body]))

    return with_loops(func, on_loop)


def _requests(body: Any, ahead: int, streams: int, at_once: int) -> list[Any]:
    """One prefetch for each cache line of the rows of each stream that lie ``ahead``."""
    realizes = nodes_of(body, SBlockRealize)
    block = realizes[0].block
    weights = block.reads[-1].source
    loads = loads_of(block.body)
    load = next(found for found in loads if found.source.same_as(weights))
    dots = nodes_of(block.body, Call)
    # Behind the row its lanes, and in words the elements of each.
    word = int(weights.shape[-1]) if any(map(is_dot, dots)) else 1
    # The row of the step itself: where the loops within begin.
    first = {loop.loop_var: tirx.IntImm(str(loop.loop_var.ty), 0) for loop in nodes_of(body, tirx.For)}
    values = [substitute(value, first) for value in realizes[0].iter_values]
    axes = dict(zip([axis.var for axis in block.iter_vars], values, strict=True))
    stream, *window, row, _ = [substitute(index, axes) for index in load.indices][: -1 if word > 1 else None]
    lanes = int(weights.shape[-2 if word > 1 else -1])
    per_line = LINE_BYTES * 8 // (weights.dtype.bits * word)
    element = [0] if word > 1 else []
    places = [
        [stream + number, *window, row + ahead + later, lane, *element]
        for number in range(streams)
        for later in range(at_once)
        for lane in range(0, lanes, per_line)
    ]
    return [tirx.Evaluate(_request(tirx.BufferLoad(weights, place))) for place in places]


def _request(load: TensorLoad) -> Any:
    return tirx.call_intrin("void", "tirx.prefetch", tirx.address_of(load), _READ, _KEEP_IN_L2, _DATA)
