"""Padding skips: kernel rows, columns and planes that see only padding are not multiplied.

A large or dilated kernel on a small image multiplies mostly zeros. One condition for each row, column or
plane of the kernel skips those that see only padding for all pixels of a register tile.
"""

from typing import Any

from tvm import tirx
from tvm.s_tir import SBlockRealize, Schedule

from topi_ext.indexing import physical_axes
from topi_ext.ir import holds, nodes_of, substitute, unmarked, with_loops
from topi_ext.workloads.convolution import ConvolutionWorkload

SKIPPED = "topi_ext.skip_padding"
"""Loop annotation: [block axis of the result, the same axis of the padded image, pixels of a tile, stride,
dilation, padding before, padding after]."""


def skip_padding(
    sch: Schedule, loop: Any, axis: int, workload: ConvolutionWorkload, side: int, pixels: int
) -> None:
    """Mark ``loop`` over the kernel's taps along one spatial axis, ``side`` as ``workload.along`` numbers
    them.

    ``axis`` is the position of the same spatial axis of the result among the block's axes; a register tile
    has ``pixels`` along it. The block reads a padded image first, whose size may be dynamic.
    """
    image, name = workload.along(side), "HWD"[side]
    padded = physical_axes(workload.data_layout).index((name, 0))
    padding = [image.pad_before, image.pad_after]
    sch.annotate(loop, SKIPPED, [axis, padded, pixels, image.stride, image.dilation, *padding])


def apply_skip(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Guard the body of every marked loop of a scheduled function by whether any pixel lies in the image."""

    def on_loop(loop: tirx.For) -> tirx.For:
        if SKIPPED not in loop.annotations:
            return loop
        axis, padded, pixels, stride, dilation, before, after = map(int, loop.annotations[SKIPPED])
        realizes = nodes_of(loop.body, SBlockRealize)
        image = next(
            region.source
            for region in realizes[0].block.reads
            if not holds([written.source for written in realizes[0].block.writes], region.source)
        )
        tile = {
            inner.loop_var: tirx.IntImm(str(inner.loop_var.ty), 0) for inner in nodes_of(loop.body, tirx.For)
        }
        first = substitute(realizes[0].iter_values[axis], tile) * stride + loop.loop_var * dilation
        inside = tirx.all(first + (pixels - 1) * stride >= before, first < image.shape[padded] - after)
        # Without the hint TVM would shape buffers by the condition.
        return unmarked(loop, SKIPPED, tirx.IfThenElse(tirx.likely(inside), loop.body, None))

    return with_loops(func, on_loop)
