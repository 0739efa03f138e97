"""Knobs of convolutions of images whose size is known at run time, chosen for a usual size."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from topi_ext.knobs import ConvolutionKnobs, Knobs
from topi_ext.processor import Processor
from topi_ext.spaces.direct import direct_knobs
from topi_ext.spaces.direct_costs import traffic_cycles
from topi_ext.spaces.usual_sizes import overrun
from topi_ext.spaces.winograd import winograd_any_size_knobs
from topi_ext.workload import ConvolutionWorkload
from topi_ext.workload_facts import fuses_rows, lanes_are_pixels, tiled_channels

CHUNKS_PER_THREAD = 4
"""Chunks of rows that each thread has of an image of the usual size: of others the last chunks are then
shared evenly to an eighth."""


@lru_cache(maxsize=4096)
def any_size_knobs(
    workload: ConvolutionWorkload, processor: Processor, winograd: bool = True
) -> tuple[float, Knobs]:
    """The knobs of least estimated cycles, and these, for ``workload``, that of a usual size.

    What a tile at the end of a row computes again is counted as what it comes to over all sizes.
    ``winograd`` false keeps to direct ones.
    """
    found: list[tuple[float, Knobs]] = [
        (cycles * overrun(_run(workload), knobs.tile_pixels), knobs)
        for cycles, knobs in _with_still_rows(workload, processor)
        if _suits(workload, processor, knobs)
    ]
    if winograd:
        found += winograd_any_size_knobs(workload, processor)
    return min(found, key=lambda pair: pair[0])


def suits_any_size(workload: ConvolutionWorkload) -> bool:
    """Are its vectors channels of one pixel, and its tiles within a row, so that knobs fit other sizes?"""
    return not (lanes_are_pixels(workload) or fuses_rows(workload))


def _with_still_rows(
    workload: ConvolutionWorkload, processor: Processor
) -> Iterator[tuple[float, ConvolutionKnobs]]:
    """All knobs of direct kernels, each with its estimated cycles.

    Where tiles of channels overlap, those that a thread takes move, and the rows that were copied for them
    would have to move with them: they are copied for all channels, or ahead.
    """
    for cycles, knobs in direct_knobs(workload, processor):
        overlaps = tiled_channels(workload) % (knobs.lanes * knobs.tile_channels)
        if not overlaps or (knobs.order, knobs.pad_at) != ("channels", "chunk"):
            yield cycles, knobs
            continue
        before = traffic_cycles(workload, processor, knobs)
        for still in (replace(knobs, order="pixels"), replace(knobs, pad_at="stage")):
            if knobs.parallel or still.order == "channels":
                yield cycles + traffic_cycles(workload, processor, still) - before, still


def _run(workload: ConvolutionWorkload) -> int:
    """Pixels of the result along which tiles lie."""
    width = int(workload.out_width)
    return int(workload.out_height) * width if fuses_rows(workload) else width


def _suits(workload: ConvolutionWorkload, processor: Processor, knobs: ConvolutionKnobs) -> bool:
    """Are its chunks small beside what a thread has to do, and its tiles vectors?"""
    if knobs.matrix_rows:
        return False
    if knobs.order == "channels":
        return True
    rows = -(-_run(workload) // knobs.tile_pixels) if fuses_rows(workload) else int(workload.out_height)
    chunks = -(-rows // knobs.rows)
    return knobs.rows == 1 or chunks >= CHUNKS_PER_THREAD * processor.threads


__all__ = ["any_size_knobs", "suits_any_size"]
