"""Direct convolutions of images whose size is known at run time.

The tiles are those of a usual size: along rows that are as long as a tile at least, the last one is moved
back to end with its row. Where that computes much again, the same function has tiles of a second length, and
takes those that take less of its rows. For rows shorter than both it has tiles of one pixel.
"""

from dataclasses import replace
from typing import Any

from tvm import tirx
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm_ffi import structural_walk

from topi_ext.indexing import physical_axes
from topi_ext.knobs import ConvolutionKnobs, fuses_rows
from topi_ext.row_tiles import RowTiles
from topi_ext.schedule.blocks import annotated_block, fixed, open_schedule
from topi_ext.schedule.cpu.direct import schedule_convolution
from topi_ext.schedule.named_extents import with_named_extents
from topi_ext.schedule.overlap import substitute
from topi_ext.workload import ANNOTATION, ConvolutionWorkload

_LARGE = 1 << 14


def schedule_any_size(func: tirx.PrimFunc, workload: ConvolutionWorkload, tiles: RowTiles) -> Schedule:
    """Arrange the loops of ``func`` as ``tiles`` say, which are for ``workload``, that of a usual size."""
    # All arrangements are of the same variables and buffers.
    plain = open_schedule(with_named_extents(func)).mod["main"]
    run = _run(plain, workload)

    def arranged(knobs: ConvolutionKnobs) -> tirx.PrimFunc:
        return _with_known_tiles(schedule_convolution(plain, workload, knobs).mod["main"])

    kernels = [
        (knobs, _cycles(run, knobs, each)) for knobs, each in zip(tiles.kernels, tiles.cycles, strict=True)
    ]
    if fixed(run) is not None:
        return open_schedule(arranged(min(kernels, key=lambda kernel: int(kernel[1]))[0]))
    shortest, cycles = kernels[-1]
    found = arranged(shortest)
    if shortest.tile_pixels > 1:
        single = arranged(replace(shortest, tile_pixels=1, rows=1))
        found = _either(run >= shortest.tile_pixels, found, single)
    for knobs, own in reversed(kernels[:-1]):
        found = _either(tirx.all(run >= knobs.tile_pixels, own <= cycles), arranged(knobs), found)
        cycles = tirx.min(own, cycles)
    return open_schedule(found)


def _cycles(run: Any, knobs: ConvolutionKnobs, each: int) -> Any:
    """What the tiles of a row take, of which one takes ``each``."""
    return (run + (knobs.tile_pixels - 1)) // knobs.tile_pixels * each


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
