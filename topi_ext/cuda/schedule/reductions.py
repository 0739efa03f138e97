"""Sums and maxima over pixels, channels last: windows of a pooling, and whole images.

A thread walks a window alone, and its neighbours read the next channels. The pixels of an image are divided
among the threads of a block, each of which asks for several before it needs the first.
"""

from math import prod
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.tirx import PrimFunc

from topi_ext.cuda.multiprocessor import MOST_BLOCKS
from topi_ext.cuda.schedule.epilogue import result_run
from topi_ext.divisors import largest_divisor
from topi_ext.schedule.blocks import (
    child_blocks,
    fuse_epilogue,
    is_reduction,
    loop_extent,
    open_schedule,
    try_inline,
)

WINDOW, SMALL_WINDOW = 64, 32
"""Pixels that a thread reads alone at most, and where there are few results."""

FEW_PIXELS = 64
"""Pixels of the result, of all images: threads would be few if each had one of them."""

THREADS = 128
"""Threads of a block that walk windows."""

MOST_THREADS, FEW_THREADS = 1024, 256
"""Threads of an image's block: large images have pixels for more."""

LARGE_IMAGE = 512
"""Pixels."""

MANY_RESULTS = 4096
"""Sums that make blocks enough for a GPU, whatever channels each has."""

ASKED = 8
"""Pixels that a thread of an image's block asks for at once."""


def schedule_reduction(func: PrimFunc) -> Schedule | None:
    """Arrange a function of one reduction over axes before the last one; None for any other."""
    sch = open_schedule(func)
    found = _prepared(sch)
    if found is None:
        return None
    reduction, out = found
    inner = len(_reduced_loops(sch, reduction))
    extents = [loop_extent(sch, loop) for loop in sch.get_loops(reduction)]
    known = [extent for extent in extents if extent is not None]
    written = [loop_extent(sch, loop) for loop in sch.get_loops(out)]
    if len(known) < len(extents) or written != known[:-inner]:
        return None
    *pixels, channels = known[:-inner]
    taps = prod(known[-inner:])
    if taps <= (WINDOW if prod(pixels) > FEW_PIXELS else SMALL_WINDOW):
        _windows(sch, reduction, out, prod(pixels), channels)
    else:
        _images(sch, reduction, out, prod(pixels), channels, taps)
    return sch


def _prepared(sch: Schedule) -> tuple[Any, Any] | None:
    """The block that reduces and the one that writes the result, with all others inlined."""
    blocks = child_blocks(sch)
    reductions = [block for block in blocks if is_reduction(sch, block)]
    if len(reductions) != 1 or not _reads_channels_last(sch, reductions[0]):
        return None
    (reduction,) = reductions
    place = blocks.index(reduction)
    if not all(try_inline(sch, block) for block in blocks[:place]):
        return None
    if place == len(blocks) - 1:
        if len(sch.get(reduction).writes) > 1:
            return None
        return reduction, sch.cache_write(reduction, 0, "local")
    around = fuse_epilogue(sch, reduction)
    if around.epilogue is None or around.after:
        return None
    _keep_local(sch, reduction)
    return reduction, around.epilogue


def _keep_local(sch: Schedule, block: Any) -> None:
    """Keep what a block writes in registers: one result, or the place and the value of an extreme one."""
    for number in range(len(sch.get(block).writes)):
        sch.set_scope(block, number, "local")


def _reads_channels_last(sch: Schedule, block: Any) -> bool:
    """Is the last axis of the result that of what is reduced, and are reductions the innermost loops?"""
    node = sch.get(block)
    kinds = [axis.iter_type == tirx.IterVar.CommReduce for axis in node.iter_vars]
    spatial = [axis.var for axis, reduced in zip(node.iter_vars, kinds, strict=True) if not reduced]
    last = [region.region[-1].min for region in node.reads]
    return bool(spatial) and kinds == sorted(kinds) and len(last) == 1 and last[0].same_as(spatial[-1])


def _windows(sch: Schedule, reduction: Any, out: Any, pixels: int, channels: int) -> None:
    # Its loops are arranged where they are: moved to those of the result, they would be over regions whose
    # extents TVM cannot always tell.
    taps = _reduced_loops(sch, reduction)
    *others, channel = sch.get_loops(reduction)[: -len(taps)]
    lanes = result_run(channels)
    across = largest_divisor(channels // lanes, THREADS)
    down = largest_divisor(pixels, THREADS // across)
    pixel = sch.fuse(*others) if others else sch.add_unit_loop(channel)
    channel, thread_x, lane = sch.split(channel, [None, across, lanes])
    pixel, thread_y = sch.split(pixel, [None, down])
    sch.reorder(pixel, channel, thread_y, thread_x, *taps, lane)
    sch.bind(sch.fuse(pixel, channel), "blockIdx.x")
    sch.bind(thread_y, "threadIdx.y")
    sch.bind(thread_x, "threadIdx.x")
    sch.reverse_compute_at(out, thread_x, preserve_unit_loops=True)
    sch.vectorize(sch.get_loops(out)[-1])
    sch.vectorize(lane)
    init = sch.decompose_reduction(reduction, taps[0])
    sch.vectorize(sch.get_loops(init)[-1])
    for tap in taps:
        sch.unroll(tap)


def _images(sch: Schedule, reduction: Any, out: Any, pixels: int, channels: int, taps: int) -> None:
    across, threads = _block_of_an_image(pixels * channels, channels, taps)
    # Partial sums of one channel lie side by side: an odd number of them spreads channels over the banks.
    down = (1 << min(threads // across, taps // 2).bit_length() - 1) - 1
    pixel = sch.fuse(*_reduced_loops(sch, reduction))
    _, thread_y = sch.split(pixel, [None, down])
    partial = sch.rfactor(thread_y, 0)
    (total,) = sch.get_consumers(partial)
    # Its loops are arranged where they are: moving them would lose what guards the last pixels.
    *others, channel, turn, among = sch.get_loops(partial)
    image = sch.fuse(*others) if others else sch.add_unit_loop(channel)
    channel, lane = sch.split(channel, [None, across])
    sch.reorder(image, channel, lane, among, turn)
    # Neighbouring blocks share an image, unless there are more of them than a second axis has.
    images = loop_extent(sch, image) or 1
    first, second = (channel, image) if images <= MOST_BLOCKS else (image, channel)
    sch.bind(second, "blockIdx.y")
    sch.bind(first, "blockIdx.x")
    turn, asked = sch.split(turn, [None, min(ASKED, -(-taps // down))])
    sch.unroll(asked)
    for block in (total, out):
        sch.reverse_compute_at(block, channel, preserve_unit_loops=True)
    sums = sch.get_loops(total)[2:]
    axes = [axis.iter_type == tirx.IterVar.CommReduce for axis in sch.get(total).iter_vars]
    parts = sums.pop(axes.index(True))
    sch.reorder(*sums, parts)
    for loop, thread in (
        (lane, "x"),
        (among, "y"),
        (sums[-1], "x"),
        (parts, "y"),
        (sch.get_loops(out)[-1], "x"),
    ):
        sch.bind(loop, f"threadIdx.{thread}")
    sch.decompose_reduction(partial, turn)
    _keep_local(sch, partial)
    _keep_local(sch, total)


def _block_of_an_image(results: int, channels: int, taps: int) -> tuple[int, int]:
    """Channels of a block, and its threads at most, as an H100 measured means of 49 to 12544 pixels."""
    if taps < LARGE_IMAGE:
        return largest_divisor(channels, 32), FEW_THREADS
    if results >= MANY_RESULTS:
        return largest_divisor(channels, 64), MOST_THREADS
    # Fewer channels of a block make more blocks, and leave more threads for its pixels.
    return largest_divisor(channels, 8 if taps >= 4 * LARGE_IMAGE else 16), MOST_THREADS


def _reduced_loops(sch: Schedule, block: Any) -> list[Any]:
    """The loops of its reduction, which are the innermost."""
    axes = sch.get(block).iter_vars
    count = sum(axis.iter_type == tirx.IterVar.CommReduce for axis in axes)
    return list(sch.get_loops(block)[-count:])
