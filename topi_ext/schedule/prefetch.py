"""Software prefetches: weights that come from memory are asked for one panel ahead.

A network's weights do not stay in the cache from one run to the next, and the hardware's prefetchers stop
at the end of each page.
"""

from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlockRealize, Schedule
from tvm_ffi import structural_map, structural_walk

from topi_ext.schedule.overlap import loops_within, substitute

PREFETCH = "topi_ext.prefetch"
"""Loop annotation: how many rows ahead weights are asked for, in how many streams."""

LINE_BYTES = 64

_READ, _KEEP_IN_L2, _DATA = 0, 2, 1
"""Operands of LLVM's prefetch: for reading, with moderate locality, into a data cache."""


PANEL_BYTES = 256 << 10
"""A longer panel would push out of the cache what is asked for."""

ROWS_AHEAD = 128
"""How far ahead rows of such a panel are asked for; about the latency of the memory."""


def prefetch_weights(sch: Schedule, loop: Any, rows: int, row_bytes: int, streams: int = 1) -> None:
    """Mark ``loop``: each of its steps asks for weights that the next tile, or a later step, will read.

    The body must read them, its last operand, in rows of ``row_bytes`` that follow each other in memory, one
    for each step and ``rows`` for a tile. Where a tile reads several ``streams``, their first axis tells
    them apart.
    """
    panel = rows * row_bytes * streams
    steps = rows * streams if panel <= PANEL_BYTES else ROWS_AHEAD
    sch.annotate(loop, PREFETCH, [steps, streams])


def apply_prefetch(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Insert the prefetches into every marked loop of a scheduled function."""

    def on_loop(loop: tirx.For) -> tirx.For:
        if PREFETCH not in loop.annotations:
            return loop
        steps, streams = loop.annotations[PREFETCH]
        requests = _requests(loop.body, int(steps), int(streams))
        annotations = {key: value for key, value in loop.annotations.items() if key != PREFETCH}
        body = tirx.SeqStmt([*requests, loop.body])
        return tirx.For(
            loop.loop_var, loop.min, loop.extent, loop.kind, body, loop.thread_binding, annotations, loop.step
        )

    return func.with_body(structural_map(func.body, (tirx.For, on_loop)))


def _requests(body: Any, steps: int, streams: int) -> list[Any]:
    """One prefetch for each cache line of the row of each stream that lies ``steps`` ahead."""
    realizes: list[Any] = []
    structural_walk(body, (SBlockRealize, realizes.append))
    block = realizes[0].block
    weights = block.reads[-1].source
    loads: list[Any] = []
    structural_walk(block.body, (TensorLoad, loads.append))
    load = next(found for found in loads if found.source.same_as(weights))
    # The row of the step itself: where the loops within begin.
    first = {loop.loop_var: tirx.IntImm(str(loop.loop_var.ty), 0) for loop in loops_within(body)}
    values = [substitute(value, first) for value in realizes[0].iter_values]
    axes = dict(zip([axis.var for axis in block.iter_vars], values, strict=True))
    stream, *outer, row, _ = [substitute(index, axes) for index in load.indices]
    per_line = LINE_BYTES * 8 // weights.dtype.bits
    return [
        tirx.Evaluate(_request(tirx.BufferLoad(weights, [stream + number, *outer, row + steps, column])))
        for number in range(streams)
        for column in range(0, int(weights.shape[-1]), per_line)
    ]


def _request(load: TensorLoad) -> Any:
    return tirx.call_intrin("void", "tirx.prefetch", tirx.address_of(load), _READ, _KEEP_IN_L2, _DATA)


__all__ = ["apply_prefetch", "prefetch_weights"]
