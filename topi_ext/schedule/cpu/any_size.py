"""Direct convolutions of images of dynamic size.

The register tile is that of a typical size. Along rows at least as long as a tile, the last tile is moved
back to end with the row; for shorter rows the function has more loop nests, the last of tiles of one pixel,
and for rows like the typical one it may have another whose tiles divide them.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule

from topi_ext.extents import fixed
from topi_ext.indexing import physical_axes
from topi_ext.knobs import ConvolutionKnobs
from topi_ext.schedule.blocks import anchor_of, open_schedule
from topi_ext.schedule.cpu.direct import schedule_convolution
from topi_ext.schedule.dynamic_tiles import either, with_known_tiles
from topi_ext.spaces.any_size import LONG_RUN, Shorter
from topi_ext.workloads.convolution import ANNOTATION, ConvolutionWorkload
from topi_ext.workloads.facts import fuses_rows


def schedule_any_size(
    func: tirx.PrimFunc,
    workload: ConvolutionWorkload,
    knobs: ConvolutionKnobs,
    shorter: Sequence[Shorter],
    whole: ConvolutionKnobs | None,
) -> Schedule:
    """Schedule ``func`` by ``knobs``, which were chosen for ``workload``, the convolution at a typical
    size, rows that are too short for them by ``shorter``, and rows of whole tiles of ``whole`` by that.
    """
    # All arrangements are of the same variables and buffers.
    plain = open_schedule(func).mod["main"]

    def arranged(size: ConvolutionWorkload, chosen: ConvolutionKnobs) -> tirx.PrimFunc:
        return with_known_tiles(schedule_convolution(plain, size, chosen).mod["main"], ANNOTATION)

    run = _run(plain, workload)
    known = fixed(run)
    if known is not None:
        chosen = knobs if whole is None or known % whole.tile_pixels else whole
        return open_schedule(arranged(workload, chosen))
    found = arranged(workload, knobs)
    if shorter:
        usual, (*others, single) = found, shorter
        found = arranged(single.workload, single.knobs)
        for each in reversed(others):
            found = either(_takes(run, each), arranged(each.workload, each.knobs), found)
        left = tirx.Not(reduce(tirx.Or, [_is_any_of(run, each.lengths) for each in shorter]))
        # That rows are a tile at least is said apart: where the last tile begins follows from that alone.
        found = either(tirx.And(run >= knobs.tile_pixels, left), usual, found)
    if whole is not None:
        found = either(_takes_whole(run, workload, knobs, whole), arranged(workload, whole), found)
    return open_schedule(found)


def _takes_whole(
    run: Any, workload: ConvolutionWorkload, knobs: ConvolutionKnobs, whole: ConvolutionKnobs
) -> Any:
    """Whether a run has the tiles of ``whole``, which divide it.

    Where rows are fused, short ones have kernels of their own, and long ones the usual tiles if these divide
    them as well.
    """
    # That there is a tile is said apart: where the last one begins follows from that alone.
    divides = tirx.And(run >= whole.tile_pixels, tirx.floormod(run, whole.tile_pixels) < 1)
    if not fuses_rows(workload):
        return divides
    usual = knobs.tile_pixels
    return tirx.And(divides, tirx.And(run >= usual, tirx.floormod(run, usual) > 0))


def _takes(run: Any, each: Shorter) -> Any:
    """Whether a run, one tile at least, has the tiles of ``each``."""
    return tirx.And(run >= each.knobs.tile_pixels, _is_any_of(run, each.lengths))


def _is_any_of(run: Any, lengths: Sequence[range]) -> Any:
    """Whether ``run``, which is not negative, lies in one of ``lengths``.

    Of more than one this is a bit of a word, from which TVM's passes conclude nothing: what many comparisons
    say of a run, they would carry to every access within a branch, which took most of a kernel's lowering.
    """
    if len(lengths) == 1 and not lengths[0].start:
        return run < lengths[0].stop
    bits = sum(1 << length for span in lengths for length in span)
    word = tirx.IntImm("int64", bits - (bits >> 63 << 64))
    # LLVM may take anything for what is shifted by more than there is, also where it is left out.
    place = run.astype("int64") & tirx.IntImm("int64", LONG_RUN - 1)
    bit = tirx.shift_right(word, place) & tirx.IntImm("int64", 1)
    return tirx.And(run < LONG_RUN, bit.equal(1))


def _run(func: tirx.PrimFunc, workload: ConvolutionWorkload) -> Any:
    """Pixels in the run along which tiles are laid: a row of the result, or the image where rows are
    fused.
    """
    sch = open_schedule(func)
    extents = [axis.dom.extent for axis in sch.get(anchor_of(sch)).iter_vars]
    axes = physical_axes(workload.out_layout)
    width = extents[axes.index(("W", 0))]
    return extents[axes.index(("H", 0))] * width if fuses_rows(workload) else width
