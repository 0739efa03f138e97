"""Direct convolutions of images whose size is known at run time.

The tiles are those of a usual size: along rows that are as long as a tile at least, the last one is moved
back to end with its row. For shorter rows the same function has tiles of one pixel.
"""

from dataclasses import replace
from typing import Any

from tvm import tirx
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm_ffi import structural_walk

from topi_ext.extents import fixed
from topi_ext.indexing import physical_axes
from topi_ext.knobs import ConvolutionKnobs
from topi_ext.schedule.blocks import annotated_block, open_schedule
from topi_ext.schedule.cpu.direct import schedule_convolution
from topi_ext.schedule.named_extents import with_named_extents
from topi_ext.schedule.overlap import substitute
from topi_ext.workload import ANNOTATION, ConvolutionWorkload
from topi_ext.workload_facts import fuses_rows

_LARGE = 1 << 14


def schedule_any_size(
    func: tirx.PrimFunc, workload: ConvolutionWorkload, knobs: ConvolutionKnobs
) -> Schedule:
    """Arrange the loops of ``func`` as ``knobs`` say, which are for ``workload``, that of a usual size."""
    # Both arrangements are of the same variables and buffers.
    plain = open_schedule(with_named_extents(func)).mod["main"]
    tiled = _with_known_tiles(schedule_convolution(plain, workload, knobs).mod["main"])
    run = _run(plain, workload)
    if knobs.tile_pixels == 1 or fixed(run) is not None:
        return open_schedule(tiled)
    one_by_one = schedule_convolution(plain, workload, replace(knobs, tile_pixels=1, rows=1))
    single = _with_known_tiles(one_by_one.mod["main"])
    return open_schedule(_either(run >= knobs.tile_pixels, tiled, single))


def _run(func: tirx.PrimFunc, workload: ConvolutionWorkload) -> Any:
    """How many pixels of the result there are in a row, along which tiles lie."""
    sch = open_schedule(func)
    found = annotated_block(sch)
    assert found is not None
    extents = [axis.dom.extent for axis in sch.get(found[0]).iter_vars]
    axes = physical_axes(workload.out_layout)
    width = extents[axes.index(("W", 0))]
    return extents[axes.index(("H", 0))] * width if fuses_rows(workload) else width


def _with_known_tiles(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with accumulators of an image that is larger than any.

    TVM keeps what a tile needs of them, no more than the image has: where that is not known, neither would
    be their number, and they would lie in memory.
    """
    root = func.body.block
    kept: dict[Any, Any] = {}
    for block in _blocks(root.body):
        if ANNOTATION in block.annotations:
            for region in block.writes:
                kept.setdefault(region.source, _enlarged(region.source))
    alloc_buffers = [kept.get(buffer, buffer) for buffer in root.alloc_buffers]
    body = substitute(root.body, kept)
    whole = SBlock([], root.reads, root.writes, root.name_hint, body, alloc_buffers=alloc_buffers)
    return func.with_body(SBlockRealize([], tirx.const(True, "bool"), whole))


def _blocks(body: Any) -> list[SBlock]:
    found: list[SBlock] = []
    structural_walk(body, (SBlock, found.append))
    return found


def _enlarged(buffer: Any) -> Any:
    shape = [extent if fixed(extent) is not None else tirx.IntImm("int64", _LARGE) for extent in buffer.shape]
    return tirx.decl_buffer(shape, buffer.dtype, buffer.name, layout=None)


def _either(condition: Any, first: tirx.PrimFunc, second: tirx.PrimFunc) -> tirx.PrimFunc:
    """A function that does what ``first`` does where ``condition`` holds, and else what ``second`` does.

    Both are arrangements of one function, with temporaries of their own.
    """
    root, other = first.body.block, second.body.block
    own = {buffer: tirx.Var(buffer.name, buffer.ty) for buffer in other.alloc_buffers}
    body = tirx.IfThenElse(condition, root.body, substitute(other.body, own))
    temporaries = [*root.alloc_buffers, *own.values()]
    whole = SBlock([], root.reads, root.writes, root.name_hint, body, alloc_buffers=temporaries)
    return first.with_body(SBlockRealize([], tirx.const(True, "bool"), whole))


__all__ = ["schedule_any_size"]
