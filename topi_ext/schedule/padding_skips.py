"""Padding skips: kernel rows, columns and planes that see only padding are not multiplied.

A large or dilated kernel on a small image multiplies mostly zeros. One condition for each row, column or
plane of the kernel skips those that see only padding for all pixels of a register tile.
"""

from typing import Any

from tvm import tirx
from tvm.s_tir import SBlockRealize, Schedule
from tvm_ffi import structural_map

from topi_ext.ir import nodes_of, substitute, unmarked
from topi_ext.workload import ConvolutionWorkload

SKIPPED = "topi_ext.skip_padding"
"""Loop annotation: [block axis of the result, pixels of a tile, stride, dilation, padding before, extent]."""


def skip_padding(
    sch: Schedule, loop: Any, axis: int, workload: ConvolutionWorkload, side: int, pixels: int
) -> None:
    """Mark ``loop`` over the kernel's taps along one spatial axis, ``side`` as ``workload.along`` numbers
    them.

    ``axis`` is the position of the same spatial axis of the result among the block's axes; a register tile
    has ``pixels`` along it.
    """
    image = workload.along(side)
    sch.annotate(
        loop, SKIPPED, [axis, pixels, image.stride, image.dilation, image.pad_before, int(image.extent)]
    )


def apply_skip(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Guard the body of every marked loop of a scheduled function by whether any pixel lies in the image."""

    def on_loop(loop: tirx.For) -> tirx.For:
        if SKIPPED not in loop.annotations:
            return loop
        axis, pixels, stride, dilation, before, extent = map(int, loop.annotations[SKIPPED])
        realizes = nodes_of(loop.body, SBlockRealize)
        tile = {
            inner.loop_var: tirx.IntImm(str(inner.loop_var.ty), 0) for inner in nodes_of(loop.body, tirx.For)
        }
        first = substitute(realizes[0].iter_values[axis], tile) * stride + loop.loop_var * dilation
        inside = tirx.all(first + (pixels - 1) * stride >= before, first < before + extent)
        # Without the hint TVM would shape buffers by the condition.
        return unmarked(loop, SKIPPED, tirx.IfThenElse(tirx.likely(inside), loop.body, None))

    return func.with_body(structural_map(func.body, (tirx.For, on_loop)))


__all__ = ["apply_skip", "skip_padding"]
