"""A last chunk of fewer tiles: the loops over the tiles of a chunk end with the last tile there is."""

from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm_ffi import structural_map

from topi_ext.ir import unmarked

CHUNK = "topi_ext.chunk"
"""Loop annotation: over chunks of so many tiles."""

TILES = "topi_ext.tiles"
"""Loop annotation: over so many tiles at once, of a chunk, or outside of a loop over chunks of all."""

WHOLE = "topi_ext.whole"
"""Loop annotation: what such a loop computes is a multiple of so many tiles."""


def mark_chunk(sch: Schedule, loop: Any, size: int) -> None:
    """Mark the ``loop`` over chunks of ``size`` tiles each."""
    sch.annotate(loop, CHUNK, size)


def mark_tiles(sch: Schedule, loop: Any, at_once: int = 1, whole: int = 1) -> None:
    """Mark a ``loop`` that computes ``at_once`` tiles in each iteration, those of a chunk or all.

    ``whole`` is a multiple of ``at_once`` that divides a chunk: the loop goes on to the next multiple of it.
    """
    sch.annotate(loop, TILES, at_once)
    sch.annotate(loop, WHOLE, max(at_once, whole))


def end_with(func: tirx.PrimFunc, count: Any) -> tirx.PrimFunc:
    """End every marked loop of a scheduled function with the last of ``count`` tiles."""

    def on_chunk(chunk: tirx.For) -> tirx.For:
        if CHUNK not in chunk.annotations:
            return chunk
        left = count - chunk.loop_var * int(chunk.annotations[CHUNK])
        return unmarked(chunk, CHUNK, _ending(chunk.body, left))

    return func.with_body(_ending(structural_map(func.body, (tirx.For, on_chunk)), count))


def _ending(body: Any, left: Any) -> Any:
    """The statement whose marked loops end after ``left`` tiles."""

    def on_loop(loop: tirx.For) -> tirx.For:
        if TILES not in loop.annotations:
            return loop
        at_once, whole = (int(loop.annotations[mark]) for mark in (TILES, WHOLE))
        turns = tirx.floordiv(left + (whole - 1), whole) * (whole // at_once)
        return unmarked(unmarked(loop, WHOLE, loop.body), TILES, loop.body, tirx.min(loop.extent, turns))

    return structural_map(body, (tirx.For, on_loop))
